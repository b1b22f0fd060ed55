"""The node daemon's metrics endpoint. It follows the controller's settings: a reload opens, moves or closes it.

Nothing is asked for a scrape but the kernel: GPUs are shown as of the agent's last poll, with its age, however long NVML
hangs. /proc is read in a worker thread of the daemon. A port that is taken, or a token that cannot be read, is logged,
and the node works without metrics. Where the settings hide jobs, the page has no steps, and GPUs without a user.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nodedaemon.base.orders import LaunchOrder
from nodedaemon.core.gpuhealth_messages import GpuOwner
from nodedaemon.core.gpumessages import Polled
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu.agent import GpuAgent
from nodedaemon.gpu.hooks import Listener
from nodedaemon.observe.gpureadings import LastSamples
from nodedaemon.observe.gpus import SampledGpu, dcgm_families, gpu_families
from nodedaemon.observe.machine import machine_families
from nodedaemon.observe.stepusage import StepLabels, StepReader, StepReading, step_families
from penstock.errors import BadSetup
from penstock.exporter.access import ScrapeAccess, networks_of
from penstock.exporter.endpoint import MetricsEndpoint, MetricsPage, reason
from penstock.exporter.exposition import MetricFamily
from penstock.security.metricstoken import token_of
from penstock.v1 import node_pb2

if TYPE_CHECKING:
    import ssl

log = logging.getLogger("penstock.noded")

_US: Final = 1_000_000


@dataclass(frozen=True)
class NodeSources:
    """What the metrics are made of."""

    node: str
    spool: str
    reader: StepReader
    executor: Executor
    live: Callable[[], list[StepKey]]
    now_us: Callable[[], int]  # of the samples
    node_us: Callable[[], int]  # the node's time, for heartbeats
    cert_dir: str | None
    port: int | None = None  # in place of the settings'; 0 = any free one


class NodeExporter(Listener):
    """The endpoint; only from the loop's thread. A listener of the GPU agent, whose polls it keeps."""

    def __init__(self, sources: NodeSources, agent: GpuAgent | None) -> None:
        self._sources = sources
        self._agent = agent
        self.labels: dict[StepKey, StepLabels] = {}  # of live steps
        self._suspected: dict[StepKey, str] = {}  # steps that may hang: why
        self._last = LastSamples(sources.node_us)
        self._polled_at_us = 0
        self._settings = node_pb2.MetricsSettings()
        self._endpoint: MetricsEndpoint | None = None
        self._change = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- what it is told -------------------------------------------------------------------------------------------

    def launched(self, key: StepKey, order: LaunchOrder) -> None:
        """Takes the labels of a step, until its end."""
        account = order.account or self._settings.default_account
        self.labels[key] = StepLabels(order.user_name, account, order.partition)

    def ended(self, key: StepKey) -> None:
        """Forgets the labels of a step that has ended."""
        self.labels.pop(key, None)

    def suspected(self, key: StepKey, kind: str) -> None:
        """Takes why a step may hang; "" = it no longer seems to."""
        live = dict.fromkeys(self._sources.live())
        self._suspected = {known: why for known, why in self._suspected.items() if known in live and known != key}
        if kind:
            self._suspected[key] = kind

    def polled(self, polled: Polled, owners: Mapping[int, GpuOwner]) -> None:
        """Keeps the samples."""
        self._last.take(polled)
        self._polled_at_us = polled.at_us

    def readings(self) -> node_pb2.GpuReadings | None:
        """Returns what the GPUs do now, for a heartbeat; None: nothing is known of it."""
        return None if self._agent is None else self._last.readings(self._agent.devices())

    def use(self, settings: node_pb2.MetricsSettings) -> None:
        """Applies the controller's settings."""
        task = asyncio.get_running_loop().create_task(self._use(settings))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Returns when all settings are applied."""
        await asyncio.gather(*self._tasks)

    def stop(self) -> None:
        """Ends with the daemon."""
        for task in self._tasks:
            task.cancel()
        if self._endpoint is not None:
            self._endpoint.stop()

    # ---- the endpoint ----------------------------------------------------------------------------------------------

    async def _use(self, settings: node_pb2.MetricsSettings) -> None:
        async with self._change:
            if settings == self._settings and self._endpoint is not None:
                return
            self._settings = settings
            if self._endpoint is not None:
                self._endpoint.stop()
                self._endpoint = None
            if settings.port:
                await self._open(settings)

    async def _open(self, settings: node_pb2.MetricsSettings) -> None:
        port = settings.port if self._sources.port is None else self._sources.port
        try:
            token = token_of(Path(settings.token_file)) if settings.token_file else b""
            access = ScrapeAccess(token, networks_of(tuple(settings.allow)))
            page = MetricsPage("this node, its GPUs and its steps", self._families)
            endpoint = MetricsEndpoint({"/metrics": page}, lambda: access, self._tls(settings))
            found = await endpoint.start(settings.addr, port)
        except BadSetup as error:
            log.error("no metrics: %s", error)
        except OSError as error:
            log.error("no metrics: %s:%d: %s; --metrics-port chooses another port", settings.addr, port, reason(error))
        else:
            self._endpoint = endpoint
            log.info("metrics: http%s://%s:%d/metrics", "s" * settings.tls, settings.addr, found)

    def _tls(self, settings: node_pb2.MetricsSettings) -> "Callable[[], ssl.SSLContext] | None":
        """Returns the context for each connection, with the certificate of then: it is renewed while the daemon runs."""
        folder = self._sources.cert_dir
        if not settings.tls:
            return None
        if folder is None:
            raise BadSetup("PenstockMetricsTls=YES needs the node's certificate (--cert-dir)")
        from penstock.security.ca import load_credentials
        from penstock.security.tlsserver import server_context

        return lambda: server_context(load_credentials(Path(folder), "node", self._sources.now_us()))

    # ---- the page --------------------------------------------------------------------------------------------------

    async def _families(self) -> Iterable[MetricFamily]:
        sources = self._sources
        keys = [] if self._settings.hides_jobs else sources.live()
        known = dict(self.labels)  # one that ends meanwhile is shown with its labels
        machine, readings = await asyncio.get_running_loop().run_in_executor(sources.executor, self._read, keys)
        return [*machine, *step_families(readings, known, self._suspected), *self._gpu_families()]

    def _read(self, keys: list[StepKey]) -> tuple[list[MetricFamily], dict[StepKey, StepReading]]:
        """Reads the kernel's files, in a worker thread."""
        return machine_families("/proc", self._sources.spool), self._sources.reader.read(keys)

    def _gpu_families(self) -> Iterable[MetricFamily]:
        agent = self._agent
        if agent is None:
            return
        views = [
            SampledGpu(
                device, sample, self._last.power_w.get(device.uuid),
                () if self._settings.hides_jobs else tuple(held.key for held in agent.steps_using(device.uuid)),
            )
            for device in agent.devices()
            if (sample := self._last.samples.get(device.uuid)) is not None
        ]  # fmt: skip
        age_s = (self._sources.now_us() - self._polled_at_us) / _US if self._polled_at_us else None
        yield from gpu_families(views, agent.opinions(), self.labels, age_s)
        if self._settings.dcgm_names:
            yield from dcgm_families(views, self._sources.node)
