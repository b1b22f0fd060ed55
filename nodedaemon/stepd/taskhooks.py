"""TaskProlog and TaskEpilog: programs that run as the user around each task.

A prolog runs in the task's own process, just before its program, and its output is interpreted:

    export NAME=value   sets a variable of the task
    unset NAME          removes one
    print TEXT          goes to the task's standard output

Other lines are ignored. One that fails ends the task with its code. An epilog runs when the task has ended, with the
same environment, and is killed after EPILOG_S. A missing program is an error of the site's set-up: it is reported on
the error output, and the task runs.
"""

import os
import select
import time

PROLOG_OUTPUT_BYTES_MAX = 64 * 1024
#: Time limit of a prolog, for which the whole task waits.
PROLOG_S = 60.0
#: Time limit of an epilog. As documented for Slurm: very short-lived.
EPILOG_S = 5.0
CONTEXT = b"SLURM_SCRIPT_CONTEXT"


def run_prologs(programs: list[bytes], env: dict[bytes, bytes]) -> None:
    """Runs each prolog, and changes `env` by its output. Ends the process when one fails."""
    for program in programs:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        actions = [(os.POSIX_SPAWN_DUP2, write_end, 1)]
        try:
            pid = os.posix_spawn(program, [program], env | {CONTEXT: b"prolog_task"}, file_actions=actions)
        except OSError as error:
            _complain(b"task prolog " + program + b": " + os.strerror(error.errno or 0).encode())
            continue
        finally:
            os.close(write_end)
        text = _read_all(read_end)
        os.close(read_end)
        status = os.waitpid(pid, 0)[1] if text is not None else _kill(pid)
        if status:
            code = os.waitstatus_to_exitcode(status)
            _complain(b"TaskProlog failed status=%d" % code)
            os._exit(code if code > 0 else 1)
        _apply_output(text or b"", env)


def _read_all(fd: int) -> bytes | None:
    """Reads all output up to the limit; None when it took too long."""
    end_s = time.monotonic() + PROLOG_S
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    text = b""
    while len(text) < PROLOG_OUTPUT_BYTES_MAX:
        if not poll.poll(max(end_s - time.monotonic(), 0) * 1000):
            return None
        part = os.read(fd, PROLOG_OUTPUT_BYTES_MAX)
        if not part:
            break
        text += part
    return text


def _kill(pid: int) -> int:
    os.kill(pid, 9)
    return os.waitpid(pid, 0)[1]


def _apply_output(text: bytes, env: dict[bytes, bytes]) -> None:
    for line in text.splitlines():
        word, _, rest = line.strip().partition(b" ")
        if word == b"export":
            name, equals, value = rest.strip().partition(b"=")
            if name and equals and b"\0" not in value:
                env[name] = value
        elif word == b"unset":
            env.pop(rest.strip(), None)
        elif word == b"print":
            os.write(1, rest + b"\n")


def _complain(text: bytes) -> None:
    os.write(2, b"slurmstepd: error: " + text + b"\n")
