"""Starts a child for one login, gives it the question by a pipe, reads its verdict, and kills its session at a deadline."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import Final, NamedTuple

import msgspec

from pamd.service import PamVerdict
from penstock.passwordlogin import LoginQuestion

#: Time of one check, with all that PAM's modules ask.
DEADLINE_S: Final = 10.0
#: A verdict is some words.
VERDICT_BYTES_MAX: Final = 4096
_ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROGRAM: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pamd.attempt import main; main(sys.argv[1:])"
#: What programs of pam_exec find; nothing of the daemon's.
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


class CheckSettings(NamedTuple):
    """What a child is told beside the question."""

    service: str
    min_uid: int
    allowed: tuple[str, ...] = ()
    may_use_network: bool = False
    deadline_s: float = DEADLINE_S

    def words(self) -> list[str]:
        """Its arguments (pamd.attempt)."""
        return [
            str(self.min_uid), ",".join(self.allowed), "network" if self.may_use_network else "alone", self.service,
        ]  # fmt: skip


async def check_password(question: LoginQuestion, settings: CheckSettings) -> PamVerdict:
    """Asks PAM in a child."""
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT, *settings.words(),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env=_ENVIRONMENT, cwd="/", start_new_session=True, limit=VERDICT_BYTES_MAX,
        )  # fmt: skip
    except OSError as error:
        return PamVerdict("broken", f"no child can be started: {error.strerror}")
    text = json.dumps([question.name, question.password, question.address]).encode()
    said = b""
    try:
        async with asyncio.timeout(settings.deadline_s):
            said = await _spoken(child, text)
    except TimeoutError:
        return PamVerdict("broken", f"PAM has not answered within {settings.deadline_s:.0f} s")
    finally:
        _kill(child)
        await child.wait()
    return verdict_of(said, child.returncode)


async def _spoken(child: asyncio.subprocess.Process, text: bytes) -> bytes:
    assert child.stdin is not None and child.stdout is not None  # both are pipes
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended: what it printed says why
        child.stdin.write(text)
        await child.stdin.drain()
    child.stdin.close()
    return await child.stdout.read(VERDICT_BYTES_MAX)


def verdict_of(said: bytes, status: int | None) -> PamVerdict:
    """What a child printed; one that printed nothing was killed, or has crashed in a module."""
    try:
        word, why, is_known = msgspec.json.decode(said, type=tuple[str, str, bool])
    except msgspec.MsgspecError:
        return PamVerdict("broken", f"the child has ended with {status} and without a verdict")
    known = word in ("yes", "no", "expired", "account expired", "not here", "broken")
    return PamVerdict(word, why, is_known) if known else PamVerdict("broken", "the child printed something else")


def _kill(child: asyncio.subprocess.Process) -> None:
    """Ends its session: a program that a module has started, too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
