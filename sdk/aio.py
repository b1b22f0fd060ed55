"""A cluster and its jobs for asyncio programs: the same requests and records as sdk.cluster, over one connection that all
tasks share. Imports the library grpc, which the blocking face does not need.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Self, TypeVar, Unpack

from penstock.aclient import AsyncClient
from penstock.cluster import find_cluster
from penstock.clusterfile import ClusterFile, read_cluster
from penstock.errors import PenstockError, Unreachable
from sdk import questions, waiting
from sdk.cluster import CALL_TIMEOUT_S, FOLLOW_PAUSE_S, RECONNECT_S
from sdk.errors import JobFailed, classified
from sdk.options import JobOptions
from sdk.output import GrowingOutput, last_words, read_output
from sdk.questions import ClusterQuestion
from sdk.records import ChangeRecord, ExpectedStart, JobRecord, NodeRecord, UsageRecord, WaitReasons, changes
from sdk.request import JobProgram, from_command, from_script_file, from_text, submission
from sdk.waiting import QuestionSteps

T = TypeVar("T")


class AsyncCluster:
    """As sdk.cluster.Cluster; `async with`."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self.file: ClusterFile = find_cluster() if path is None else read_cluster(os.fspath(path))
        self.timeout_s = timeout_s
        self._client = AsyncClient(self.file, timeout_s, retry=True)

    @property
    def name(self) -> str:
        """ClusterName."""
        return self.file.cluster_name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection."""
        await self._client.close()

    async def submit(
        self,
        script: str | os.PathLike[str],
        *arguments: str,
        env: Mapping[str, str] | None = None,
        key: str = "",
        **options: Unpack[JobOptions],
    ) -> "AsyncJobHandle":
        """As Cluster.submit; the script is read without blocking the loop."""
        program = await asyncio.to_thread(from_script_file, script, arguments)
        return await self._submit(program, env, key, options)

    async def submit_text(
        self,
        text: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        key: str = "",
        **options: Unpack[JobOptions],
    ) -> "AsyncJobHandle":
        """As Cluster.submit_text."""
        return await self._submit(from_text(text, arguments), env, key, options)

    async def submit_command(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        key: str = "",
        **options: Unpack[JobOptions],
    ) -> "AsyncJobHandle":
        """As Cluster.submit_command."""
        return await self._submit(from_command(command), env, key, options)

    async def _submit(
        self, program: JobProgram, env: Mapping[str, str] | None, key: str, options: JobOptions
    ) -> "AsyncJobHandle":
        request = submission(program, env or {}, key, False, **options)
        return AsyncJobHandle(self, *await self.ask(questions.submitted(request)))

    async def would_start(self, **options: Unpack[JobOptions]) -> ExpectedStart:
        """As Cluster.would_start."""
        program = from_text("#!/bin/sh\n", ())
        return await self.ask(questions.predicted(submission(program, {}, "", True, **options)))

    def job(self, job_id: int | str) -> "AsyncJobHandle":
        """As Cluster.job."""
        return AsyncJobHandle(self, questions.checked_id(str(job_id)))

    async def jobs(
        self,
        *,
        users: Sequence[str] = (),
        states: Sequence[str] = (),
        partitions: Sequence[str] = (),
        names: Sequence[str] = (),
        accounts: Sequence[str] = (),
    ) -> list[JobRecord]:
        """As Cluster.jobs."""
        return await self.ask(questions.listed(users, states, partitions, names, accounts))

    async def history(
        self,
        since: datetime,
        until: datetime | None = None,
        *,
        users: Sequence[str] = (),
        states: Sequence[str] = (),
        accounts: Sequence[str] = (),
        cluster: str = "",
    ) -> list[JobRecord]:
        """As Cluster.history."""
        return await self.ask(questions.history(since, until, users, states, accounts, cluster))

    async def usage(
        self,
        since: datetime,
        until: datetime,
        *,
        group_by: Sequence[str] = ("account", "user"),
        tres: Sequence[str] = ("cpu", "gres/gpu"),
        users: Sequence[str] = (),
        accounts: Sequence[str] = (),
    ) -> list[UsageRecord]:
        """As Cluster.usage."""
        return await self.ask(questions.used(since, until, group_by, tres, users, accounts))

    async def nodes(self, *names: str) -> list[NodeRecord]:
        """As Cluster.nodes."""
        return await self.ask(questions.nodes(names))

    async def sequence(self) -> int:
        """As Cluster.sequence."""
        try:
            async for reply in self._client.follow("Watch", questions.watched(0, (), ())):
                return int(reply.last)
        except PenstockError as error:
            raise classified(error) from error
        raise Unreachable

    async def watch(
        self, *, after: int = 0, kinds: Sequence[str] = (), users: Sequence[str] = ()
    ) -> AsyncIterator[ChangeRecord]:
        """As Cluster.watch."""
        while True:
            try:
                request = questions.watched(after, kinds, users)
                async for reply in self._client.follow("Watch", request):
                    for change in changes(reply):
                        yield change
                    after = reply.last
            except Unreachable:
                pass
            except PenstockError as error:
                raise classified(error) from error
            await asyncio.sleep(RECONNECT_S)

    async def drive(self, asking: QuestionSteps[T]) -> T:
        """As Cluster.drive."""
        try:
            asked = next(asking)
            while True:
                try:
                    answer = await self.ask(asked.question, asked.limit_s)
                except PenstockError as error:
                    asked = asking.throw(error)
                else:
                    asked = asking.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def ask(self, question: ClusterQuestion[T], timeout_s: float | None = None) -> T:
        """Makes the call. Raises PenstockError, by class (sdk.errors)."""
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        try:
            if question.is_listing:
                pages = [page async for page in self._client.stream(question.method, question.request, limit_s)]
                return question.answer(pages)
            return question.answer([await self._client.call(question.method, question.request, limit_s)])
        except PenstockError as error:
            raise classified(error) from error


class AsyncJobHandle:
    """As sdk.cluster.JobHandle."""

    def __init__(self, cluster: AsyncCluster, job_id: str, messages: tuple[str, ...] = ()) -> None:
        self.cluster = cluster
        self.id = job_id
        self.messages = messages

    def __repr__(self) -> str:
        return f"<AsyncJobHandle {self.id} of {self.cluster.name}>"

    async def record(self) -> JobRecord:
        """As JobHandle.record."""
        return await self.cluster.drive(waiting.record(self.id))

    async def state(self) -> str:
        """As JobHandle.state."""
        return (await self.record()).state

    async def wait(self, timeout_s: float | None = None, *, check: bool = False) -> JobRecord:
        """As JobHandle.wait."""
        record = await self.cluster.drive(waiting.ended(self.id, timeout_s))
        if check and not record.succeeded:
            raise JobFailed(record, await asyncio.to_thread(last_words, record))
        return record

    async def output(self, lines: int | None = None, *, error: bool = False) -> str:
        """As JobHandle.output; read without blocking the loop."""
        return await asyncio.to_thread(read_output, await self.record(), lines, error)

    async def follow(self, pause_s: float = FOLLOW_PAUSE_S) -> AsyncIterator[str]:
        """As JobHandle.follow."""
        growing = GrowingOutput()
        while True:
            record = await self.record()
            for text in growing.more(record):
                yield text
            if record.has_ended:
                return
            await self.cluster.drive(waiting.end(record, pause_s))

    async def script(self) -> str:
        """As JobHandle.script."""
        return await self.cluster.ask(questions.script((await self.record()).job_id))

    async def why(self) -> WaitReasons:
        """As JobHandle.why."""
        return await self.cluster.ask(questions.explained(self.id))

    async def cancel(self) -> None:
        """As JobHandle.cancel."""
        await self.cluster.ask(questions.cancelled(self.id, 0))

    async def signal(self, number: int) -> None:
        """As JobHandle.signal."""
        await self.cluster.ask(questions.cancelled(self.id, number))

    async def hold(self) -> None:
        """As JobHandle.hold."""
        await self.cluster.ask(questions.controlled(self.id, "hold"))

    async def release(self) -> None:
        """As JobHandle.release."""
        await self.cluster.ask(questions.controlled(self.id, "release"))

    async def requeue(self) -> None:
        """As JobHandle.requeue."""
        await self.cluster.ask(questions.controlled(self.id, "requeue"))

    async def suspend(self) -> None:
        """As JobHandle.suspend."""
        await self.cluster.ask(questions.controlled(self.id, "suspend"))

    async def resume(self) -> None:
        """As JobHandle.resume."""
        await self.cluster.ask(questions.controlled(self.id, "resume"))

    async def update(self, **changes: object) -> tuple[str, ...]:
        """As JobHandle.update."""
        return await self.cluster.ask(questions.updated(self.id, changes))
