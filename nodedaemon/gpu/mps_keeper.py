"""The keeper of one MPS control daemon: starts it as its user, supervises it, ends it and all that it started.

A program of its own, one for each GPU and user that shares it by gres/mps (mps.py starts it). It outlives the node
daemon, as steps do. It is a sub-reaper: the control daemon puts itself into the background, starts and ends servers,
and all of them stay below the keeper, so that it ends all of them and no unrelated process.

    FOLDER/            0711, the daemon's own; goes when the keeper does
    FOLDER/keeper      the keeper's pid and start time, by which a later node daemon finds it
    FOLDER/pipe, log/  0700, the user's: CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_LOG_DIRECTORY

Rules
    - Only the user's process enters the user's folders, makes them and talks to the control daemon (`quit`).
    - The device is named by its UUID: the server renumbers the devices that it can see.
    - Its standard output: nothing and the end of the file = the control daemon runs; else the reason why not.
    - The user fills the folders as they like, so they are emptied as a job's private ones are: by descriptors, at any depth.
    - SIGTERM: `quit`, and SIGKILL for processes that are left GONE_S later (QUIT_S if `quit` hangs).

Imports as little as stepd: it runs as long as the GPU is used.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

from nodedaemon.base import proctree, scripts
from nodedaemon.base.kernelfiles import write_text
from nodedaemon.base.orders import LaunchOrder
from nodedaemon.stepd import namespace, task
from penstock.inherited import begin_empty_session_keyring, leave_real_time

#: The driver makes its contexts for the first client, not at the start.
BEGIN_S = 30.0
QUIT_S = 10.0
GONE_S = 2.0
#: Sends `quit` on its standard input, which scripts.run leaves empty.
QUIT = ["/bin/sh", "-c", 'echo quit | "$0"']
_SIGNALS = (signal.SIGTERM, signal.SIGCHLD)


def main(arguments: list[str]) -> int:
    """Runs the keeper. Arguments: uid, gid, name of the user, UUID, folder, program."""
    uid, gid, name, uuid, folder, program = arguments
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    order = LaunchOrder(key="", user_id=int(uid), group_id=int(gid), user_name=name)
    keeper = MpsKeeper(order, uuid, folder, program)
    why = keeper.begin()
    if why:
        os.write(1, why.encode("utf-8", "backslashreplace"))
        keeper.end()
        return 1
    null_fd = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null_fd, fd)
    keeper.stay()
    keeper.end()
    return 0


class MpsKeeper:
    """One control daemon."""

    def __init__(self, order: LaunchOrder, uuid: str, folder: str, program: str) -> None:
        self._order = order
        self._folder = folder
        self._program = program
        self._environment = {
            "CUDA_VISIBLE_DEVICES": uuid,
            "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe",
            "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log",
        }
        self._runs = False

    def begin(self) -> str:
        """Starts it; returns why that failed ("" = it runs)."""
        path = shutil.which(self._program, path=scripts.PATH)
        if path is None:
            return f"{self._program}: not found; PenstockMpsProgram in slurm.conf says where it is"
        self._program = path
        try:
            os.makedirs(self._folder, 0o711, exist_ok=True)
            os.chmod(self._folder, 0o711)  # noqa: S103 (its user passes through, whatever our umask)
            for name in ("pipe", "log"):
                os.mkdir(f"{self._folder}/{name}", 0o700)
                if os.geteuid() == 0:
                    os.chown(f"{self._folder}/{name}", self._order.user_id, self._order.group_id)
            fd = os.open(f"{self._folder}/keeper", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.close(fd)
            write_text(f"{self._folder}/keeper", f"{os.getpid()} {proctree.start_time(os.getpid())}")
        except OSError as error:
            return f"{error.filename}: {error.strerror}"
        outcome = scripts.run([path, "-d"], self._environment, BEGIN_S, self._become)
        self._runs = True
        said = outcome.output.decode("utf-8", "replace").strip().splitlines()
        return f"{outcome.failure}{': ' if said else ''}{''.join(said[-1:])}" if outcome.failure else ""

    def _become(self) -> None:
        """In the child: becomes the user for good."""
        order = self._order
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        begin_empty_session_keyring()
        leave_real_time()
        try:
            if os.geteuid() == 0:
                task.drop_root(order)
            elif os.getuid() != order.user_id:
                raise task.TaskError(f"uid {os.getuid()} cannot run programs of uid {order.user_id}")
        except task.TaskError as error:
            raise PermissionError(1, str(error)) from None
        os.umask(0o077)

    def stay(self) -> None:
        """Waits until it is ordered to end, or no process is left."""
        while signal.sigwait(_SIGNALS) != signal.SIGTERM:
            if not self._reap():
                return

    def end(self) -> None:
        """Ends it, kills what is left, and removes the folder."""
        if self._runs and self._reap():
            scripts.run([*QUIT, self._program], self._environment, QUIT_S, self._become)
            self._await_none()
            while self._reap():
                proctree.signal_descendants(os.getpid(), signal.SIGKILL)
                if not self._await_none():
                    break  # blocked in the kernel (D state): its folder stays
        remove(self._folder)

    def _await_none(self) -> bool:
        """Waits for the last child, with a limit."""
        end_s = time.monotonic() + GONE_S
        while self._reap():
            left_s = end_s - time.monotonic()
            if left_s <= 0 or signal.sigtimedwait((signal.SIGCHLD,), left_s) is None:
                return not self._reap()
        return True

    def _reap(self) -> bool:
        """Reaps ended children; True while some are left."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True


def remove(folder: str) -> None:
    """Removes the folder. What cannot be removed stays, and the next start reports it."""
    with contextlib.suppress(OSError):
        namespace.remove(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
