"""Issue 14, number 8 (programs that run as a user): how long a user's program takes to begin is nobody else's matter.

The attack: a trigger's program lies on a file system of the user's own (FUSE), which never answers the kernel's execve; or the
user stops the process that has become them and has not executed the program yet. Waiting for its beginning in one of the
threads for looking up users occupies that thread forever, and after some of them nobody is looked up any more.
"""

import asyncio
import os
from pathlib import Path

import pytest
from patience import END_S

from ctld.runtime import become, programs

STUCK = 40


def _stuck(tmp_path: Path) -> str:
    """In the place of become.py: it keeps the descriptor, and never comes to the program."""
    path = tmp_path / "stuck.py"
    path.write_text("import signal\nsignal.pause()\n")
    return str(path)


def test_08_programs_that_never_begin_take_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(become, "__file__", _stuck(tmp_path))
    me = programs.UserIdentity(os.getuid(), os.getgid(), (os.getgid(),))

    async def attack() -> None:
        starts = [asyncio.create_task(programs.start(["/bin/true"], {}, me)) for _ in range(STUCK)]
        done, _ = await asyncio.wait(starts, timeout=1.0)
        assert not done
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), END_S) == 7
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)

    asyncio.run(attack())


def test_08_a_program_that_does_not_begin_in_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(become, "__file__", _stuck(tmp_path))
    monkeypatch.setattr(programs, "BEGIN_S", 0.2)
    me = programs.UserIdentity(os.getuid(), os.getgid(), (os.getgid(),))
    with pytest.raises(OSError, match="timed out"):
        asyncio.run(programs.start(["/bin/true"], {}, me))
