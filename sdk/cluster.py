"""A cluster and its jobs, for programs that block. May be used by several threads: each has a connection of its own."""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack

from cli.base.requestkey import new_key
from penstock.client import Client
from penstock.cluster import find_cluster
from penstock.clusterfile import ClusterFile, read_cluster
from penstock.errors import PenstockError, Unreachable
from sdk import questions, waiting
from sdk.errors import JobFailed, classified
from sdk.options import JobOptions
from sdk.output import GrowingOutput, last_words, read_output
from sdk.questions import ClusterQuestion
from sdk.records import ChangeRecord, ExpectedStart, JobRecord, NodeRecord, UsageRecord, WaitReasons, changes
from sdk.request import JobProgram, from_command, from_script_file, from_text, submission
from sdk.waiting import QuestionSteps

T = TypeVar("T")
#: One request and its answer, with the controller's restarts in between.
CALL_TIMEOUT_S: Final = 60.0
#: Between two looks at an output that grows.
FOLLOW_PAUSE_S: Final = 1.0
#: Before a stream of changes that broke is opened again.
RECONNECT_S: Final = 0.5


class Cluster:
    """The controller of a cluster: without `path` the one that commands find (PENSTOCK_HOME, SLURM_CONF, ...), else that of
    this cluster file. Raises PenstockError when there is none; nothing is connected before the first request.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self.file: ClusterFile = find_cluster() if path is None else read_cluster(os.fspath(path))
        self.timeout_s = timeout_s
        self._of_thread = threading.local()
        self._clients: list[Client] = []
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """ClusterName."""
        return self.file.cluster_name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections of all threads. A later request opens a new one."""
        with self._lock:
            clients, self._clients, self._of_thread = self._clients, [], threading.local()
        for client in clients:
            client.close()

    # ---- submissions

    @staticmethod
    def new_key() -> str:
        """The key of a submission that may have to be repeated: within ten minutes the same key is the same job."""
        return new_key()

    def submit(
        self,
        script: str | os.PathLike[str],
        *arguments: str,
        env: Mapping[str, str] | None = None,
        key: str = "",
        **options: Unpack[JobOptions],
    ) -> "JobHandle":
        """Submits a batch script's file, as `sbatch SCRIPT ARGUMENTS`; options override its #SBATCH lines. `env`: variables
        beside those of this process. `key`: of new_key(), for a submission that is repeated when its answer is lost.
        """
        return self._submit(from_script_file(script, arguments), env, key, options)

    def submit_text(
        self,
        text: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        key: str = "",
        **options: Unpack[JobOptions],
    ) -> "JobHandle":
        """Submits the text of a batch script."""
        return self._submit(from_text(text, arguments), env, key, options)

    def submit_command(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        key: str = "",
        **options: Unpack[JobOptions],
    ) -> "JobHandle":
        """Submits a program with its arguments, which no shell interprets: ["python3", "-c", "..."]."""
        return self._submit(from_command(command), env, key, options)

    def _submit(self, program: JobProgram, env: Mapping[str, str] | None, key: str, options: JobOptions) -> "JobHandle":
        request = submission(program, env or {}, key, False, **options)
        return JobHandle(self, *self.ask(questions.submitted(request)))

    def would_start(self, **options: Unpack[JobOptions]) -> ExpectedStart:
        """When and where a job of these options would start now. Raises WillNotRun when it never would."""
        program = from_text("#!/bin/sh\n", ())
        return self.ask(questions.predicted(submission(program, {}, "", True, **options)))

    # ---- what there is

    def job(self, job_id: int | str) -> "JobHandle":
        """The job of this id (17, "17_3"); it is not looked for before something is asked of it."""
        return JobHandle(self, questions.checked_id(str(job_id)))

    def jobs(
        self,
        *,
        users: Sequence[str] = (),
        states: Sequence[str] = (),
        partitions: Sequence[str] = (),
        names: Sequence[str] = (),
        accounts: Sequence[str] = (),
    ) -> list[JobRecord]:
        """The queue, as `squeue`: jobs that have not ended, or those in one of `states`."""
        return self.ask(questions.listed(users, states, partitions, names, accounts))

    def history(
        self,
        since: datetime,
        until: datetime | None = None,
        *,
        users: Sequence[str] = (),
        states: Sequence[str] = (),
        accounts: Sequence[str] = (),
        cluster: str = "",
    ) -> list[JobRecord]:
        """Accounting, as `sacct -S -E`: jobs that ran or waited in that time. `cluster`: another one of the same database, as
        `sacct -M`."""
        return self.ask(questions.history(since, until, users, states, accounts, cluster))

    def usage(
        self,
        since: datetime,
        until: datetime,
        *,
        group_by: Sequence[str] = ("account", "user"),
        tres: Sequence[str] = ("cpu", "gres/gpu"),
        users: Sequence[str] = (),
        accounts: Sequence[str] = (),
    ) -> list[UsageRecord]:
        """What was used, as `sreport`: of whole hours that are over, those in which the times are, too.
        `group_by`: some of account, user, wckey, qos, partition, day, hour.
        """
        return self.ask(questions.used(since, until, group_by, tres, users, accounts))

    def nodes(self, *names: str) -> list[NodeRecord]:
        """Nodes, all without names; a name may be a host list."""
        return self.ask(questions.nodes(names))

    def sequence(self) -> int:
        """The number of the last change, for `watch(after=)`: nothing that happens from now on is missed."""
        with Client(self.file, self.timeout_s, retry=True) as client:
            try:
                return int(next(client.follow("Watch", questions.watched(0, (), ()))).last)
            except PenstockError as error:
                raise classified(error) from error

    def watch(self, *, after: int = 0, kinds: Sequence[str] = (), users: Sequence[str] = ()) -> Iterator[ChangeRecord]:
        """Changes as they are committed, without an end: jobs, nodes, GPUs, reservations, limits that the caller may see.
        `after`: the sequence of the last known one, 0 = from now on. A restart of the controller is waited for, and a record with
        `missed` says that changes are not known any more (kept are ten minutes, none over a restart).
        """
        while True:
            # A connection of its own: it stays open between two records.
            with Client(self.file, self.timeout_s, retry=True) as client:
                try:
                    for reply in client.follow("Watch", questions.watched(after, kinds, users)):
                        yield from changes(reply)
                        after = reply.last
                except Unreachable:
                    pass  # the next call waits until the controller is there again
                except PenstockError as error:
                    raise classified(error) from error
            time.sleep(RECONNECT_S)

    # ---- requests

    def ask(self, question: ClusterQuestion[T], timeout_s: float | None = None) -> T:
        """Makes the call. Raises PenstockError, by class (sdk.errors)."""
        client = self._client()
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        try:
            if question.is_listing:
                return question.answer(list(client.stream(question.method, question.request, limit_s)))
            return question.answer([client.call(question.method, question.request, limit_s)])
        except PenstockError as error:
            raise classified(error) from error

    def drive(self, asking: QuestionSteps[T]) -> T:
        """Makes the calls of a generator of questions (sdk.waiting), and returns its result."""
        try:
            asked = next(asking)
            while True:
                try:
                    answer = self.ask(asked.question, asked.limit_s)
                except PenstockError as error:
                    asked = asking.throw(error)
                else:
                    asked = asking.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _client(self) -> Client:
        client: Client | None = getattr(self._of_thread, "client", None)
        if client is None:
            client = self._of_thread.client = Client(self.file, self.timeout_s, retry=True)
            with self._lock:
                self._clients.append(client)
        return client


class JobHandle:
    """A job of a cluster, by its id; what is said of it is asked for each time. `messages`: the lines of the site's submit
    filter, when it was submitted here.
    """

    def __init__(self, cluster: Cluster, job_id: str, messages: tuple[str, ...] = ()) -> None:
        self.cluster = cluster
        self.id = job_id
        self.messages = messages

    def __repr__(self) -> str:
        return f"<JobHandle {self.id} of {self.cluster.name}>"

    def record(self) -> JobRecord:
        """What is known of it, from the queue or from accounting. Raises JobNotFound."""
        return self.cluster.drive(waiting.record(self.id))

    def state(self) -> str:
        """Slurm's word: PENDING, RUNNING, COMPLETED, ..."""
        return self.record().state

    def wait(self, timeout_s: float | None = None, *, check: bool = False) -> JobRecord:
        """Waits for its end, of an array for that of all tasks. Raises WaitTimeout, and with `check` JobFailed for any other
        state than COMPLETED.
        """
        record = self.cluster.drive(waiting.ended(self.id, timeout_s))
        if check and not record.succeeded:
            raise JobFailed(record, last_words(record))
        return record

    def output(self, lines: int | None = None, *, error: bool = False) -> str:
        """Its output file, or its last lines; with `error` that of standard error. Read where this program runs: raises
        OutputNotHere when the folder is not shared.
        """
        return read_output(self.record(), lines, error)

    def script(self) -> str:
        """Its batch script; for its owner."""
        return self.cluster.ask(questions.script(self.record().job_id))

    def why(self) -> WaitReasons:
        """Why it waits, as `penstock why`."""
        return self.cluster.ask(questions.explained(self.id))

    def cancel(self) -> None:
        """Ends it; nothing happens to one that has ended."""
        self.cluster.ask(questions.cancelled(self.id, 0))

    def signal(self, number: int) -> None:
        """Sends a signal to its steps."""
        self.cluster.ask(questions.cancelled(self.id, number))

    def hold(self) -> None:
        """Keeps it from starting."""
        self.cluster.ask(questions.controlled(self.id, "hold"))

    def release(self) -> None:
        """Takes a hold back."""
        self.cluster.ask(questions.controlled(self.id, "release"))

    def requeue(self) -> None:
        """Ends it and puts it into the queue again."""
        self.cluster.ask(questions.controlled(self.id, "requeue"))

    def suspend(self) -> None:
        """Stops its processes; for administrators."""
        self.cluster.ask(questions.controlled(self.id, "suspend"))

    def resume(self) -> None:
        """Lets them go on."""
        self.cluster.ask(questions.controlled(self.id, "resume"))

    def update(self, **changes: object) -> tuple[str, ...]:
        """Changes fields by their names in `scontrol update job`: update(timelimit=timedelta(hours=1)). Returns the lines of
        the site's submit filter.
        """
        return self.cluster.ask(questions.updated(self.id, changes))

    def follow(self, pause_s: float = FOLLOW_PAUSE_S) -> Iterator[str]:
        """Its output as it grows, until it has ended; for this machine's files. Raises OutputNotHere."""
        growing = GrowingOutput()
        while True:
            record = self.record()
            yield from growing.more(record)
            if record.has_ended:
                return
            self.cluster.drive(waiting.end(record, pause_s))
