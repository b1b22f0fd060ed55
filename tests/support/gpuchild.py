"""A GPU child without its parent: sends it messages and reads its answers, one by one."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Self

from patience import END_S

from nodedaemon.core.gpumessages import Asking, Polled
from nodedaemon.gpu.child import PROGRAM
from nodedaemon.gpu.frames import Answered, Frames, PollNow, Setup, pack, read_message


class GpuChild:
    """The child in a mode; `asked` has its announcements."""

    def __init__(self, mode: str, env: Mapping[str, str], setup: Setup | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-s", "-P", PROGRAM, mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **env},
        )  # fmt: skip
        self.asked: list[Asking] = []
        self._frames = Frames()
        self._words: list[Any] = []
        self._requests = 0
        self.send(setup or Setup(poll_s=3600))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def send(self, command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(pack(command))
        self.process.stdin.flush()

    def word(self, limit_s: float = END_S) -> Any:
        """The next message that is not an announcement; None when the child has ended."""
        assert self.process.stdout is not None
        until = time.monotonic() + limit_s
        while not self._words:
            readable, _, _ = select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0))
            assert readable, f"nothing more came; it asks {self.asked[-1:]}"
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return None
            for word in map(read_message, self._frames.feed(data)):
                kept: list[Any] = self.asked if isinstance(word, Asking) else self._words
                kept.append(word)
        return self._words.pop(0)

    def poll(self) -> Polled:
        """A poll that has begun after this call."""
        self._requests += 1
        self.send(PollNow(self._requests))
        last = None
        while (word := self.word()) != Answered(self._requests):
            assert word is not None
            last = word if isinstance(word, Polled) else last
        assert last is not None
        return last
