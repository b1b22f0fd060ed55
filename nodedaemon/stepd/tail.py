"""Reads a part of a step's output file for a client: in a child that has become the user, since root opens no path of theirs.

- The child enters the job's private folders, becomes the user with their groups, opens the path as the task did, reads
  at most TAIL_BYTES_MAX and sends its answer through a pipe. The supervisor never looks into it.
- What is no regular file is not opened at all: a FIFO or a device has no end, and its opening may have an effect. Files
  of the kernel (/proc, /sys) are refused, as they are as outputs.
- One child at a time. It is killed after TAIL_READ_S; one that a file system still holds then is waited for by no one:
  questions are refused meanwhile, and the step ends without it.
- Clients that ask the same share one reading; ASKED_MAX different questions wait.
- Of a job that is over, its record's files are read in the same way (outputreader.py).
- A batch script's last lines are mostly why it ended. If a client has asked within FOLLOWED_S, its supervisor answers for
  AFTER_END_S more, when the end is recorded and reported: nothing waits for it.
"""

import os
import signal
import stat
import time
from collections import OrderedDict

from nodedaemon.base import proctree
from nodedaemon.base.orders import LaunchOrder, TaskOrder
from nodedaemon.stepd.task import FALLBACK_DIR, TaskError, close_all_but, drop_root, other_user
from penstock.eventloop import Loop, LoopTimer
from penstock.oom import allow_oom_kill
from penstock.values.outputtail import (
    AT,
    DATA,
    ERROR,
    FROM_END,
    IS_DENIED,
    PATH,
    SIZE,
    STDERR,
    TAIL_BYTES_MAX,
    TAIL_READ_S,
    parse_question,
)
from penstock.values.packing import dump

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from penstock.values.packing import PackedValue

    Reply = Callable[[bytes], None]
    Turn = Callable[[], None]

    class TailContext(Protocol):
        """What a reading needs of the launcher's context."""

        @property
        def is_root(self) -> bool: ...
        @property
        def steps_fd(self) -> int: ...


#: Different questions that wait for their turn.
ASKED_MAX = 16
#: A page that follows asks every 10 s at least.
FOLLOWED_S = 15.0
AFTER_END_S = 20.0
#: Of an answer: the data, and what stands around them.
ANSWER_BYTES_MAX = TAIL_BYTES_MAX + 16 * 1024
NO_ANSWER = f"its file system has not answered within {TAIL_READ_S:g} s"
STILL_HELD = "its file system still does not answer an earlier question"
NOT_BEGUN = "its tasks have not begun"
OF_CLIENT = "it has no output file: what it writes goes to the terminal or program that started it"
HAS_ENDED = "the step has ended"
IN_PRIVATE = "it is in a private folder of the job, which its running steps alone have"
DENIED = "only the job's user and administrators may read its output"


class Tails:
    """The readings of one step. `has_ended`: the job's private folders are gone."""

    def __init__(self, loop: Loop, order: LaunchOrder, context: "TailContext", has_ended: bool = False) -> None:
        self._loop = loop
        self._order = order
        self._context = context
        #: in their order; the first one is being read
        self._asked: OrderedDict[tuple[bytes, int], list[Reply]] = OrderedDict()
        self.pid = 0  # of the child; 0 = there is none
        self._is_late = False  # it was killed, and a file system holds it
        self._fd = -1
        self._answer = b""
        self._timer: LoopTimer | None = None
        self._is_closed = False
        self._has_ended = has_ended
        self._asked_s = -FOLLOWED_S  # by the monotonic clock

    def ask(self, text: str, tasks: "Sequence[TaskOrder]", is_own_key: bool, reply: "Reply") -> None:
        """Answers a question about one of the tasks, now or later. Raises ValueError for one that is none."""
        stream, at, rank = parse_question(text)
        if not is_own_key:
            reply(dump({ERROR: DENIED, IS_DENIED: 1}))
            return
        self._asked_s = time.monotonic()
        task = next((task for task in tasks if rank in (None, task.rank)), None)
        path = b"" if task is None else path_of(task, stream)
        if task is None:
            reply(_failure(f"task {rank} is not on this node" if tasks else NOT_BEGUN))
        elif not path:
            reply(_failure(OF_CLIENT))
        elif self._is_closed:
            reply(_failure(HAS_ENDED))
        elif self._has_ended and self._is_private(path):
            reply(self._failure(path, IN_PRIVATE))
        elif self._is_late:
            reply(self._failure(path, STILL_HELD))
        elif (path, at) in self._asked:
            self._asked[path, at].append(reply)
        elif len(self._asked) >= ASKED_MAX:
            reply(_failure("too many questions wait"))
        else:
            self._asked[path, at] = [reply]
            self._read_next()

    def reaped(self, pid: int) -> bool:
        """Whether this ended child is a reader of ours: the next question has its turn."""
        if pid != self.pid or not pid:
            return False
        if self._fd >= 0:  # its answer is in the pipe
            self._receive(0)
        self.pid = 0
        self._is_late = False
        self._read_next()
        return True

    @property
    def is_left_alone(self) -> bool:
        """Whether a reader is the only process that the step still has."""
        return self.pid > 0 and list(proctree.descendants(os.getpid())) == [self.pid]

    def close(self) -> None:
        """Ends what is being read: the step ends."""
        self._is_closed = True
        self._end_reading()
        self._kill()
        self._refuse_all(HAS_ENDED)

    @property
    def is_followed(self) -> bool:
        """Whether a client would miss the last lines."""
        return time.monotonic() - self._asked_s < FOLLOWED_S

    def serve_after_end(self, turn: "Turn", is_over: "Callable[[], bool]") -> None:
        """Answers for AFTER_END_S, unless it is over before. `turn`: of the loop."""
        self._is_closed = False
        self._has_ended = True
        end_s = time.monotonic() + AFTER_END_S
        self._loop.after(AFTER_END_S, _wake)
        while time.monotonic() < end_s and not is_over():
            turn()
        self.close()

    def _is_private(self, path: bytes) -> bool:
        """Whether it was in a private folder of the job, which is gone: under its name is the node's now."""
        whole = os.path.normpath(os.path.join(self._order.work_dir, path))
        folders = self._order.private_folders if self._order.private_tmp else []
        return any(whole.startswith(os.fsencode(folder).rstrip(b"/") + b"/") for folder in folders)

    def _read_next(self) -> None:
        if self.pid or not self._asked:
            return
        path, at = next(iter(self._asked))
        try:
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            self._give(self._failure(path, error.strerror or ""))
            return
        try:
            self.pid = os.fork()
        except OSError as error:  # the process table is full
            os.close(read_end)
            os.close(write_end)
            self._give(self._failure(path, f"no process can be started to read it: {error.strerror}"))
            return
        if self.pid == 0:
            _read_in_child(self._order, self._context, not self._has_ended, path, at, write_end)
        os.close(write_end)
        os.set_blocking(read_end, False)
        self._fd = read_end
        self._answer = b""
        self._loop.watch(read_end, self._receive)
        self._timer = self._loop.after(TAIL_READ_S, self._give_up)

    def _receive(self, events: int) -> None:
        """Takes what is in the pipe; its end is that of the answer."""
        while True:
            try:
                part = os.read(self._fd, ANSWER_BYTES_MAX)
            except BlockingIOError:
                return
            self._answer += part
            if not part or len(self._answer) > ANSWER_BYTES_MAX:
                break
        self._end_reading()
        is_whole = 0 < len(self._answer) <= ANSWER_BYTES_MAX
        self._give(self._answer if is_whole else _failure("the process that read it was killed"))

    def _give_up(self) -> None:
        self._end_reading()
        self._is_late = True
        self._kill()
        self._refuse_all(NO_ANSWER)

    def _kill(self) -> None:
        """A process that was reaped has no number here any more."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def _refuse_all(self, text: str) -> None:
        waiting = list(self._asked.items())
        self._asked.clear()
        for (path, _), replies in waiting:
            for reply in replies:
                reply(self._failure(path, text))

    def _end_reading(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fd >= 0:
            self._loop.forget(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _failure(self, path: bytes, text: str) -> bytes:
        return _failure(f"{_shown(os.path.join(self._order.work_dir, path))}: {text}")

    def _give(self, answer: bytes) -> None:
        _, replies = self._asked.popitem(last=False)
        for reply in replies:
            reply(answer)


def _wake() -> None:
    """A timer's action: the loop has turned."""


def path_of(task: TaskOrder, stream: int) -> bytes:
    """The file of a task's stream, as `task.shares_output` has it; empty: there is none."""
    return task.std_err or task.std_out if stream == STDERR else task.std_out


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def _failure(text: str) -> bytes:
    return dump({ERROR: text})


def _read_in_child(
    order: LaunchOrder, context: "TailContext", has_folders: bool, path: bytes, at: int, out: int
) -> None:
    """The child's whole life: becomes the user, reads, answers, ends."""
    try:
        answer = dump(_read_as_user(order, context, has_folders, path, at, out))
        while answer:
            answer = answer[os.write(out, answer) :]
    finally:
        os._exit(0)


def _read_as_user(
    order: LaunchOrder, context: "TailContext", has_folders: bool, path: bytes, at: int, out: int
) -> "dict[str, PackedValue]":
    try:
        signal.set_wakeup_fd(-1)
        allow_oom_kill()
        if context.is_root:
            if order.private_tmp and has_folders:
                from nodedaemon.stepd import namespace  # loaded only where needed

                namespace.join(order.key, context.steps_fd)
            drop_root(order)
        elif os.getuid() != order.user_id:
            raise TaskError(other_user(order))
        close_all_but(out)
        path = os.path.join(_folder(order.work_dir), path)
        return _read_file(path, at)
    except OSError as error:
        return {ERROR: f"{_shown(path)}: {error.strerror}"}
    except Exception as error:  # noqa: BLE001 (the last place that can report it: the process ends here)
        return {ERROR: f"{_shown(path)}: {error}"}


def _folder(work_dir: bytes) -> bytes:
    """The folder of a relative path, as `task.change_folder` has entered it."""
    try:
        os.chdir(work_dir)
    except OSError:
        return FALLBACK_DIR
    return work_dir


def _read_file(path: bytes, at: int) -> "dict[str, PackedValue]":
    """Reads it, after a look at what it is by a descriptor with which nothing is opened."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    kind = os.fstat(place)
    if stat.S_ISCHR(kind.st_mode) and kind.st_rdev == os.stat(os.devnull).st_rdev:
        return {PATH: _shown(path), AT: 0, SIZE: 0, DATA: b""}
    if not stat.S_ISREG(kind.st_mode):
        return {ERROR: f"{_shown(path)}: it is no regular file"}
    if proctree.acts_on_writing(place):
        return {ERROR: f"{_shown(path)}: it is a file of the kernel"}
    file = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    size = os.fstat(file).st_size
    if at == FROM_END:
        at = max(0, size - TAIL_BYTES_MAX)
    elif at > size:  # it was begun again
        at = 0
    return {PATH: _shown(path), AT: at, SIZE: size, DATA: os.pread(file, TAIL_BYTES_MAX, at)}
