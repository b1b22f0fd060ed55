"""Record of one task of a step, kept by stepd from its fork until it is reaped. tasks.py fills it."""

import socket

from nodedaemon.base.orders import TaskOrder
from nodedaemon.stepd.task import Start


class Task:
    """One task. `status` is None until it has been reaped."""

    __slots__ = ("epilog_pid", "has_files", "is_running", "order", "pid", "rank", "start", "status", "words")

    def __init__(self, order: TaskOrder, is_script: bool) -> None:
        self.order = order
        self.rank = order.rank
        self.start = Start(order, is_script)
        self.pid = 0
        self.words: socket.socket | None = None  # its status socket until the program runs
        self.has_files = False
        self.is_running = False  # its program has been executed
        self.status: int | None = None
        self.epilog_pid = 0
