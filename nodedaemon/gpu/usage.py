"""What steps do with their GPUs, counted while they run, kept where a restart finds it, told at their end.

    ordered -> the figures' file in the step's folder, a poll of its GPUs
    polled  -> the figures of all who hold GPUs; idle jobs; their files
    over    -> a last poll, for which the end waits no longer than LAST_POLL_S; what it, and the driver, say of the GPUs
               is told (agent.hear_out); then the figures go into the end's report

The file (`gpus`, written whole, not synced: a step does not outlive a loss of power) holds what the ledger knows, for the
noded that comes after this one, and the figures as sstat wants them, for the step's own supervisor (sampling.py).

A listener of the agent (hooks.py). Who counts what for whom is core/gpuusage.py's, who is idle core/gpuidle.py's, and whose
a process is the agent's; what NVML's own accounting adds is asked for at the end, where the site has switched it on.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from nodedaemon.core import gpuusage
from nodedaemon.core.gpuhealth_words import Owner
from nodedaemon.core.gpuidle import look_idle
from nodedaemon.core.gpuusage import Activity, Job, Ledger, Metric, Share, StepUse, metrics_of
from nodedaemon.core.gpuwords import Found, Polled
from nodedaemon.core.messages import Event, StepEnded
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu import kept
from nodedaemon.gpu.agent import GpuAgent
from nodedaemon.gpu.hooks import Listener
from nodedaemon.gpu.jobmap import JobMap, file_name
from nodedaemon.gpufile import NAME, content, read_kept
from nodedaemon.orders import LaunchOrder
from nodedaemon.sampling import CPU_MS, READ_BYTES, RSS_KB, WRITE_BYTES
from nodedaemon.site import Site
from penstock.v1 import node_pb2
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP

log = logging.getLogger("penstock.noded")

#: Looks at a step's GPUs soon after its beginning, so that what is over before the next regular one was seen at work.
EARLY_S = (1.0, 4.0)
#: How long a step's end waits for the last look at its GPUs.
LAST_POLL_S = 2.0
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StepUse).decode
Post = Callable[[Event], None]


class GpuUsage(Listener):
    """Of this node; only from the loop's thread."""

    def __init__(
        self,
        agent: GpuAgent,
        steps_fd: int,
        site: Site,
        now_us: Callable[[], int],
        is_suspended: Callable[[Job], bool],
    ) -> None:
        self._agent = agent
        self._steps_fd = steps_fd
        self._site = site
        self._now_us = now_us
        self._is_suspended = is_suspended
        self._ledger = Ledger()
        self._uids: dict[StepKey, int] = {}
        self._unkept: dict[StepKey, tuple[str, ...]] = {}  # steps that began and have no file (yet): their GPUs
        self._files: dict[str, str] = {}  # by uuid: what exporters call it
        self._memory_kb: dict[str, int] = {}
        self._map = JobMap()
        self._ending: dict[StepKey, list[StepEnded]] = {}  # and what else was said of their end meanwhile
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []  # polls whose figures somebody waits for
        self._tasks: set[asyncio.Task[None]] = set()
        self._runs = False
        self._counted_us = 0  # the last poll
        self._can_keep = True  # else it was said
        self.found(agent.found)

    # -- what is asked of the probe

    def poll_s(self, usual_s: float) -> float:
        """More often than usual while a job has a GPU, when JobAcctGatherFrequency says so."""
        wanted_s = self._site.settings.acct_gather_frequency_s
        return min(usual_s, wanted_s) if self._ledger.uses and wanted_s else usual_s

    def per_process(self) -> tuple[str, ...]:
        """GPUs of which it matters what each process does: several steps have them."""
        return self._ledger.shared()

    # -- of the agent

    def start(self) -> None:
        """The loop runs. A step whose file was not written any more is counted from now on."""
        self._runs = True
        for key, uuids in self._unkept.items():
            self._begin(key, [Share(uuid, memory_kb=self._memory_kb.get(uuid, 0)) for uuid in uuids], 0)
        self._unkept.clear()
        self._changed()

    def stop(self) -> None:
        """The daemon ends: nothing more is asked."""
        self._runs = False
        for task in self._tasks:
            task.cancel()

    def take_settings(self, settings: node_pb2.GpuSettings) -> None:
        """There is a new configuration."""
        self._map.use(settings.job_map_dir)
        self._show_jobs()

    def found(self, found: Found) -> None:
        """What GPUs there are now."""
        self._files = {device.uuid: file_name(device) for device in found.devices}
        self._memory_kb = {device.uuid: device.memory_mb * 1024 for device in found.devices}
        self._show_jobs()

    def began(self, key: StepKey, uid: int, uuids: tuple[str, ...]) -> None:
        """A step has GPUs: of an earlier daemon's, whose figures are read; of a new one `ordered` says more."""
        use = self._read(key)
        self._uids[key] = uid
        if use is None:
            self._unkept[key] = uuids
        else:
            self._ledger.restore([use], self._now_us())

    def ended(self, key: StepKey) -> None:
        """Its end is known, if not through `over`: it could not even be handed to the launcher."""
        self._unkept.pop(key, None)
        self._uids.pop(key, None)
        if self._ledger.end(key) is not None:
            self._changed()

    def returned(self, key: StepKey, uuids: tuple[str, ...]) -> None:
        """The job goes on without these."""
        self._ledger.give_back((key.job_id, key.attempt), uuids)
        self._show_jobs()

    def _read(self, key: StepKey) -> StepUse | None:
        found = read_kept(f"{key}/{NAME}", self._steps_fd)
        if found is None:
            return None
        try:
            use = _decode(found[0])
        except msgspec.DecodeError as error:  # of another version, or of a disk that was full
            log.warning("step %s: its GPU figures cannot be read and begin anew: %s", key, error)
            return None
        return use if use.key == key else None

    # -- steps

    def ordered(self, key: StepKey, order: LaunchOrder) -> None:
        """The launch is on its way and the step has its folder."""
        self._unkept.pop(key, None)
        units = order.gpu_shares or [[1, 1]] * len(order.gpus)
        held = [
            Share(uuid, mine, of, self._memory_kb.get(uuid, 0))
            for uuid, (mine, of) in zip(order.gpus, units, strict=True)
        ]
        self._begin(key, held, order.tasks[0].rank if order.tasks else 0)

    def _begin(self, key: StepKey, held: list[Share], rank: int) -> None:
        use = self._ledger.begin(key, self._now_us(), held, rank)
        if use is None:
            return
        self._write(use)
        self._changed()
        if self._runs and key.step_id != EXTERN_STEP:
            self._start(_in_time(self._count_now()))
            for wait_s in EARLY_S:
                asyncio.get_running_loop().call_later(wait_s, self._look_early, key)

    def _look_early(self, key: StepKey) -> None:
        if self._runs and key in self._ledger.uses and key not in self._ending:
            self._start(_in_time(self._count_now()))

    def _changed(self) -> None:
        self._show_jobs()
        self._agent.settle()

    def over(self, end: StepEnded, post: Post) -> None:
        """`post` a step's end with its figures, after a last look at its GPUs; at once that of a step without GPUs."""
        key = end.key
        if key in self._ending:  # it is told twice: in the same order
            self._ending[key].append(end)
        elif not self._runs:  # it ended while no daemon was there
            use = self._read(key)
            post(end if use is None else with_figures(end, use))
        elif key not in self._ledger.uses:
            post(end)
        elif not end.start_at_us or key.step_id == EXTERN_STEP:
            self._finish(end, post)
        else:
            self._ending[key] = []
            self._start(self._poll_and_finish(end, post))

    async def _poll_and_finish(self, end: StepEnded, post: Post) -> None:
        await _in_time(self._last_look(end.key))
        await _in_time(self._agent.hear_out(has_failed(end)))
        self._finish(end, post)

    async def _last_look(self, key: StepKey) -> None:
        await self._count_now()
        await self._ask_lifetimes(key)

    async def _ask_lifetimes(self, key: StepKey) -> None:
        """Where the site has switched NVML's own accounting on (PenstockGpuAccountingMode)."""
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
        """Look at the GPUs, and wait until that is counted."""
        polled = await self._agent.watch.poll(LAST_POLL_S)
        if polled is not None and polled.at_us > self._counted_us:
            counted = asyncio.get_running_loop().create_future()
            self._awaited.append((polled.at_us, counted))
            await counted

    def polled(self, polled: Polled, owners: Mapping[int, Owner]) -> None:
        """What the GPUs do now."""
        keys = {pid: key for pid, owner in owners.items() if (key := step_of(owner)) is not None}
        self._add_servers(polled, owners, keys)
        now_us = self._now_us()
        did = self._ledger.take(now_us, polled.samples, keys, self._ending)
        for job, activities in did.items():
            self._look_idle(job, activities, now_us)
            for use in self._ledger.steps_of(job):
                self._write(use)
        self._counted_us = max(self._counted_us, polled.at_us)
        waiting = self._awaited
        self._awaited = [(at_us, counted) for at_us, counted in waiting if at_us > polled.at_us]
        for at_us, counted in waiting:
            if at_us <= polled.at_us and not counted.done():
                counted.set_result(None)

    def _add_servers(self, polled: Polled, owners: Mapping[int, Owner], keys: dict[int, StepKey]) -> None:
        """An MPS server runs outside of the job that it serves: it is the one job's of its user that has shares there."""
        for sample in polled.samples:
            for process in sample.processes or ():
                owner = owners.get(process.pid)
                if owner is None or process.pid in keys:
                    continue
                of_user = [key for key in self._ledger.sharers(sample.uuid) if self._uids.get(key) == owner.uid]
                if of_user and len({(key.job_id, key.attempt) for key in of_user}) == 1:
                    keys[process.pid] = of_user[0]

    def _look_idle(self, job: Job, activities: list[Activity], at_us: int) -> None:
        gpu = self._site.settings.gpu
        after_us = 0 if self._is_suspended(job) else gpu.idle_warn_s * 1_000_000
        word = look_idle(self._ledger.steps_of(job), activities, at_us, gpu.idle_percent, after_us)
        if word is not None:
            key = node_pb2.StepKey(job_id=word.key.job_id, attempt=word.key.attempt, step_id=word.key.step_id)
            idle = node_pb2.GpuIdle(
                key=key, uuid=word.uuids, since_us=word.since_us, over=word.over, unused=word.unused
            )
            self._agent.say(node_pb2.Report(gpu_idle=idle))

    # -- files

    def _write(self, use: StepUse) -> None:
        """Its figures so far. A step whose folder is gone, or that finds no room, goes on uncounted."""
        try:
            data = content(_encode(use), [list(metric) for metric in told(use)])
            kept.save(self._steps_fd, f"{use.key}/{NAME}", data, sync=False)  # it does not outlive a loss of power
        except FileNotFoundError:
            return  # it has ended, and its folder was faster
        except OSError as error:
            if self._can_keep:
                log.warning("step %s: its GPU figures cannot be kept: %s", use.key, os.strerror(error.errno or 0))
            self._can_keep = False
        else:
            self._can_keep = True

    def _show_jobs(self) -> None:
        self._map.show({name: self._ledger.jobs_on(uuid) for uuid, name in self._files.items()})

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _in_time(work: Coroutine[Any, Any, None]) -> None:
    """Not for ever: figures are no reason to hold anything up."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_POLL_S):
            await work


def has_failed(end: StepEnded) -> bool:
    """By itself: whoever is cancelled, or at its time limit, ends by one of these signals."""
    return bool(end.exit_code or end.failure) or end.exit_signal not in (0, signal.SIGTERM, signal.SIGKILL)


def step_of(owner: Owner) -> StepKey | None:
    """Whose a process is: a step's, or its job's."""
    return owner.step or (StepKey(*owner.job, BATCH_STEP) if owner.job is not None else None)


def told(use: StepUse) -> tuple[Metric, ...]:
    """What is said of a step. A job's holder is only worth a word when the GPUs did something for it."""
    metrics = metrics_of(use)
    did = any(metric[1] for metric in metrics if metric[0] != gpuusage.GPU_MEM_HELD_KB)
    return metrics if did or use.key.step_id != EXTERN_STEP else ()


def with_figures(end: StepEnded, use: StepUse) -> StepEnded:
    """A step's end that says what its GPUs did."""
    metrics = told(use)
    if not metrics:
        return end
    return msgspec.structs.replace(end, metrics=(end.metrics or _basics(end)) + metrics, measured=max(end.measured, 1))


def _basics(end: StepEnded) -> tuple[Metric, ...]:
    """Of a script that nobody has sampled: what its end alone says, so that records have one form."""
    found = [(CPU_MS, (end.user_cpu_us + end.system_cpu_us) // 1000)]
    found += [(RSS_KB, end.max_rss_kb)] if end.max_rss_kb else []
    found += [(READ_BYTES, end.disk_read_bytes), (WRITE_BYTES, end.disk_write_bytes)]
    return tuple((kind, value, value, 0, value, 0) for kind, value in found)
