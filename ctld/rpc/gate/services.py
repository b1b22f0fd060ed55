"""The running parts that the services share, assembled by the daemon.

`reconfigure`, `shutdown` and `authority` are the daemon's own functions; a service only calls them.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

# Any: an answer's type depends on its event, and callers know it
from typing import Any, Final

from accounting.records import Records
from accounting.traces import Traces
from ctld.agents.registry import LinkRegistry
from ctld.agents.specs import SpecCache
from ctld.core.records.audit import AuditHead
from ctld.core.records.effects import Batch, Refusal
from ctld.core.records.events import Actor, Event, RecordAct
from ctld.core.records.job import HistoryRow
from ctld.rpc.gate.auth import UserDirectory, caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.denials import Denials
from ctld.rpc.gate.neighbours import Neighbours, View, view_of
from ctld.rpc.gate.reading import Reading
from ctld.rpc.gate.refusals import refuse_as
from ctld.rpc.gate.scans import Scans
from ctld.rpc.gate.unread import UnreadReplies
from ctld.rpc.gate.users import UserNames
from ctld.rpc.gate.usertokens import UserTokens
from ctld.rpc.gate.visibility import ALL_JOBS, job_visibility
from ctld.runtime.amending import Amender
from ctld.runtime.certificates import CertificateEnd
from ctld.runtime.fair import FairThreads
from ctld.runtime.loop import Runtime
from ctld.runtime.ports import StoreLike
from ctld.runtime.rolling import RollUps
from ctld.runtime.submitfilter import SubmitFilter
from penstock.security.ca import Authority, Credentials
from penstock.security.join import JoinTokens
from penstock.threads import started_pool
from penstock.v1 import controller_pb2
from penstock.values.states import ALLOCATED_STATES, JobState

#: Concurrent queries. The planner's run in one thread beside the scheduler's passes; a query of sacct, of the audit log
#: or of a job's history reads for up to seconds.
PLANNER_THREADS: Final = 1
RECORD_THREADS: Final = 2
TRACE_THREADS: Final = 1
STORY_THREADS: Final = 1


@dataclass
class Services:
    """The running parts of one controller."""

    runtime: Runtime
    store: StoreLike
    specs: SpecCache
    registry: LinkRegistry
    join_tokens: JoinTokens
    authority: Callable[[], Authority]  # the CA with its key; raises BadSetup when the key is stored elsewhere
    reconfigure: Callable[
        [RecordAct | None], Awaitable[tuple[str, ...]]
    ]  # returns warnings; raises BadRequest, NotTaken
    preview: Callable[[], Awaitable[Any]]  # the effects of a reload: reload.Preview, whose module imports the gate
    shutdown: Callable[[str], None]
    boot_at_us: int
    version: str
    records: Records
    stream_secret: bytes  # of the keys with which clients attach to steps
    directory: UserDirectory
    user_tokens: UserTokens
    amender: Amender
    traces: Traces
    rollups: RollUps
    credentials: Callable[[], Credentials]  # the controller's own, at present
    certificate_ends: Callable[[], list[CertificateEnd]]  # of all; reads a file, raises BadSetup
    submit_filter: SubmitFilter
    neighbours_address: str = ""  # by which other clusters of the database are read; "" = the own one
    names: UserNames = field(init=False)
    reading: Reading = field(init=False)
    neighbours: Neighbours = field(init=False)

    def __post_init__(self) -> None:
        self.names = UserNames(self.runtime.clock_us, self.directory.lookups)
        self.reading = Reading(self.records.address)
        self.neighbours = Neighbours(self.neighbours_address or str(self.records.address), self.runtime.clock_us)
        self.planner_queries = FairThreads("questions to the planner", PLANNER_THREADS)
        self.record_threads = FairThreads("queries of accounting", RECORD_THREADS)
        self.trace_threads = FairThreads("queries of the audit log", TRACE_THREADS)
        self.story_threads = FairThreads("questions for a job's story", STORY_THREADS)
        self.scans = Scans()
        self.unread = UnreadReplies()
        self.issuer = started_pool(1, "certificates")
        self.denials = Denials(self.runtime.post)
        self.audit_head = self.runtime.core.state.audit.head  # of the committed records
        self.runtime.observers.append(self._committed)

    def _committed(self, batch: Batch) -> None:
        if batch.audit:
            last = batch.audit[-1]
            self.audit_head = AuditHead(last.audit_id, last.hash)

    async def ask(self, event: Event, context: Context) -> Any:
        """Returns the core's answer to an event. A refusal ends the call."""
        body = await self.runtime.ask(event)
        if type(body) is Refusal:
            await refuse_as(context, body)
        return body

    async def view(self, cluster: str) -> View:
        """Returns a cluster of the database as this method's caller may read it: by name, or the own one. Raises
        BadRequest."""
        state = self.runtime.core.state
        config = state.config
        if cluster in ("", config.cluster_name):
            host, port = config.controller_host, config.slurmctld_port
            return View(state, caller(), self.records, self.traces, self.reading.read, host, port)
        found = await self.neighbours.find(cluster)
        return view_of(found, lambda engine: partial(self.reading.read, of_other=engine))

    async def story(self, job_id: int) -> list[HistoryRow]:
        """Reads a job's history, for the caller of this method; in a thread that no launch waits for."""
        return await self.story_threads.ask(caller().uid, self.store.history, lambda: job_id)

    def act(self, action: str, objects: tuple[str, ...] = (), **said: Any) -> RecordAct:
        """Returns the action of this method's caller, for the audit log."""
        return RecordAct(caller(), action, objects, **said)

    async def record(self, action: str, objects: tuple[str, ...] = (), **said: Any) -> None:
        """Records an action of this method's caller outside of the core. Returns when that is durable."""
        await self.runtime.ask(self.act(action, objects, reply_to=self.runtime.new_reply_to(), **said))

    def job_counts(self, actor: Actor) -> tuple[int, int]:
        """Returns the numbers of pending and of running jobs that a user may see."""
        visibility, snapshot = job_visibility(self.runtime.core.state, actor), self.runtime.snapshot
        if visibility is ALL_JOBS:
            counts = snapshot.counts
            return counts[JobState.PENDING], sum(counts[state] for state in ALLOCATED_STATES)
        seen = [row for row in snapshot.jobs.values() if visibility.sees(row)]
        return (
            sum(row.state is JobState.PENDING for row in seen),
            sum(row.state in ALLOCATED_STATES for row in seen),
        )

    def ping(self) -> controller_pb2.PingReply:
        """Returns the controller's identity, and the number of its jobs."""
        asking = caller()
        config, (pending, running) = self.runtime.core.state.config, self.job_counts(asking)
        return controller_pb2.PingReply(
            cluster_name=config.cluster_name,
            controller_host=config.controller_host,
            version=self.version,
            epoch=self.runtime.epoch,
            boot_at_us=self.boot_at_us,
            now_us=self.runtime.clock_us(),
            pid=os.getpid(),
            jobs_pending=pending,
            jobs_running=running,
            user_id=asking.uid,
        )
