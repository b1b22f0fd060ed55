"""`concurrent.futures.Executor` over a cluster: each call is a job.

    with ClusterExecutor(cluster, gpus=1, time=10) as executor:
        losses = list(executor.map(train, [0.1, 0.01, 0.001]))

One thread looks at all jobs of the executor with one request; a future that is cancelled before its job has started cancels
the job.
"""

import contextlib
import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final, TypeVar, Unpack, cast

from penstock.errors import PenstockError, Unreachable
from sdk.cluster import Cluster, JobHandle
from sdk.errors import JobFailed
from sdk.functioncall import FOLDER, call_of, read_result, words_of
from sdk.options import JobOptions
from sdk.questions import jobs_of
from sdk.records import JobRecord

T = TypeVar("T")
#: Between two looks at the jobs that have not ended.
PAUSE_S: Final = 1.0


class ClusterExecutor(Executor):
    """Functions as jobs with these options; `chdir` is where their modules are (default: the current folder), and must be
    a folder that the nodes see.
    """

    def __init__(self, cluster: Cluster, **options: Unpack[JobOptions]) -> None:
        self._cluster = cluster
        self._options = options
        self._folder = os.path.abspath(options.get("chdir") or os.curdir)
        self._waiting: dict[str, tuple[JobHandle, str, Future[object]]] = {}
        self._change = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._watch, name="penstock-executor", daemon=True)
        self._thread.start()

    # Any in the base class: a function of any signature
    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        """Submits the call as a job. Raises InvalidRequest for what cannot be called from another process."""
        call = call_of(fn, args, kwargs)
        path = os.path.join(self._folder, FOLDER, f"{uuid.uuid4().hex}.json")
        options: JobOptions = {"job_name": call.function.rpartition(":")[2], **self._options}
        future: Future[T] = Future()
        with self._change:
            if self._is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            job = self._cluster.submit_command(words_of(call, path), **options)
            self._waiting[job.id] = (job, path, cast("Future[object]", future))
            self._change.notify()
        future.add_done_callback(lambda done: job.cancel() if done.cancelled() else None)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more; waits for what was submitted, unless told not to."""
        with self._change:
            self._is_closed = True
            pending = list(self._waiting.values()) if cancel_futures else []
            self._change.notify()
        for _, _, future in pending:
            future.cancel()
        if wait:
            self._thread.join()

    def _watch(self) -> None:
        """The thread: until the executor is closed and all its jobs have ended."""
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._is_closed)
                waiting = dict(self._waiting)
            if not waiting:
                return
            for key in self._settled(waiting):
                with self._change:
                    del self._waiting[key]
            with self._change:
                self._change.wait(PAUSE_S if self._waiting else 0)

    def _settled(self, waiting: "dict[str, tuple[JobHandle, str, Future[object]]]") -> list[str]:
        """Those that need no more looks. While the controller is away, that is none."""
        try:
            records = self._cluster.ask(jobs_of(list(waiting)))
            return [key for key, entry in waiting.items() if self._settle(*entry, records.get(key))]
        except Unreachable:
            return []

    def _settle(self, job: JobHandle, path: str, future: "Future[object]", known: JobRecord | None) -> bool:
        """Whether the job needs no more looks. `known`: None when the queue has it no more."""
        if future.cancelled():
            return True
        try:
            record = known or job.record()
            if record.state != "PENDING" and not future.running() and not future.set_running_or_notify_cancel():
                return True
            if not record.has_ended:
                return False
            future.set_result(self._result(record, path))
        except Unreachable:
            return False
        except PenstockError as error:
            future.set_exception(error)
        return True

    def _result(self, record: JobRecord, path: str) -> object:
        """Raises FunctionFailed for what the function raised, JobFailed when the job was ended."""
        if not record.succeeded and not os.path.exists(path):
            raise JobFailed(record)
        try:
            return read_result(path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
