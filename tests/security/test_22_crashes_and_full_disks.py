"""Keys, certificates and their list after a crash between two files, and on a full disk."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from nodedaemon import main as noded_main
from nodedaemon.base import scripts
from nodedaemon.base.conffile import write_conf
from nodedaemon.daemon import localauth
from nodedaemon.gpu import kept
from nodedaemon.stepd.task import TaskError
from penstock.clusterfile import ClusterFile, write_cluster
from penstock.errors import BadSetup
from penstock.security import ca, issued
from penstock.security.ca import create_ca, ensure_controller, issue_to_folder, load_credentials
from penstock.security.keyfiles import write_public, write_secret
from tests.rpc.clusterkit import QuietLog, now_us

HOSTS = ("localhost", "127.0.0.1")
DAY_US = 86_400_000_000


class Crash(Exception):
    """The process has ended here."""


def full(*args: object, **more: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create_ca(tmp_path / "ca", "c", now_us())
    return tmp_path / "ca"


@pytest.mark.parametrize("files", [0, 1])
def test_a_controller_that_crashes_while_it_renews_starts_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """After none of its files, and after the first; its key stays."""
    before = ensure_controller(folder, "ctl", HOSTS, now_us())
    later_us = now_us() + 85 * DAY_US
    replaced: list[str] = []
    plain = os.replace

    def replace(draft: Path, path: Path) -> None:
        if len(replaced) == files:
            raise Crash
        replaced.append(path.name)
        plain(draft, path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(Crash):
            ensure_controller(folder, "ctl", HOSTS, later_us)
    after = ensure_controller(folder, "ctl", HOSTS, later_us)
    assert after.certificate.serial_number != before.certificate.serial_number
    assert after.key_pem == before.key_pem


def test_a_pair_that_an_earlier_release_has_left_is_mended(folder: Path) -> None:
    """The key is of the new certificate, which was not written."""
    old = ensure_controller(folder, "ctl", HOSTS, now_us())
    write_secret(folder / "controller.key", ca.key_to_pem(ca.make_key()))
    with pytest.raises(BadSetup, match="is not the key of"):
        load_credentials(folder, "controller", None)
    repaired = ensure_controller(folder, "ctl", HOSTS, now_us())
    assert repaired.certificate.serial_number != old.certificate.serial_number


def test_a_new_ca_of_which_a_crash_left_the_key_is_completed(tmp_path: Path) -> None:
    made = create_ca(tmp_path, "c", now_us())
    (tmp_path / "ca.pem").unlink()
    again = create_ca(tmp_path, "c", now_us())
    assert again.key.private_numbers() == made.key.private_numbers()
    ensure_controller(tmp_path, "ctl", HOSTS, now_us())
    (tmp_path / "ca.pem").unlink()  # now certificates depend on it
    with pytest.raises(BadSetup, match="restore it from a backup"):
        create_ca(tmp_path, "c", now_us())


def test_a_record_that_is_not_written_whole_gives_no_certificate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issue_to_folder(ca.load_ca(folder), folder / "n1", "node", "n1", now_us())
    plain = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: plain(fd, data[:-5]))
        with pytest.raises(BadSetup, match="cannot be written: No space left"):
            issue_to_folder(ca.load_ca(folder), folder / "n2", "node", "n2", now_us())
    assert not (folder / "n2" / "node.pem").exists()
    issue_to_folder(ca.load_ca(folder), folder / "n3", "node", "n3", now_us())
    assert [entry.name for entry in issued.read(folder)] == ["n1", "n3"]


@pytest.mark.parametrize("what", ["key file", "cluster file", "slurm.conf"])
def test_a_full_disk_keeps_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / "file"
    writers = {
        "key file": lambda: write_public(path, b"new"),
        "cluster file": lambda: write_cluster(path, ClusterFile("c", "h", "", "", "", "")),
        "slurm.conf": lambda: write_conf(str(path), "new"),
    }
    path.write_text("old")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises((BadSetup, OSError)):
        writers[what]()
    assert os.listdir(tmp_path) == ["file"] and path.read_text() == "old"


def test_a_file_of_the_gpu_agent_is_written_whole(tmp_path: Path) -> None:
    """The limit of a file's size cuts a write short, as a full disk does."""
    import resource
    import signal

    dir_fd = os.open(tmp_path, os.O_RDONLY)
    kept.save(dir_fd, "health", b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        with pytest.raises(OSError, match="File too large"):
            kept.save(dir_fd, "health", b"n" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert (tmp_path / "health").read_bytes() == b"old" and os.listdir(tmp_path) == ["health"]
    os.close(dir_fd)


def test_a_login_host_with_a_full_disk_says_so(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issue_to_folder(ca.load_ca(folder), tmp_path / "certs", "login", "l1", now_us())
    monkeypatch.setattr(localauth, "write_cluster", full)
    with pytest.raises(BadSetup, match="cluster.json: cannot be written: No space left"):
        localauth.serve_logins(tmp_path / "login", tmp_path / "certs", "127.0.0.1:1", QuietLog())
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_a_node_with_a_full_spool_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(noded_main, "Spool", full)
    words = ["--node-name", "n1", "--controller", f"unix:{tmp_path}/x", "--spool", str(tmp_path / "spool")]
    assert noded_main.main([*words, "--cpus", "1", "--stream-port", "0"]) == noded_main.EX_TEMPFAIL
    assert capsys.readouterr().err == (
        f"penstock noded: error: cannot use {tmp_path}/spool: No space left on device\n"
        "penstock noded: error: make room in its file system (`df` and `df -i` show what is used up); then another start will do\n"
    )


@pytest.mark.parametrize(("error", "reason"), [
    (PermissionError(errno.EPERM, "user unknown: uid 7"), "user unknown: uid 7"), (TaskError("no such user"), "no such user"),
    (KeyError("x"), "'x'"), (OSError("odd"), "odd"), (ValueError(), "ValueError"),
])  # fmt: skip
def test_why_a_program_of_the_site_was_not_executed_is_in_its_output(error: Exception, reason: str) -> None:
    def before() -> None:
        raise error

    outcome = scripts.run(["/bin/true"], {}, 60, before)
    assert (outcome.output.decode(), outcome.failure) == (f"/bin/true: {reason}\n", "/bin/true: exit status 127")
