"""`penstock ctld` as a process: how it refuses to start, how it is controlled, how it ends."""

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patience import ANSWER_S

from ctld.daemon import Controller
from ctld.runtime import exits
from ctld.store.committer import Store
from ctld.store.errors import StoreDamaged
from penstock.interpreter import running_build
from penstock.v1 import controller_pb2
from tests.rpc.clusterkit import Process, QuietLog, Site, jobs_of, submit

ROOT = Path(__file__).resolve().parents[2]
#: Prints the bytes in mapped blocks after a large block was freed and one of 1 MB was allocated (glibc 2.33).
MAPPED = """
import ctypes
class Info(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in "arena ord smb blks blkhd usmblks fsmblks uord ford keep".split()]
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.mallinfo2.restype = ctypes.c_void_p, Info
libc.free.argtypes, libc.malloc.argtypes = [ctypes.c_void_p], [ctypes.c_size_t]
{before}
libc.free(libc.malloc(20 << 20))
mapped = libc.mallinfo2().blkhd
block = libc.malloc(1 << 20)
print(libc.mallinfo2().blkhd - mapped)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc 2.33 or later")
def test_large_blocks_are_mapped_one_by_one_also_after_larger_ones() -> None:
    set_limits = "from ctld.runtime import heap\nheap.set_limits()"
    found = [
        int(
            subprocess.run([sys.executable, "-c", MAPPED.format(before=before)], capture_output=True, check=True).stdout
        )
        for before in ("", set_limits)
    ]
    assert found[0] == 0
    assert found[1] >= 1 << 20


#: Runs the controller, and sends it a signal at the moment at which it says that it listens.
AT_ONCE = """
import os, signal, sys
import ctld.daemon
from ctld.main import main
info = ctld.daemon.log.info
def log_and_signal(text, *values):
    info(text, *values)
    if "listening on" in text:
        os.kill(os.getpid(), signal.SIGTERM)
ctld.daemon.log.info = log_and_signal
sys.exit(main(["-f", sys.argv[1]]))
"""


def test_a_signal_at_the_first_moment_is_a_clean_stop(tmp_path):
    site = Site(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, str(site.conf)], capture_output=True, text=True, timeout=ANSWER_S
    )
    assert done.returncode == 0, done.stderr
    assert "stopping: SIGTERM" in done.stderr and not (site.state / "ctld.sock").exists()


async def ends_with(site: Site, status: int, *words: str) -> None:
    site.state.mkdir(exist_ok=True)
    process = Process(site)
    assert await process.ended() == status
    log = process.log.read_text()
    assert all(word in log for word in words), log
    assert "Traceback" not in log


def test_a_bad_configuration_is_named_with_file_and_line(tmp_path):
    site = Site(tmp_path)
    site.conf.write_text(site.conf.read_text() + "NoSuchKey=1\n")
    line = len(site.conf.read_text().splitlines())
    asyncio.run(ends_with(site, 78, f"{site.conf}:{line}: unknown parameter NoSuchKey"))


def test_a_configuration_that_is_not_there(tmp_path):
    site = Site(tmp_path)
    site.conf.unlink()
    asyncio.run(ends_with(site, 78, str(site.conf)))


def test_a_port_that_is_taken(tmp_path):
    site = Site(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", site.ports[0]))
        other.listen()
        asyncio.run(ends_with(site, 78, f"127.0.0.1:{site.ports[0]}: cannot listen"))


def test_a_key_that_others_can_read(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller():
            pass
        (site.state / "ca" / "controller.key").chmod(0o644)
        await ends_with(site, 78, str(site.state / "ca" / "controller.key"))

    asyncio.run(story())


def test_another_controller_of_the_same_database_leads(tmp_path):
    site = Site(tmp_path)

    async def story():
        other = Store.open(site.state / "penstock.db", "elsewhere:/state")
        other.acquire_lease(2**52)  # a lease that lasts
        await ends_with(site, 75, "elsewhere:/state")
        other.close()

    asyncio.run(story())


def test_a_deposed_controller_ends_at_once(tmp_path):
    site = Site(tmp_path)

    async def story():
        process = Process(site)
        try:
            await process.up()
            other = await asyncio.to_thread(Store.open, site.state / "penstock.db", "elsewhere")
            other.acquire_lease(2**52)  # so late that the first one's lease is over
            assert await process.ended() == 70
            assert "another controller has taken over" in process.log.read_text()
            other.close()
        finally:
            if process.child.poll() is None:
                process.kill()

    asyncio.run(story())


def test_hang_up_reads_again_and_term_stops(tmp_path):
    site = Site(tmp_path)

    async def story():
        process = Process(site)
        try:
            await process.up()
            async with site.client() as client:
                await submit(client, hold=True)
                site.write(nodes=3)
                os.kill(process.child.pid, signal.SIGHUP)
                async with asyncio.timeout(ANSWER_S):
                    # said after the new nodes can be read; a controller that is stopped in between does not say it
                    while "the configuration was read again" not in process.log.read_text():
                        await asyncio.sleep(0.01)
                assert len((await client.call("ListNodes", controller_pb2.ListNodesRequest())).nodes) == 3
                assert len(await jobs_of(client)) == 1
            state = {path.name: path.stat().st_mode & 0o777 for path in site.state.iterdir()}
            assert state["penstock.db"] == 0o600 and state["ca"] == 0o700 and state["flight"] == 0o700
            assert state["ctld.sock"] == state["calls.sock"] == state["auth.sock"] == 0o666
            assert site.state.stat().st_mode & 0o777 == 0o711
        finally:
            assert await asyncio.to_thread(process.stop) == 0
        log = process.log.read_text()
        assert "stopping: SIGTERM" in log
        assert f"job 1 attempt 0: submit uid {os.getuid()}" in log
        warnings = log.count("without profile-guided optimisation")
        assert warnings == (0 if running_build().is_optimised else 1), "once a start, not again with a reload"

    asyncio.run(story())


def test_usr2_opens_the_log_again_and_ends_nothing(tmp_path):
    """Rules of logrotate for Slurm send it; it ended the controller."""
    log = tmp_path / "ctld.log"
    site = Site(tmp_path, extra=f"SlurmctldLogFile={log}\n")

    async def story():
        process = Process(site)
        try:
            await process.up()
            log.rename(tmp_path / "old.log")
            os.kill(process.child.pid, signal.SIGUSR2)
            async with asyncio.timeout(ANSWER_S):
                while not log.exists():
                    await asyncio.sleep(0.01)
            async with site.client() as client:
                await submit(client, hold=True)
        finally:
            assert await asyncio.to_thread(process.stop) == 0
        text = log.read_text()
        assert "stopping: SIGTERM" in text and "the configuration was read again" not in text

    asyncio.run(story())


def test_20_systemd_starts_no_controller_again_that_would_fail_again():
    """A damaged database, one that is older than what was acknowledged, a bad configuration; nothing else."""
    unit = ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # names as they are written
    unit.read(ROOT / "packaging" / "penstock-ctld.service")
    service = unit["Service"]
    assert service["Restart"] == "on-failure"
    assert [int(word) for word in service["RestartPreventExitStatus"].split()] == sorted(exits.STAY_DOWN)
    assert sorted(exits.STAY_DOWN) == [exits.DAMAGED, exits.OLDER, exits.CONFIG]


def test_20_damage_ends_it_with_a_status_and_words_of_its_own_and_no_stack(monkeypatch, caplog):
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    daemon: Any = SimpleNamespace(logs=QuietLog())
    controller = Controller(daemon)
    for error in (StoreDamaged("malformed; restore a backup"), ValueError("wrong")):
        try:
            raise error
        except (StoreDamaged, ValueError) as caught:
            controller._fail("the commit failed", caught)  # private: every other way there ends this process
    assert ended == [65, 70]
    damage, fault = caplog.records
    assert damage.getMessage() == "the commit failed: malformed; restore a backup" and not damage.exc_info
    assert fault.exc_info
