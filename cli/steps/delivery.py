"""Waits until nodes have handled what a step's owner has sent them.

A supervisor handles the frames of a stream in their order, and answers a question when it comes to it. So a question
behind a signal is answered after the signal was sent to the tasks. A stream that is not open, or breaks, or ends, is
not waited for longer than DELIVERY_S.
"""

from collections.abc import Callable, Iterable
from typing import Final

from cli.steps.streamclient import State, StepStream
from penstock.eventloop import Loop
from penstock.values.stepframes import FrameKind, frame

#: The most that an action waits: a person has pressed Ctrl-C.
DELIVERY_S: Final = 1.0
#: A question that no supervisor knows: its answer is empty.
_QUESTION: Final = frame(FrameKind.QUESTION, b"handled")


class Delivery:
    """One action after what was sent so far."""

    def __init__(self, loop: Loop, streams: Iterable[StepStream], action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action
        self._waiting = {stream: None for stream in streams if stream.state == State.OPEN}
        for stream in list(self._waiting):
            stream.send(_QUESTION, keep=False)
        self._timer = loop.after(DELIVERY_S, self._act)
        self._check()

    def handled(self, stream: StepStream) -> None:
        """The stream's node has answered, or its tasks have ended."""
        self._waiting.pop(stream, None)
        self._check()

    def _check(self) -> None:
        if not self._waiting:
            self._act()

    def _act(self) -> None:
        if self._action is not None:
            action = self._action
            self._action = None
            self._timer.cancel()
            action()
