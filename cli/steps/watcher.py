"""Polls the controller for a step's end, in a thread: when it has ended, and why.

While they are connected, the streams report everything to the step's owner. Polling is for lost streams (a node that is
gone, a stream port that cannot be reached), and shows the controller that the owner is alive. It begins some time after
the step, or when a stream fails, so that a short step costs nothing. Failed calls are retried; answers are passed to
the event loop.
"""

import os
import threading
from collections.abc import Callable

from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError, Unreachable
from penstock.eventloop import Loop
from penstock.v1.controller_pb2 import CancelJobsRequest, JobFilter
from penstock.v1.steps_pb2 import AwaitStepReply, AwaitStepRequest
from penstock.values.states import ENDED

WAIT_S = 25
#: The time for an answer, beyond the wait itself.
ANSWER_S = 30.0
PAUSE_S = 1.0
CANCEL_LIMIT_S = 20.0


class Watcher:
    """The watcher of one step. `on_reply` is called in the loop, with the last answer when the step has ended, else
    with every change.
    """

    def __init__(
        self, loop: Loop, cluster: ClusterFile, ids: tuple[int, int, int], on_reply: Callable[[AwaitStepReply], None]
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._job_id, self._step_id, self._attempt = ids
        self._on_reply = on_reply
        self._replies: list[AwaitStepReply] = []
        self._pipe: tuple[int, int] | None = None
        self._stopping = threading.Event()
        self.is_running = False
        self.was_cancelled = False  # the controller was asked to end the step, or has nothing to end

    def start(self) -> None:
        """Starts polling, once."""
        if self.is_running:
            return
        self.is_running = True
        self._pipe = os.pipe()
        self._loop.watch(self._pipe[0], self._on_wake)
        threading.Thread(target=self._watch, daemon=True, name="watcher").start()

    def stop(self) -> None:
        """Stops polling."""
        self._stopping.set()
        if self._pipe is not None:
            self._loop.forget(self._pipe[0])

    def cancel(self) -> None:
        """Asks the controller to end the step. If it cannot be reached, the streams signal the tasks."""
        threading.Thread(target=self._cancel, daemon=True, name="cancel").start()

    def _cancel(self) -> None:
        wanted = JobFilter(ids=[f"{self._job_id}.{self._step_id}"])
        try:
            with Client.open(CANCEL_LIMIT_S, retry=True, cluster=self._cluster) as client:
                client.call("CancelJobs", CancelJobsRequest(filter=wanted))
        except Unreachable:
            return
        except PenstockError:  # it has ended
            pass
        self.was_cancelled = True

    def _watch(self) -> None:
        request = AwaitStepRequest(job_id=self._job_id, step_id=self._step_id, attempt=self._attempt, wait_s=WAIT_S)
        client = Client.open(WAIT_S + ANSWER_S, retry=True, cluster=self._cluster)
        while not self._stopping.is_set():
            try:
                reply = client.call("AwaitStep", request)
            except Unreachable:
                client.close()
                self._stopping.wait(PAUSE_S)
                continue
            except PenstockError as error:  # it does not know the step (any more): then it is over
                reply = AwaitStepReply(state="FAILED", note=error.text)
                reply.exit.code = 1
            self._replies.append(reply)
            if self._pipe is not None and not self._stopping.is_set():
                os.write(self._pipe[1], b"!")
            if reply.state in ENDED:
                return

    def _on_wake(self, events: int) -> None:
        assert self._pipe is not None
        os.read(self._pipe[0], 4096)
        replies = self._replies
        self._replies = []
        for reply in replies:
            self._on_reply(reply)


class Watchers:
    """The watchers of all parts of a step."""

    def __init__(self, watchers: list[Watcher]) -> None:
        self._watchers = watchers

    def start(self) -> None:
        """Starts polling, once."""
        for watcher in self._watchers:
            watcher.start()

    @property
    def was_cancelled(self) -> bool:
        """Whether the controller was asked to end all of them."""
        return all(watcher.was_cancelled for watcher in self._watchers)

    def stop(self) -> None:
        """Stops polling."""
        for watcher in self._watchers:
            watcher.stop()

    def cancel(self) -> None:
        """Asks the controller to end the step."""
        for watcher in self._watchers:
            watcher.cancel()
