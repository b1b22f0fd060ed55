"""What the services share: the running parts, put together by main.

`reconfigure`, `shutdown` and `authority` are the daemon's own acts; a service only calls them.
"""

import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from accounting.records import Records
from accounting.traces import Traces
from ctld.agents.registry import Registry
from ctld.agents.specs import SpecCache
from ctld.core.audit import AuditHead
from ctld.core.effects import Batch
from ctld.core.events import Actor, RecordAct
from ctld.rpc.auth import UserDirectory, caller
from ctld.rpc.denials import Denials
from ctld.rpc.reading import Reading
from ctld.rpc.sight import ALL_JOBS, job_sight
from ctld.rpc.thinker import Thinker
from ctld.rpc.users import UserNames
from ctld.runtime.amending import Amender
from ctld.runtime.loop import Runtime
from ctld.runtime.ports import StoreLike
from ctld.runtime.rolling import RollUps
from penstock.security.ca import Authority
from penstock.security.join import JoinTokens
from penstock.v1 import controller_pb2
from penstock.values.states import HOLDING_STATES, JobState

#: Queries of the audit log at a time.
TRACE_QUERIES_MAX: Final = 1


@dataclass
class Services:
    """One controller's parts. `reader` is the one thread for the store's reading connection."""

    runtime: Runtime
    store: StoreLike
    reader: Executor
    specs: SpecCache
    registry: Registry
    join_tokens: JoinTokens
    authority: Callable[[], Authority]  # the CA with its key; raises BadSetup when the key is kept elsewhere
    reconfigure: Callable[
        [RecordAct | None], Awaitable[tuple[str, ...]]
    ]  # returns warnings; raises BadRequest, NotTaken
    preview: Callable[[], Awaitable[Any]]  # what that would do; runtime's reload.Preview
    shutdown: Callable[[str], None]
    epoch: int
    boot_at_us: int
    version: str
    records: Records
    stream_secret: bytes  # of the keys with which clients attach to steps
    directory: UserDirectory
    amender: Amender
    traces: Traces
    rollups: RollUps
    names: UserNames = field(default_factory=UserNames)
    thinker: Thinker = field(default_factory=Thinker)
    reading: Reading = field(init=False)

    def __post_init__(self) -> None:
        self.reading = Reading(self.records.place)
        self.trace_threads = ThreadPoolExecutor(TRACE_QUERIES_MAX, "traces")
        self.denials = Denials(self.runtime.post)
        self.audit_head = self.runtime.core.state.audit.head  # as committed
        self.runtime.observers.append(self._committed)

    def _committed(self, batch: Batch) -> None:
        if batch.audit:
            last = batch.audit[-1]
            self.audit_head = AuditHead(last.audit_id, last.hash)

    def act(self, action: str, objects: tuple[str, ...] = (), **said: Any) -> RecordAct:
        """What the caller of this method does, for the audit log."""
        return RecordAct(caller(), action, objects, **said)

    async def record(self, action: str, objects: tuple[str, ...] = (), **said: Any) -> None:
        """Write down what the caller of this method does, outside of the core. Returns when that is durable."""
        await self.runtime.ask(self.act(action, objects, reply_to=self.runtime.new_reply_to(), **said))

    def job_counts(self, actor: Actor) -> tuple[int, int]:
        """Jobs that wait and that run, of those that somebody sees."""
        sight, snapshot = job_sight(self.runtime.core.state, actor), self.runtime.snapshot
        if sight is ALL_JOBS:
            counts = snapshot.counts
            return counts[JobState.PENDING], sum(counts[state] for state in HOLDING_STATES)
        seen = [row for row in snapshot.jobs.values() if sight.sees(row)]
        return (
            sum(row.state is JobState.PENDING for row in seen),
            sum(row.state in HOLDING_STATES for row in seen),
        )

    def ping(self) -> controller_pb2.PingReply:
        """Who answers, and how much there is to do."""
        config, (pending, running) = self.runtime.core.state.config, self.job_counts(caller())
        return controller_pb2.PingReply(
            cluster_name=config.cluster_name,
            controller_host=config.controller_host,
            version=self.version,
            epoch=self.epoch,
            boot_at_us=self.boot_at_us,
            now_us=self.runtime.clock_us(),
            pid=os.getpid(),
            jobs_pending=pending,
            jobs_running=running,
        )
