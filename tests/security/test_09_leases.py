"""Item 9, on a node: what a user has left in the spool holds up no job of another user.

Found: the folder of a step has the script of an earlier one, which is that user's file. Its user took a lease on it, without a
job: the supervisor of the next step could not open it, and failed, for every folder that such a script was in.
"""

import fcntl
import os
import signal
from pathlib import Path

import pytest

from nodedaemon.base.folders import SCRIPT_NAME
from nodedaemon.stepd import batchscript

SCRIPT = b"#!/bin/sh\n"


@pytest.fixture
def folder(tmp_path: Path) -> int:
    return os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)


def test_09_a_lease_on_an_old_script_keeps_no_step_from_its_start(tmp_path: Path, folder: int) -> None:
    who = (os.getuid(), os.getgid(), os.geteuid() == 0)
    batchscript.provide(folder, b"#!/bin/sh\n# before\n", *who)
    old = tmp_path / SCRIPT_NAME
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # "the lease is broken"
    old.chmod(0o700)
    lease = os.open(old, os.O_RDWR)
    try:
        os.fchmod(lease, batchscript.MODE)
        fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        with pytest.raises(BlockingIOError):
            os.open(old, os.O_RDONLY | os.O_NONBLOCK)
        batchscript.provide(folder, SCRIPT, *who)
        assert old.read_bytes() == SCRIPT and os.fstat(lease).st_nlink == 0
    finally:
        os.close(lease)
        os.close(folder)
        signal.signal(signal.SIGIO, before)
