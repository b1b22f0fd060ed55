"""The edge: errors become a line and a status, nothing becomes a traceback."""

import errno
import os
import subprocess
import sys

import pytest

from cli.base.run import CommandError, RemoteAnswer, status_of
from penstock.errors import PenstockError, Unreachable
from penstock.values.errors import BadValue
from tests.cli.fake_controller import ROOT


def failing(error):
    def body(argv):
        print("before")
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (CommandError("no\nnever", 255), 255, "x: error: no\nx: error: never\n"),
        (CommandError("as it is", plain=True), 1, "as it is\n"),
        (PenstockError(2017, "Invalid job id specified"), 1, "x: error: Invalid job id specified\n"),
        (
            Unreachable(detail="sock: gone"),
            1,
            "x: error: Unable to contact slurm controller (connect failure)\nx: sock: gone\n",
        ),
        (BadValue("bad"), 1, "x: error: bad\n"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "f"),
            1,
            "x: error: f: No such file or directory\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
        (ZeroDivisionError("oh"), 1, "x: error: internal error, please report it: ZeroDivisionError: oh\n"),
    ],
)
def test_errors(capsys, error, status, text):
    assert status_of("x", failing(error), []) == status
    shown = capsys.readouterr()
    assert shown.err == text
    assert shown.out == "before\n"


def test_an_answer_is_no_error(capsys):
    def body(argv):
        raise RemoteAnswer(f"help for {argv[0]}")

    assert status_of("x", body, ["me"]) == 0
    assert capsys.readouterr() == ("help for me\n", "")


def test_a_reader_that_goes_away_is_silent():
    script = "from cli.base.run import run\nrun('x', lambda argv: print('y' * 100000) or print('z') or 0)"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PYTHONPATH": str(ROOT)}
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_bytes_that_are_not_utf8_leave_as_they_came():
    script = "import sys\nfrom cli.base.run import run\nrun('x', lambda argv: print(argv[0]) or 0)"
    done = subprocess.run(
        [sys.executable, "-c", script, b"a\xff"], capture_output=True, env={"PYTHONPATH": str(ROOT), "LC_ALL": "C"}
    )
    assert done.stdout == b"a\xff\n"
    assert done.returncode == 0


def test_a_full_disk_is_told():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        script = "from cli.base.run import run\nrun('x', lambda argv: print('y') or 0)"
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, env={"PYTHONPATH": str(ROOT)}
        )
    assert b"x: error: No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.returncode != 0


def test_closed_streams_are_no_accident():
    script = "from cli.base.run import run\nrun('x', lambda argv: print('y') or int('no'))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", *command], env={"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 1
