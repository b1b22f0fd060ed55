"""What the processes of a job do, for the message of a test that has waited for it in vain.

`with shown(job, folder):` adds to a failure: of each process of the job its threads' states and where the kernel has them,
the Python stacks of those that have FAULT_HANDLER in their environment (they are ended for it), and the job's output.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

#: Environment of a job whose Python programs show their stacks: SIGABRT writes them to the error output.
FAULT_HANDLER = {"PYTHONFAULTHANDLER": "1"}
#: Time limit for processes that write their stacks.
STACKS_MS = 10_000
OUTPUT_BYTES_MAX = 64 * 1024


@contextlib.contextmanager
def shown(job: int, folder: Path) -> Iterator[None]:
    """Adds the traces of a job to a failed assertion. `folder`: from where it was submitted, with its output files."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\n{traces(job, folder)}") from error


def traces(job: int, folder: Path) -> str:
    """All of it, as text."""
    pids = processes(job, folder)
    parts = [_process(pid) for pid in pids] or [f"no process of job {job} is left"]
    _write_stacks(pids)
    for path in sorted(folder.glob(f"*{job}*")):
        if path.is_file():
            parts.append(f"---- {path.name}\n{path.read_bytes()[-OUTPUT_BYTES_MAX:].decode(errors='replace')}")
    return "\n".join(parts)


def processes(job: int, folder: Path) -> list[int]:
    """The job's processes, by their environment: other clusters have jobs of the same number."""
    wanted = {f"SLURM_JOB_ID={job}".encode(), b"SLURM_SUBMIT_DIR=" + os.fsencode(folder)}
    return sorted(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if wanted <= _environment(pid))


def _environment(pid: int) -> set[bytes]:
    return set(_read(f"/proc/{pid}/environ").split(b"\0"))


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # it has ended, or its files are another user's
        return b""


def _process(pid: int) -> str:
    words = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    lines = [f"---- process {pid}: {words[:400]}"]
    with contextlib.suppress(OSError):
        for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
            lines.append(_thread(f"/proc/{pid}/task/{thread}"))
    return "\n".join(lines)


def _thread(folder: str) -> str:
    """Its number, name and state, the kernel's function that it waits in, and its stack there where we may read it."""
    status = dict(
        line.split(":", 1) for line in _read(f"{folder}/status").decode(errors="replace").splitlines() if ":" in line
    )
    state, waits = status.get("State", "gone").strip(), _read(f"{folder}/wchan").decode(errors="replace")
    stack = [line.strip() for line in _read(f"{folder}/stack").decode(errors="replace").splitlines()]
    head = f"  thread {os.path.basename(folder)} {status.get('Name', '').strip()}: {state}, waits in {waits or '?'}"
    return "\n    ".join([head, *stack])


def _write_stacks(pids: list[int]) -> None:
    """Has Python programs write their stacks, which ends them, and waits until that has reached the output: our own srun
    is left alone, which passes it on, and then ends by itself.
    """
    waiting = select.poll()
    pidfds = {}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            pidfds[os.pidfd_open(pid)] = pid
    for pidfd in pidfds:
        waiting.register(pidfd, select.POLLIN)
    for pidfd, pid in pidfds.items():
        words = _read(f"/proc/{pid}/cmdline").split(b"\0")
        is_python = b"python" in os.path.basename(words[0]) and b"cli.srun" not in words
        if is_python and b"PYTHONFAULTHANDLER=1" in _environment(pid):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGABRT)
    left = len(pidfds)
    while left and (ended := waiting.poll(STACKS_MS)):
        for pidfd, _ in ended:
            waiting.unregister(pidfd)
            left -= 1
    for pidfd in pidfds:
        os.close(pidfd)
