"""The keeper of one MPS control daemon: starts it as its user, stays with it, ends it and all that it started.

A program of its own, one for each GPU and user that shares it by gres/mps (mps.py starts it). It outlives the node
daemon, as steps do. It is a sub-reaper: the control daemon puts itself into the background, its servers come and go,
and all of them stay below the keeper, so that none is left and nobody else's process is ever hit.

    FOLDER/            0711, the daemon's own; goes when the keeper does
    FOLDER/keeper      the keeper's pid and start time, by which a later node daemon finds it
    FOLDER/pipe, log/  0700, the user's: CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_LOG_DIRECTORY

Rules
    - Only the user's process enters the user's folders, makes them and talks to the control daemon (`quit`).
    - The device is named by its UUID: the server counts what it can see anew.
    - What it says on its standard output: nothing and the end of the file = the control daemon runs; else why not.
    - SIGTERM: `quit`, and SIGKILL for what is still there GONE_S later (QUIT_S if `quit` hangs).

Imports as little as stepd: it stays as long as anybody uses the GPU.
"""

import os
import shutil
import signal
import sys
import time

from nodedaemon import proctree, scripts, task
from nodedaemon.kernelfiles import write_text
from nodedaemon.orders import LaunchOrder

#: The driver makes its contexts when the first client comes, not now.
BEGIN_S, QUIT_S, GONE_S = 30.0, 10.0, 2.0
#: `quit` on its standard input, which scripts.run leaves empty.
QUIT = ["/bin/sh", "-c", 'echo quit | "$0"']
_SIGNALS = (signal.SIGTERM, signal.SIGCHLD)


def main(arguments: list[str]) -> int:
    """uid, gid, name of the user, UUID, folder, program."""
    uid, gid, name, uuid, folder, program = arguments
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    order = LaunchOrder(key="", user_id=int(uid), group_id=int(gid), user_name=name)
    keeper = Keeper(order, uuid, folder, program)
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


class Keeper:
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
        """Start it; why not, in words ("" = it runs)."""
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
        """In the child: the user for good, or nobody."""
        order = self._order
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        try:
            if os.geteuid() == 0:
                task.drop_root(order)
            elif os.getuid() != order.user_id:
                raise task.TaskError(f"uid {os.getuid()} cannot run programs of uid {order.user_id}")
        except task.TaskError as error:
            raise PermissionError(1, str(error)) from None
        os.umask(0o077)

    def stay(self) -> None:
        """Until it is told to end, or there is nothing left to keep."""
        while signal.sigwait(_SIGNALS) != signal.SIGTERM:
            if not self._reap():
                return

    def end(self) -> None:
        """End it, kill what is left, and leave no folder."""
        if self._runs and self._reap():
            scripts.run([*QUIT, self._program], self._environment, QUIT_S, self._become)
            self._await_none()
            while self._reap():
                for pid in proctree.children(os.getpid()):
                    proctree.signal_descendants(pid, signal.SIGKILL)
                    proctree.send_signal(pid, signal.SIGKILL, lambda pid: True)
                if not self._await_none():
                    break  # in the kernel's hands (D state): its folder stays
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await_none(self) -> bool:
        """Wait a while for the last child."""
        end_s = time.monotonic() + GONE_S
        while self._reap():
            left_s = end_s - time.monotonic()
            if left_s <= 0 or signal.sigtimedwait((signal.SIGCHLD,), left_s) is None:
                return not self._reap()
        return True

    def _reap(self) -> bool:
        """Collect the dead; True while somebody is left."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
