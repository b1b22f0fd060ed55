"""Counts the GPU usage of steps while they run, stores it for a restart, and reports it at their end.

    ordered -> the figures' file in the step's folder, a poll of its GPUs
    polled  -> the figures of all steps with GPUs; idle jobs; their files
    over    -> a last poll, for which the end waits no longer than LAST_POLL_S; what it and the driver report of the
            GPUs
               is handled first (agent.flush_reports); then the figures are added to the end's report

The file (`gpus`, written whole, not synced: a step does not outlive a loss of power) contains the ledger's state, for a
later noded, and the figures in sstat's form, for the step's own supervisor (stepd/sampling.py).

The same polls make the GPUs' part of profiles (gpu_profiles.py).

A listener of the agent (hooks.py). core/gpuusage.py attributes the usage, core/gpuidle.py detects idle jobs, the agent
finds the owners of processes; NVML's own accounting is read at the end, where the site has enabled it.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Mapping

import msgspec

from nodedaemon.base.orders import LaunchOrder
from nodedaemon.core import gpuusage
from nodedaemon.core.gpuhealth_messages import GpuOwner
from nodedaemon.core.gpuidle import detect_idle
from nodedaemon.core.gpumessages import Found, Polled
from nodedaemon.core.gpuusage import Activity, GpuMetric, StepUse, UsageLedger, UsageShare, metrics_of
from nodedaemon.core.messages import NodeCoreEvent, StepEnded
from nodedaemon.core.steps import JobKey, StepKey
from nodedaemon.daemon.gpu_profiles import GpuProfiles
from nodedaemon.gpu import kept
from nodedaemon.gpu.agent import GpuAgent
from nodedaemon.gpu.hooks import Listener
from nodedaemon.gpu.jobmap import JobMap, file_name
from nodedaemon.launch.site import Site
from nodedaemon.spool.gpufile import NAME, content, read_kept
from nodedaemon.stepd.sampling import CPU_MS, READ_BYTES, RSS_KB, WRITE_BYTES
from penstock.v1 import node_pb2
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP

log = logging.getLogger("penstock.noded")

#: Polls of a step's GPUs soon after its beginning, so that a process that ends before the next regular poll is seen.
EARLY_S = (1.0, 4.0)
#: Time that a step's end waits for the last poll of its GPUs.
LAST_POLL_S = 2.0
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StepUse).decode
Post = Callable[[NodeCoreEvent], None]


class GpuUsage(Listener):
    """The GPU usage of this node; only from the loop's thread."""

    def __init__(
        self,
        agent: GpuAgent,
        steps_fd: int,
        site: Site,
        now_us: Callable[[], int],
        is_suspended: Callable[[JobKey], bool],
    ) -> None:
        self._agent = agent
        self._steps_fd = steps_fd
        self._site = site
        self._now_us = now_us
        self._is_suspended = is_suspended
        self._ledger = UsageLedger()
        self.profiles = GpuProfiles(steps_fd)
        self._uids: dict[StepKey, int] = {}
        self._unkept: dict[StepKey, tuple[str, ...]] = {}  # steps that have begun and have no file (yet): their GPUs
        self._files: dict[str, str] = {}  # by uuid: its file name for exporters
        self._memory_kb: dict[str, int] = {}
        self._map = JobMap()
        self._ending: dict[StepKey, list[StepEnded]] = {}  # with further ends that were reported meanwhile
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []  # polls whose figures are awaited
        self.tasks: set[asyncio.Task[None]] = set()  # work beside the loop
        self._runs = False
        self._counted_us = 0  # time of the last poll
        self._can_keep = True  # False after a failure to write was logged
        self.found(agent.found)

    # -- requirements on the probe

    def poll_s(self, usual_s: float) -> float:
        """The polling interval: shorter than usual while a job has a GPU, when JobAcctGatherFrequency says so."""
        wanted_s = self._site.settings.acct_gather_frequency_s
        return min(usual_s, wanted_s) if self._ledger.uses and wanted_s else usual_s

    def per_process(self) -> tuple[str, ...]:
        """The GPUs whose processes are counted one by one: several steps have them."""
        return self._ledger.shared()

    # -- calls of the agent

    def start(self) -> None:
        """Starts with the loop. A step whose file was not written is counted from now on."""
        self._runs = True
        for key, uuids in self._unkept.items():
            self._begin(key, [UsageShare(uuid, memory_kb=self._memory_kb.get(uuid, 0)) for uuid in uuids], 0)
        self._unkept.clear()
        self._changed()

    def stop(self) -> None:
        """Stops with the daemon; requests nothing more."""
        self._runs = False
        for task in self.tasks:
            task.cancel()

    def take_settings(self, settings: node_pb2.GpuSettings) -> None:
        """Applies a new configuration."""
        self._map.use(settings.job_map_dir)
        self._show_jobs()

    def found(self, found: Found) -> None:
        """Applies a new inventory."""
        self._files = {device.uuid: file_name(device) for device in found.devices}
        self._memory_kb = {device.uuid: device.memory_mb * 1024 for device in found.devices}
        self._show_jobs()

    def began(self, key: StepKey, uid: int, uuids: tuple[str, ...]) -> None:
        """Adds a step that has GPUs: figures of an earlier daemon are read; `ordered` completes a new step."""
        use = self._read(key)
        self._uids[key] = uid
        if use is None:
            self._unkept[key] = uuids
        else:
            self._ledger.restore([use], self._now_us())
            self.profiles.restore(key)

    def ended(self, key: StepKey) -> None:
        """Handles an end that is not reported through `over`: the launch never reached the launcher."""
        self._unkept.pop(key, None)
        self.profiles.end(key)
        self._uids.pop(key, None)
        if self._ledger.end(key) is not None:
            self._changed()

    def returned(self, key: StepKey, uuids: tuple[str, ...]) -> None:
        """Handles GPUs that the job releases."""
        self._ledger.give_back((key.job_id, key.attempt), uuids)
        self._show_jobs()

    def _read(self, key: StepKey) -> StepUse | None:
        found = read_kept(f"{key}/{NAME}", self._steps_fd)
        if found is None:
            return None
        try:
            use = _decode(found[0])
        except msgspec.DecodeError as error:  # of another version, or written on a full disk
            log.warning("step %s: its GPU figures cannot be read and start from zero: %s", key, error)
            return None
        return use if use.key == key else None

    # -- steps

    def ordered(self, key: StepKey, order: LaunchOrder) -> None:
        """Handles a launch in progress: the step has its folder."""
        self._unkept.pop(key, None)
        units = order.gpu_shares or [[1, 1]] * len(order.gpus)
        held = [
            UsageShare(uuid, mine, of, self._memory_kb.get(uuid, 0))
            for uuid, (mine, of) in zip(order.gpus, units, strict=True)
        ]
        if order.profile_every_s and held and key.step_id != EXTERN_STEP:
            self.profiles.begin(key, order.gpus)
        self._begin(key, held, order.tasks[0].rank if order.tasks else 0)

    def _begin(self, key: StepKey, held: list[UsageShare], rank: int) -> None:
        use = self._ledger.begin(key, self._now_us(), held, rank)
        if use is None:
            return
        self._write(use)
        self._changed()
        if self._runs and key.step_id != EXTERN_STEP:
            self._start(_in_time(self._count_now()))
            for wait_s in EARLY_S:
                asyncio.get_running_loop().call_later(wait_s, self._poll_early, key)

    def _poll_early(self, key: StepKey) -> None:
        if self._runs and key in self._ledger.uses and key not in self._ending:
            self._start(_in_time(self._count_now()))

    def _changed(self) -> None:
        self._show_jobs()
        self._agent.settle()

    def over(self, end: StepEnded, post: Post) -> None:
        """Passes a step's end with its figures to `post`, after a last poll of its GPUs; at once for a step without
        GPUs.
        """
        key = end.key
        if key in self._ending:  # a repeated report: keep the order
            self._ending[key].append(end)
        elif not self._runs:  # it ended while no daemon was running
            use = self._read(key)
            self.profiles.restore(key)
            post(end if use is None else with_figures(end, use))
        elif key not in self._ledger.uses:
            post(end)
        elif not end.start_at_us or key.step_id == EXTERN_STEP:
            self._finish(end, post)
        else:
            self._ending[key] = []
            self._start(self._poll_and_finish(end, post))

    async def _poll_and_finish(self, end: StepEnded, post: Post) -> None:
        await _in_time(self._last_poll(end.key))
        await _in_time(self._agent.flush_reports(has_failed(end)))
        self._finish(end, post)

    async def _last_poll(self, key: StepKey) -> None:
        await self._count_now()
        await self._ask_lifetimes(key)

    async def _ask_lifetimes(self, key: StepKey) -> None:
        """Reads NVML's own accounting, where the site has enabled it (PenstockGpuAccountingMode)."""
        if not self._agent.may_set(self._site.settings.gpu.accounting_mode):
            return
        gpus = self._ledger.uses[key].gpus
        pids = {uuid: tuple(on.pids) for uuid, on in gpus.items() if on.pids}
        if pids:
            self._ledger.add_lifetimes(key, await self._agent.watch.lifetimes(pids, LAST_POLL_S))

    def _finish(self, end: StepEnded, post: Post) -> None:
        use = self._ledger.end(end.key)
        assert use is not None
        if use.estimated:
            log.info("step %s: the energy of its GPUs is an estimate", end.key)
        post(with_figures(end, use))
        for again in self._ending.pop(end.key, ()):
            post(again)
        self._changed()

    # -- samples

    async def _count_now(self) -> None:
        """Polls the GPUs, and waits until the poll is counted."""
        polled = await self._agent.watch.poll(LAST_POLL_S)
        if polled is not None and polled.at_us > self._counted_us:
            counted = asyncio.get_running_loop().create_future()
            self._awaited.append((polled.at_us, counted))
            await counted

    def polled(self, polled: Polled, owners: Mapping[int, GpuOwner]) -> None:
        """Counts a poll."""
        keys = {pid: key for pid, owner in owners.items() if (key := step_of(owner)) is not None}
        self._add_servers(polled, owners, keys)
        now_us = self._now_us()
        did = self._ledger.take(now_us, polled.samples, keys, self._ending)
        self.profiles.take(now_us, polled.samples, self._ledger.uses)
        for job, activities in did.items():
            self._report_idle(job, activities, now_us)
            for use in self._ledger.steps_of(job):
                self._write(use)
        self._counted_us = max(self._counted_us, polled.at_us)
        waiting = self._awaited
        self._awaited = [(at_us, counted) for at_us, counted in waiting if at_us > polled.at_us]
        for at_us, counted in waiting:
            if at_us <= polled.at_us and not counted.done():
                counted.set_result(None)

    def _add_servers(self, polled: Polled, owners: Mapping[int, GpuOwner], keys: dict[int, StepKey]) -> None:
        """Adds the MPS servers, which run outside of the job that they serve: each belongs to its user's one job with
        shares there."""
        for sample in polled.samples:
            for process in sample.processes or ():
                owner = owners.get(process.pid)
                if owner is None or process.pid in keys:
                    continue
                of_user = [key for key in self._ledger.sharers(sample.uuid) if self._uids.get(key) == owner.uid]
                if of_user and len({(key.job_id, key.attempt) for key in of_user}) == 1:
                    keys[process.pid] = of_user[0]

    def _report_idle(self, job: JobKey, activities: list[Activity], at_us: int) -> None:
        gpu = self._site.settings.gpu
        after_us = 0 if self._is_suspended(job) else gpu.idle_warn_s * 1_000_000
        word = detect_idle(self._ledger.steps_of(job), activities, at_us, gpu.idle_percent, after_us)
        if word is not None:
            key = node_pb2.StepKey(job_id=word.key.job_id, attempt=word.key.attempt, step_id=word.key.step_id)
            idle = node_pb2.GpuIdle(
                key=key, uuid=word.uuids, since_us=word.since_us, over=word.over, unused=word.unused
            )
            self._agent.send_report(node_pb2.Report(gpu_idle=idle))

    # -- files

    def _write(self, use: StepUse) -> None:
        """Stores its figures so far. A step whose folder is gone, or for which there is no space, continues
        uncounted."""
        try:
            data = content(_encode(use), [list(metric) for metric in reported_metrics(use)])
            kept.save(self._steps_fd, f"{use.key}/{NAME}", data, sync=False)  # it does not outlive a loss of power
        except FileNotFoundError:
            return  # it has ended, and its folder was removed already
        except OSError as error:
            if self._can_keep:
                log.warning("step %s: its GPU figures cannot be kept: %s", use.key, os.strerror(error.errno or 0))
            self._can_keep = False
        else:
            self._can_keep = True

    def _show_jobs(self) -> None:
        self._map.show({name: self._ledger.jobs_on(uuid) for uuid, name in self._files.items()})

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def _in_time(work: Coroutine[object, object, None]) -> None:
    """Limits the time of the work: figures must not delay a step's end for long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_POLL_S):
            await work


def has_failed(end: StepEnded) -> bool:
    """Whether it failed by itself: a job that was cancelled, or reached its time limit, ends by one of these
    signals."""
    return bool(end.exit_code or end.failure) or end.exit_signal not in (0, signal.SIGTERM, signal.SIGKILL)


def step_of(owner: GpuOwner) -> StepKey | None:
    """Returns the step of a process, or else the batch step of its job."""
    return owner.step or (StepKey(*owner.job, BATCH_STEP) if owner.job is not None else None)


def reported_metrics(use: StepUse) -> tuple[GpuMetric, ...]:
    """Returns the metrics that are reported of a step. The extern step's are reported only when its processes used the GPUs."""
    metrics = metrics_of(use)
    did = any(metric[1] for metric in metrics if metric[0] != gpuusage.GPU_MEM_HELD_KB)
    return metrics if did or use.key.step_id != EXTERN_STEP else ()


def with_figures(end: StepEnded, use: StepUse) -> StepEnded:
    """Adds the GPU figures to a step's end."""
    metrics = reported_metrics(use)
    if not metrics:
        return end
    return msgspec.structs.replace(end, metrics=(end.metrics or _basics(end)) + metrics, measured=max(end.measured, 1))


def _basics(end: StepEnded) -> tuple[GpuMetric, ...]:
    """Returns the metrics that the end itself contains, for a script that was not sampled, so that records have one
    form."""
    found = [(CPU_MS, (end.user_cpu_us + end.system_cpu_us) // 1000)]
    found += [(RSS_KB, end.max_rss_kb)] if end.max_rss_kb else []
    found += [(READ_BYTES, end.disk_read_bytes), (WRITE_BYTES, end.disk_write_bytes)]
    return tuple((kind, value, value, 0, value, 0) for kind, value in found)
