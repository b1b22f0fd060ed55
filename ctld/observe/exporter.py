"""The controller's metrics endpoint: which page has which families, who may read it, and its socket.

What is added up for a page is kept for as long as the page itself (KEPT_S), since several pages need it. PrivateData
hides a page as a whole from callers without the token: what is left of it without the hidden jobs would look like
the truth. MetricsParameters=ignore_private_data shows it, as in Slurm.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

from ctld.observe import accounts as accounts_of
from ctld.observe import own
from ctld.observe.gputime import GpuTime
from ctld.observe.jobfamilies import of_cluster, of_users_and_accounts
from ctld.observe.jobstats import JobTotals, add_up, capped
from ctld.observe.nodes import NodeNumbers, node_families, partition_families, read_nodes
from ctld.observe.scheduler import SchedulerMoment, scheduler_families
from ctld.rpc.gate.services import Services
from ctld.runtime.turns import turn_times
from penstock.errors import BadSetup
from penstock.exporter.access import ScrapeAccess, networks_of
from penstock.exporter.endpoint import KEPT_S, MetricsEndpoint, MetricsPage, reason
from penstock.exporter.exposition import MetricFamily
from penstock.exporter.pace import WorkPace
from penstock.security.metricstoken import token_of
from penstock.security.renew import end_us
from penstock.security.tlsserver import renewing_context
from penstock.values.config import Config
from penstock.values.states import ALLOCATED_STATES, JobState

log = logging.getLogger("penstock.ctld")
T = TypeVar("T")

#: Threads that answer planner queries and accounting's, as sdiag counts them.
THREADS: Final = 4
#: Words of PrivateData that hide each page.
_HIDING: Final = {
    "/metrics/jobs": ("jobs",),
    "/metrics/nodes": ("nodes",),
    "/metrics/partitions": ("jobs", "nodes", "partitions"),
    "/metrics/scheduler": ("jobs",),
    "/metrics/jobs-users-accts": ("accounts", "jobs", "usage", "users"),
    "/metrics/penstock": ("accounts", "jobs", "nodes", "partitions", "usage", "users"),
}


class KeptResult(Generic[T]):
    """A result that several pages need, made again when it is older than KEPT_S."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._found: tuple[float, T] | None = None

    async def get(self) -> T:
        """Returns it."""
        if self._found is not None and time.monotonic() - self._found[0] < KEPT_S:
            return self._found[1]
        begun = time.monotonic()
        made = await self._make()
        self._found = begun, made
        return made


class MetricsExporter:
    """The endpoint of one controller."""

    def __init__(self, services: Services, config: Config) -> None:
        """Raises BadSetup for a token that cannot be used."""
        self._services = services
        self._runtime = runtime = services.runtime
        self._tally = runtime.snapshot.count_for_metrics()
        self._gpu_time = GpuTime(runtime.core.state, self._tally, runtime.clock_us)
        runtime.observers.append(self._gpu_time.counted)
        self._token = token_of(Path(config.metrics_token_file)) if config.metrics_token_file else b""
        self._totals: KeptResult[JobTotals] = KeptResult(self._add_up)
        self._nodes: KeptResult[dict[str, NodeNumbers]] = KeptResult(self._read_nodes)
        tls = renewing_context(services.credentials) if config.metrics_tls else None
        self._endpoint = MetricsEndpoint(self._pages(), self._access, tls)

    async def start(self, config: Config) -> None:
        """Listens. Raises BadSetup when the port is in use."""
        host, port = config.metrics_addr, config.metrics_port
        try:
            await self._endpoint.start(host, port)
        except OSError as error:
            raise BadSetup(f"metrics: {host}:{port}: {reason(error)}; choose another PenstockMetricsPort") from error
        log.info("metrics: http%s://%s:%d/metrics", "s" * config.metrics_tls, host, port)
        if not (self._token or config.metrics_allow or host.startswith("127.") or host in ("::1", "localhost")):
            log.warning("metrics: all machines that reach %s:%d can read them: set PenstockMetricsAllow or "
                        "PenstockMetricsTokenFile", host, port)  # fmt: skip

    def stop(self) -> None:
        """Ends all connections."""
        self._endpoint.stop()

    # ---- access ----------------------------------------------------------------------------------------------------

    @property
    def _config(self) -> Config:
        return self._runtime.core.state.config

    def _access(self) -> ScrapeAccess:
        return ScrapeAccess(self._token, networks_of(self._config.metrics_allow))

    def _hidden(self, path: str) -> str:
        if self._config.has_word("metrics_parameters", "ignore_private_data"):
            return ""
        words = [word for word in _HIDING[path] if word in self._config.private_data]
        if not words:
            return ""
        return (
            f"PrivateData={','.join(words)} hides this: read it with the token of PenstockMetricsTokenFile, "
            "or set MetricsParameters=ignore_private_data"
        )

    # ---- pages -----------------------------------------------------------------------------------------------------

    def _pages(self) -> dict[str, MetricsPage]:
        found: dict[str, tuple[str, Callable[[], Awaitable[Iterable[MetricFamily]]]]] = {
            "/metrics/jobs": ("numbers of jobs", self._jobs),
            "/metrics/nodes": ("nodes, each and in numbers", self._node_page),
            "/metrics/partitions": ("partitions: their jobs and nodes", self._partitions),
            "/metrics/jobs-users-accts": ("numbers of jobs by user and by account", self._users_and_accounts),
            "/metrics/scheduler": ("the figures of sdiag", self._scheduler),
            "/metrics/penstock": ("queue, waits, GPUs, budgets and the controller itself", self._own),
        }
        return {path: MetricsPage(text, make, partial(self._hidden, path)) for path, (text, make) in found.items()}

    def _pace(self) -> WorkPace:
        return WorkPace(self._runtime.whole)

    async def _add_up(self) -> JobTotals:
        return await add_up(self._tally, self._config.penstock_default_account.lower(), self._pace())

    async def _read_nodes(self) -> dict[str, NodeNumbers]:
        return await read_nodes(self._runtime.core.state, self._services.registry.by_node, self._pace())

    async def _jobs(self) -> Iterable[MetricFamily]:
        return of_cluster(await self._totals.get())

    async def _users_and_accounts(self) -> Iterable[MetricFamily]:
        totals = await self._totals.get()
        most = self._config.metrics_values_max
        pace = self._pace()
        users = await capped(totals.by_user, most, pace)
        return of_users_and_accounts(users, await capped(totals.by_account, most, pace))

    async def _node_page(self) -> Iterable[MetricFamily]:
        return node_families(await self._nodes.get())

    async def _partitions(self) -> Iterable[MetricFamily]:
        totals, facts = await self._totals.get(), await self._nodes.get()
        return await partition_families(self._runtime.core.state, facts, totals.by_partition, self._pace())

    async def _scheduler(self) -> Iterable[MetricFamily]:
        runtime, counts = self._runtime, self._runtime.snapshot.counts
        links = list(self._services.registry.by_node.values())
        moment = SchedulerMoment(
            runtime.clock_us(), counts[JobState.PENDING], sum(counts[state] for state in ALLOCATED_STATES), len(links),
            sum(link.queued() for link in links), THREADS,
        )  # fmt: skip
        return scheduler_families(runtime.diagnostics, moment)

    async def _own(self) -> Iterable[MetricFamily]:
        runtime, services = self._runtime, self._services
        totals, facts = await self._totals.get(), await self._nodes.get()
        accounts = await capped(totals.by_account, self._config.metrics_values_max, self._pace())
        gpus = await own.gpu_families(runtime.core.state, self._gpu_time, self._pace())
        most = self._config.metrics_values_max
        shares = await accounts_of.fair_share_families(runtime.core.state, most, self._pace())
        limits = await accounts_of.limit_families(runtime.core.state, most, self._pace())
        links = list(services.registry.by_node.values())
        now_us = runtime.clock_us()
        controller = own.ControllerFacts(
            services.version, services.boot_at_us, now_us, len(runtime.inbox), runtime.longest_turn(False), len(links),
            sum(link.queued() for link in links), sum(link.clock_limit_us > 0 for link in links),
            end_us(services.credentials().certificate), runtime.durable_to_us(),
        )  # fmt: skip
        return [
            *own.queue_families(totals, accounts), own.wait_family(self._tally.waits),
            own.node_family(facts.values()), *gpus, *own.budget_families(runtime.core.state, now_us), *shares, *limits,
            *own.controller_families(runtime.measures, turn_times(), controller),
        ]  # fmt: skip
