"""What the services share: the running parts, put together by main.

`reconfigure`, `shutdown` and `authority` are the daemon's own acts; a service only calls them.
"""

import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from accounting.records import Records
from ctld.agents.registry import Registry
from ctld.agents.specs import SpecCache
from ctld.rpc.auth import UserDirectory
from ctld.rpc.thinker import Thinker
from ctld.rpc.users import UserNames
from ctld.runtime.amending import Amender
from ctld.runtime.loop import Runtime
from ctld.runtime.ports import StoreLike
from penstock.security.ca import Authority
from penstock.security.join import JoinTokens
from penstock.v1 import controller_pb2
from penstock.values.states import HOLDING_STATES, JobState


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
    reconfigure: Callable[[], Awaitable[tuple[str, ...]]]  # returns warnings; raises BadRequest, NotTaken
    preview: Callable[[], Awaitable[Any]]  # what that would do; runtime's reload.Preview
    shutdown: Callable[[str], None]
    epoch: int
    boot_at_us: int
    version: str
    records: Records
    stream_secret: bytes  # of the keys with which clients attach to steps
    directory: UserDirectory
    amender: Amender
    names: UserNames = field(default_factory=UserNames)
    thinker: Thinker = field(default_factory=Thinker)

    def ping(self) -> controller_pb2.PingReply:
        """Who answers, and how much there is to do."""
        config, counts = self.runtime.core.state.config, self.runtime.snapshot.counts
        return controller_pb2.PingReply(
            cluster_name=config.cluster_name,
            controller_host=config.controller_host,
            version=self.version,
            epoch=self.epoch,
            boot_at_us=self.boot_at_us,
            now_us=self.runtime.clock_us(),
            pid=os.getpid(),
            jobs_pending=counts[JobState.PENDING],
            jobs_running=sum(counts[state] for state in HOLDING_STATES),
        )
