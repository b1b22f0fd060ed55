"""Item 5, for who reads: root opens no path that a user chose, and its terminal obeys nothing that a user has written.

Found: `penstock logs` of root opened the output of another user's job as root, a link to any file or a device, and wrote it to
root's terminal as it was.
"""

import fcntl
import io
import os
import pty
import pwd
import re
import socket
import sys
from pathlib import Path

import pytest

from cli.base import userfile
from cli.base.userfile import open_as
from penstock.v1.controller_pb2 import JobInfo
from sdk import logscommand
from sdk.output import OutputNotHere, read_output
from sdk.records import JobRecord, job_record

NOBODY = pwd.getpwnam("nobody")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def ran(path: Path, user: str) -> JobRecord:
    return job_record(
        JobInfo(job_id=7, state="COMPLETED", start_at_us=1, end_at_us=2, std_out=str(path).encode(), user_name=user)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of nobody's."""
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.geteuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o711)
    found = tmp_path / "theirs"
    found.mkdir()
    os.chown(found, NOBODY.pw_uid, NOBODY.pw_gid)
    return found


@pytest.mark.root
@ROOT_ONLY
def test_05_root_reads_an_output_with_its_users_rights(folder: Path) -> None:
    (folder / "own").write_text("theirs\n")
    assert read_output(ran(folder / "own", NOBODY.pw_name), None, False) == "theirs\n"
    secret = folder.parent / "secret"
    secret.write_text("roots\n")
    secret.chmod(0o600)
    (folder / "link").symlink_to(secret)
    for path in (secret, folder / "link", Path("/etc/shadow")):
        with pytest.raises(OutputNotHere, match="Permission denied"):
            read_output(ran(path, NOBODY.pw_name), None, False)
        assert read_output(ran(secret, "root"), None, False) == "roots\n"
    with pytest.raises(OutputNotHere, match="No such file"):
        read_output(ran(folder / "none", NOBODY.pw_name), None, False)


@pytest.mark.root
@ROOT_ONLY
def test_05_a_user_who_is_not_known_here_is_nobody(folder: Path) -> None:
    (folder / "own").write_text("theirs\n")
    with pytest.raises(OutputNotHere, match="'no-such-user' is not known on this machine"):
        read_output(ran(folder / "own", "no-such-user"), None, False)


@pytest.mark.root
@ROOT_ONLY
def test_05_a_file_system_of_the_users_that_does_not_answer_is_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with FUSE: opening it blocks. Here the process that opens is stopped by a question it does not get."""
    monkeypatch.setattr(userfile, "OPEN_S", 0.2)
    monkeypatch.setattr(socket.socket, "sendall", lambda *_: None)
    (folder / "own").write_text("theirs\n")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="timed out"):
        open_as(str(folder / "own"), NOBODY.pw_name)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.root
@ROOT_ONLY
def test_05_the_descriptor_is_not_inherited_and_none_is_left(folder: Path) -> None:
    (folder / "own").write_text("theirs\n")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        fd = open_as(str(folder / "own"), NOBODY.pw_name)
        assert not os.get_inheritable(fd) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        os.close(fd)
        with pytest.raises(PermissionError):
            open_as("/etc/shadow", NOBODY.pw_name)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("of", "terminal", "shown"), [
    ("else", True, "\\x1b]0;owned\\x07 \\x0d\\u202e\n"),
    ("else", False, "\x1b]0;owned\x07 \r\u202e\n"),
    ("me", True, "\x1b]0;owned\x07 \r\u202e\n"),
])  # fmt: skip
def test_05_what_another_user_wrote_is_sanitised_for_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of: str, terminal: bool, shown: str
) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    main, other = pty.openpty() if terminal else os.pipe()[:2]
    out = os.fdopen(other, "wb", buffering=0)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, write_through=True))
    write = logscommand.writer_of(None, ran(tmp_path, me if of == "me" else f"not-{me}"))
    write("\x1b]0;owned\x07 \r\u202e\n", True)
    assert os.read(main, 1000).decode().replace("\r\n", "\n") == shown
    os.close(main)


def test_05_a_line_without_an_end_is_searched_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`--grep` of a sparse file of terabytes held all of it in memory."""
    monkeypatch.setattr(logscommand, "LINE_CHARS_MAX", 100)
    read_end, write_end = os.pipe()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(os.fdopen(write_end, "wb", buffering=0), write_through=True))
    write = logscommand.writer_of(re.compile("x"), ran(tmp_path, "ann"))
    for piece in ("\0" * 50, "x", "\0" * 50, "y", "\0" * 200, "tail x"):
        write(piece, False)
    assert os.read(read_end, 1000) == b"\0" * 50 + b"x" + b"\0" * 50 + b"\n"
    write("", True)
    assert os.read(read_end, 1000) == b"tail x\n"
    os.close(read_end)
