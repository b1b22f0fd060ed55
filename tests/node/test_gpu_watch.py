"""The watcher of the GPU children, with real children on the fake library: hangs, losses, events, upgrades, ends."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import subprocess
import sys
from asyncio.base_subprocess import BaseSubprocessTransport
from pathlib import Path
from typing import cast

import pytest
from fakenvml import FakeNvml
from patience import ANSWER_S

from nodedaemon.core.gpumessages import Answering, Found, Hung, Lifetime, Polled, Xid
from nodedaemon.gpu import once, watch
from nodedaemon.gpu.child import ChildLimits, limits_of

QUICK = ChildLimits(
    slow_s=1.0, hung_s=3.0, kill_s=5.0, restart_first_s=0.05, restart_most_s=0.2, retry_s=0.1, return_s=0.1, merge_s=0.3
)
#: Where nothing hangs nothing is taken to hang, however busy the machine is.
PATIENT = dataclasses.replace(QUICK, slow_s=ANSWER_S, hung_s=2 * ANSWER_S)
A, B = "GPU-aaaaaaaa-0000-4000-8000-000000000000", "GPU-bbbbbbbb-0000-4000-8000-000000000001"


class Heard:
    """What the daemon hears, and waiting for it."""

    def __init__(self):
        self.words = []
        self._news = asyncio.Event()

    def __call__(self, word):
        self.words.append(word)
        self._news.set()

    def of(self, kind):
        return [word for word in self.words if isinstance(word, kind)]

    async def until(self, holds):
        """The first word that it holds for, from now on or already here."""
        async with asyncio.timeout(ANSWER_S):
            seen = 0
            while True:
                for word in self.words[seen:]:
                    if holds(word):
                        return word
                seen = len(self.words)
                self._news.clear()
                await self._news.wait()

    async def next(self, kind, holds=lambda word: True):
        begun = len(self.words)
        return await self.until(lambda word: isinstance(word, kind) and holds(word) and self._is_after(word, begun))

    def _is_after(self, word, begun):
        return any(word is later for later in self.words[begun:])


@pytest.fixture
def fake(tmp_path, monkeypatch):
    fake = FakeNvml(tmp_path / "state")
    for name, value in fake.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(watch.KMSG_VARIABLE, str(tmp_path / "no-kmsg"))
    return fake


@contextlib.asynccontextmanager
async def watching(limits=PATIENT, poll_s=0.1, found=None):
    heard = Heard()
    watcher = watch.GpuWatch(heard, limits)
    watcher.start(poll_s, found)
    pids = set()
    try:
        yield watcher, heard
    finally:
        pids = set(watcher.pids.values())
        await watcher.stop()
        # stop() has killed them, and waits for kill_s only until they have ended.
        async with asyncio.timeout(ANSWER_S):
            while not watcher.left and any(Path(f"/proc/{pid}").exists() for pid in pids):
                await asyncio.sleep(0.01)


def run(test):
    """A test as a coroutine, with its own loop."""

    def runner(fake):
        asyncio.run(test(fake))

    runner.__name__, runner.__doc__ = test.__name__, test.__doc__
    return runner


def answers(*uuids):
    return lambda word: isinstance(word, Polled) and [s.uuid for s in word.samples if not s.error] == list(uuids)


@run
async def test_polls_come_and_the_inventory_once(fake):
    async with watching() as (watcher, heard):
        first = await heard.until(answers(A, B))
        assert [d.uuid for d in first.found.devices] == [A, B] == [d.uuid for d in watcher.found.devices]
        await heard.next(Polled)
        assert [word.found for word in heard.words[1:]] == [None] * (len(heard.words) - 1)
        assert set(watcher.pids) == {"poll", "xids"}
    assert watcher.pids == {}


@run
async def test_a_poll_is_made_when_somebody_asks(fake):
    async with watching(poll_s=3600) as (watcher, heard):
        assert await watcher.poll(0) is None, "no answer within the limit"
        await heard.until(answers(A, B))
        fake.put({"gpu.0.temp": 77})
        polled = await watcher.poll(ANSWER_S)
        assert polled is watcher.last is heard.words[-1] and polled.samples[0].temperature_c == 77


@run
async def test_settings_hold_from_the_next_poll_on(fake):
    async with watching(poll_s=3600) as (watcher, heard):
        await heard.until(answers(A, B))
        fake.put({"gpu.0.proc.0": "77,1024,C,50,10", "gpu.0.acct.77": f"50,10,{1 << 20},9,8,1"})
        watcher.settle(poll_s=0.1, accounting=True, per_process=(A,))
        polled = await heard.next(Polled)
        assert polled.samples[0].processes[0].sm_percent == 50
        assert await watcher.lifetimes({A: (77, 78)}, ANSWER_S) == (Lifetime(A, 77, 50, 10, 1024, 9, 8, True),)
        await heard.next(Polled)  # no longer an hour
        assert not heard.of(Hung)


@run
async def test_one_gpu_hangs_and_the_other_is_watched_on(fake):
    async with watching(QUICK) as (watcher, heard):
        await heard.until(answers(A, B))
        fake.put({"gpu.1.hang": 1})
        hung = await heard.until(lambda word: isinstance(word, Hung))
        assert (hung.gpu, hung.function, hung.left) == (B, "nvmlDeviceGetHandleByIndex", 0)
        await heard.next(Polled, answers(A))
        await heard.next(Polled, answers(A))
        assert watcher.found.devices[1].uuid == B and len(heard.of(Hung)) == 1 and not heard.of(Answering)
        fake.put({"gpu.1.hang": None})
        assert (await heard.until(lambda word: isinstance(word, Answering))).gpu == B
        await heard.next(Polled, answers(A, B))
        assert len(heard.of(Hung)) == 1 and len(heard.of(Answering)) == 1
        assert [word.found for word in heard.of(Polled)[1:] if word.found] == []


@run
async def test_the_driver_hangs_as_a_whole(fake):
    fake.put({"hang.nvmlInitWithFlags": 1})
    async with watching(QUICK) as (_, heard):
        hung = await heard.until(lambda word: isinstance(word, Hung))
        assert (hung.gpu, hung.function) == ("", "nvmlInit")
        fake.put({"hang.nvmlInitWithFlags": None})
        answering = await heard.until(lambda word: isinstance(word, Answering))
        before = heard.words[: heard.words.index(answering)]
        assert answering.gpu == "" and len([word for word in before if isinstance(word, Polled)]) >= 2
        assert len(heard.of(Hung)) == 1


@run
async def test_a_slow_driver_is_not_a_hung_one(fake):
    async with watching(ChildLimits(slow_s=0.1, hung_s=15)) as (_, heard):
        await heard.until(answers(A, B))
        fake.put({"gpu.0.delay_ms": 300})
        polled = await heard.until(lambda word: isinstance(word, Polled) and any(s.slow for s in word.samples))
        assert polled.samples[1].temperature_c == 40 and not heard.of(Hung)


class Refusals(logging.Handler):
    """Waits for the watcher to say that it starts no child, because others do not die."""

    def __init__(self):
        super().__init__()
        self._news = asyncio.Semaphore(0)
        watch.log.addHandler(self)

    def emit(self, record):
        if "no more are started" in record.getMessage():
            self._news.release()

    async def more(self, count):
        """So often from now on."""
        async with asyncio.timeout(ANSWER_S):
            while not self._news.locked():
                await self._news.acquire()
            for _ in range(count):
                await self._news.acquire()

    def close(self):
        watch.log.removeHandler(self)
        super().close()


@run
async def test_children_that_do_not_die_are_counted_and_not_multiplied(fake):
    async with watching(ChildLimits(hung_s=2, kill_s=0.1, restart_first_s=0.02, restart_most_s=0.05, left_max=3)) as (
        watcher,
        heard,
    ):
        await heard.until(answers(A, B))
        killed, close, refusals = [], BaseSubprocessTransport.close, Refusals()
        BaseSubprocessTransport.close = lambda self: killed.append(self)  # type: ignore[method-assign]  # for all children of this test
        try:
            fake.put({"hang.nvmlDeviceGetCount_v2": 1})
            async with asyncio.timeout(ANSWER_S):
                while watcher.left < 2 or "poll" in watcher.pids:
                    await asyncio.sleep(0.02)
            await refusals.more(3)  # the time to start another has come three times
            assert len(killed) + len(watcher.pids) == 3 and watcher.pids.keys() <= {"xids"}
        finally:
            BaseSubprocessTransport.close = close  # type: ignore[method-assign]  # as it was
            refusals.close()
        for transport in killed:
            transport.close()
        fake.put({"hang.nvmlDeviceGetCount_v2": None})
        await heard.until(lambda word: isinstance(word, Answering))
        assert watcher.left == 0


@run
async def test_a_child_that_was_killed_comes_back(fake):
    async with watching() as (watcher, heard):
        await heard.until(answers(A, B))
        async with asyncio.timeout(ANSWER_S):
            while len(watcher.pids) < 2:
                await asyncio.sleep(0.01)
        for role in ("poll", "xids"):
            pid = watcher.pids[role]
            os.kill(pid, signal.SIGKILL)
            await heard.next(Polled, lambda word, pid=pid: pid not in watcher.pids.values())
        await heard.next(Polled, answers(A, B))
        assert not heard.of(Hung)


@run
async def test_an_upgraded_driver_needs_a_fresh_child(fake):
    async with watching() as (watcher, heard):
        await heard.until(answers(A, B))
        fake.put({"fn.nvmlDeviceGetCount_v2": 18})
        gone = await heard.until(lambda word: isinstance(word, Polled) and word.found and word.found.code)
        assert (gone.samples, gone.found.code) == ((), 18) and "mismatch" in gone.found.why
        assert [d.uuid for d in watcher.found.devices] == [A, B], "who they are is still known"
        fake.put({"fn.nvmlDeviceGetCount_v2": None, "sys.driver": "590.10"})
        back = await heard.next(Polled, lambda word: word.found is not None)
        assert (back.found.driver, back.found.code, len(back.found.devices)) == ("590.10", 0, 2)


@run
async def test_the_same_driver_again_is_told_too(fake):
    async with watching() as (_, heard):
        await heard.until(answers(A, B))
        fake.put({"fn.nvmlDeviceGetCount_v2": 9})
        await heard.until(lambda word: isinstance(word, Polled) and word.found and word.found.code == 9)
        fake.put({"fn.nvmlDeviceGetCount_v2": None})
        assert (await heard.next(Polled, lambda word: word.found is not None)).found.why == ""


@run
async def test_without_a_driver_nothing_runs_until_there_is_one(fake):
    fake.put({"fn.nvmlInitWithFlags": 9})
    found = once.find()
    assert (found.code, found.why) == (9, "NVML: Driver Not Loaded")
    async with watching(ChildLimits(retry_s=0.3), found=found) as (watcher, heard):
        assert watcher.pids == {} and heard.words[0].found.code == 9
        fake.put({"fn.nvmlInitWithFlags": None})
        assert [d.uuid for d in (await heard.until(answers(A, B))).found.devices] == [A, B]


class Sign(os.PathLike):
    """A file's name that knows how often somebody has looked for the file."""

    def __init__(self, path):
        self.path = path
        self.looks = 0
        self.often = asyncio.Event()

    def __fspath__(self):
        self.looks += 1
        if self.looks == 5:
            self.often.set()
        return str(self.path)


@run
async def test_without_a_library_nothing_is_started_before_the_driver_shows_itself(fake):
    looked_for = Sign(fake.path.with_name("sign"))
    sign, watch.SIGN = watch.SIGN, cast(str, looked_for)
    try:
        async with watching(found=Found(why="no library", code=12)) as (watcher, heard):
            async with asyncio.timeout(ANSWER_S):
                await looked_for.often.wait()
            assert watcher.pids == {} and fake.calls() == []
            looked_for.path.touch()
            await heard.until(answers(A, B))
    finally:
        watch.SIGN = sign


@run
async def test_gpus_that_vanish_and_come_back(fake):
    async with watching() as (watcher, heard):
        await heard.until(answers(A, B))
        fake.put({"sys.count": 1})
        fewer = await heard.next(Polled, lambda word: word.found is not None)
        assert [d.uuid for d in fewer.found.devices] == [A]
        fake.put({"sys.count": 2})
        more = await heard.next(Polled, lambda word: word.found is not None)
        assert [d.uuid for d in more.found.devices] == [A, B]
        fake.event(1, 0)  # of the past for whoever waits from now on
        await listening(watcher, fake)
        fake.event(1, 48)
        assert (await heard.next(Xid)).uuid == B


# ---- XIDs


async def listening(watcher, fake):
    """The child that waits for events waits for all of them."""
    async with asyncio.timeout(ANSWER_S):
        while True:
            lines = fake.log.read_text().splitlines()
            mine = [line for line in lines if line.startswith(f"{watcher.pids.get('xids', 0)} ")]
            if any("nvmlEventSetWait" in line for line in mine):
                return
            await asyncio.sleep(0.02)


@run
async def test_xids_are_told_also_of_a_lost_gpu(fake):
    async with watching(poll_s=3600) as (watcher, heard):
        await heard.until(answers(A, B))
        await listening(watcher, fake)
        fake.event(0, 31)
        fake.put({"gpu.1.lost": 1})
        fake.event(1, 79)
        await heard.until(lambda word: isinstance(word, Xid) and word.xid == 79)
        told = [(xid.uuid, xid.xid, xid.bus_id) for xid in heard.of(Xid)]
        assert told == [(A, 31, "0000:19:00.0"), (B, 79, "0000:3b:00.0")]
        polled = await heard.until(lambda word: isinstance(word, Polled) and word.samples[1].error)
        assert polled.samples[1].error == 15, "an XID makes a poll, an hour before the next"


@run
async def test_only_supported_events_are_waited_for(fake):
    fake.put({"gpu.0.events_supported": "0xffff", "gpu.1.events_supported": "0x1"})
    async with watching(poll_s=3600) as (watcher, heard):
        await heard.until(answers(A, B))
        await listening(watcher, fake)
        fake.put({"gpu.0.field.230": 1})
        fake.event(0, 1, 0x8000)
        polled = await heard.next(Polled)
        assert polled.samples[0].recovery_action == 1 and not heard.of(Xid)


def kernel_says(fd, xid, bus="0000:3b:00", pid=4242):
    at_us = int(float(Path("/proc/uptime").read_text().split()[0]) * 1e6)
    os.write(
        fd, f"6,1,{at_us},-;NVRM: Xid (PCI:{bus}): {xid}, pid={pid}, name=python, Timeout\n SUBSYSTEM=pci\n".encode()
    )


@pytest.fixture
def kmsg(fake, monkeypatch):
    path = fake.path.with_name("kmsg")
    os.mkfifo(path)
    monkeypatch.setenv(watch.KMSG_VARIABLE, str(path))
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


def test_an_xid_that_log_and_nvml_tell_is_told_once_with_its_process(fake, kmsg):
    async def test():
        async with watching(poll_s=3600) as (watcher, heard):
            await heard.until(answers(A, B))
            await listening(watcher, fake)
            fake.event(1, 119)
            kernel_says(kmsg, 119)
            fake.event(0, 31)  # the log has nothing of this one
            await heard.until(lambda word: isinstance(word, Xid) and word.xid == 31)
            kernel_says(kmsg, 13, bus="0000:ff:00", pid="'<unknown>'")
            await heard.until(lambda word: isinstance(word, Xid) and word.xid == 13)
            told = [(x.uuid, x.xid, x.pid, x.bus_id) for x in heard.of(Xid)]
            assert told == [(B, 119, 4242, "0000:3b:00.0"), (A, 31, 0, "0000:19:00.0"), ("", 13, 0, "0000:ff:00.0")]
            assert heard.of(Xid)[0].text == "pid=4242, name=python, Timeout"

    asyncio.run(test())


def test_the_log_speaks_when_the_driver_does_not(fake, kmsg):
    async def test():
        async with watching(QUICK) as (_, heard):
            await heard.until(answers(A, B))
            fake.put({"hang.nvmlEventSetWait_v2": 1, "hang.nvmlDeviceGetCount_v2": 1})
            kernel_says(kmsg, 119)
            kernel_says(kmsg, 119)
            kernel_says(kmsg, 119, pid=4243)
            await heard.until(lambda word: isinstance(word, Xid) and word.pid == 4243)
            assert [(x.uuid, x.pid) for x in heard.of(Xid)] == [(B, 4242), (B, 4243)]
            await heard.until(lambda word: isinstance(word, Hung))

    asyncio.run(test())


# ---- ends


def test_children_end_with_a_daemon_that_is_killed(fake):
    code = f"""
import asyncio
from nodedaemon.gpu.watch import GpuWatch as Watch
async def main():
    polled = asyncio.Event()
    watch = Watch(lambda word: polled.set()); watch.start(0.1); await polled.wait()
    while len(watch.pids) < 2: await asyncio.sleep(0.01)
    open({str(fake.path.with_name("put"))!r}, "w").close()
    print(*watch.pids.values(), flush=True); await asyncio.sleep(60)
asyncio.run(main())
"""
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root) as daemon:
        pids = [int(word) for word in daemon.stdout.readline().split()]
        fake.put({"gpu.0.hang": 1, "hang.nvmlEventSetWait_v2": 1})  # they cannot even look at their input
        fds = [os.pidfd_open(pid) for pid in pids]
        daemon.kill()
    assert len(pids) == 2
    import select

    for fd in fds:
        assert select.select([fd], [], [], ANSWER_S)[0]
        os.close(fd)


@run
async def test_the_loop_is_never_blocked(fake):
    """However long calls of NVML take: timers of the loop go on."""
    async with watching(ChildLimits(hung_s=2 * ANSWER_S)) as (watcher, heard):
        await heard.until(answers(A, B))
        fake.put({"gpu.0.hang": 1})
        async with asyncio.timeout(ANSWER_S):
            assert await watcher.poll(0.1) is None  # nor does the next one
            for _ in range(20):
                await asyncio.sleep(0.01)
        assert not heard.of(Hung)


def test_limits_from_the_environment():
    assert limits_of({}) == ChildLimits()
    assert limits_of({"PENSTOCK_GPU_LIMITS": "hung_s=1 retry_s=0.5"}) == ChildLimits(hung_s=1, retry_s=0.5)
    with pytest.raises(ValueError, match="PENSTOCK_GPU_LIMITS: hang_s"):
        limits_of({"PENSTOCK_GPU_LIMITS": "hang_s=1"})


# ---- at the daemon's start


def test_a_gpu_that_hangs_at_the_start_is_left_out(fake):
    fake.put({"gpu.0.hang": 1})
    found = once.find(call_limit_s=0.5)
    assert ([d.uuid for d in found.devices], found.nameless, found.why) == ([B], (0,), "")


def test_a_driver_that_hangs_at_the_start_costs_its_limit_only(fake):
    fake.put({"hang.nvmlInitWithFlags": 1})
    assert once.find(call_limit_s=0.5) == Found(why="NVML did not answer within 0 s (nvmlInit)")


def test_a_child_that_dies_at_the_start(fake, tmp_path):
    program = tmp_path / "broken.py"
    program.write_text("raise SystemExit('broken driver')")
    assert once.find(program=str(program)).why.startswith("NVML's child ended without an answer")
    program.write_text("import os; os.write(1, b'\\x01\\0\\0\\0\\xff')")
    assert once.find(program=str(program)).why.startswith("NVML's child sent an invalid message")
