"""The site's programs that belong to the node and to no job: HealthCheckProgram, RebootProgram, UnkillableStepProgram.

The health check runs once when it is first configured, then every HealthCheckInterval while the node is in one of the
states of HealthCheckNodeState. As in Slurm its exit status is ignored: the program itself acts on its findings, with
`scontrol update nodename=... state=drain`. One that hangs is killed.

A node daemon knows whether steps run on it, and not how much of the node they have: ALLOC and MIXED mean "steps
run", IDLE and NONDRAINED_IDLE mean "none run". With CYCLE the first check of the period comes at a random moment of it,
which spreads the load over the nodes.
"""

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from nodedaemon.base import scripts
from nodedaemon.core.scriptenv import context
from nodedaemon.launch.wire import NodeFacts
from nodedaemon.stepd import namespace

log = logging.getLogger("penstock.noded")

#: A health check that takes longer hangs: Slurm's limit.
HEALTH_CHECK_S = 60.0
#: Time limit of the start of a reboot.
REBOOT_S = 60.0
#: Time limit of UnkillableStepProgram.
UNKILLABLE_S = 60.0
#: State -> whether steps must run; None = does not matter.
_BUSY: dict[str, bool | None] = {
    "ANY": None, "ALLOC": True, "MIXED": True, "IDLE": False, "NONDRAINED_IDLE": False,
}  # fmt: skip


def applies(states: str, is_busy: bool) -> bool:
    """Whether a node in that state is checked. `states`: HealthCheckNodeState."""
    words = [word for word in states.upper().split(",") if word not in ("", "CYCLE")] or ["ANY"]
    return any(_BUSY[word] in (None, is_busy) for word in words if word in _BUSY)


class SitePrograms:
    """Runs them in worker threads; also removes private folders that jobs have left."""

    def __init__(self, node: NodeFacts, executor: Executor, jobs: Callable[[], set[str]]) -> None:
        """jobs: returns those with steps here, as JOB.ATTEMPT."""
        self._node = node
        self._executor = executor
        self._jobs = jobs
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._swept = ""
        node.site.listeners += [self._changed.set, self.sweep]

    def sweep(self) -> None:
        """Removes private folders of jobs that are no longer here: left by a reboot, or by an extern step that was
        killed."""
        base = self._node.site.settings.private_tmp
        if not base or base == self._swept:
            return
        self._swept = base
        found = namespace.leftovers(base, self._node.node_name)
        here = self._jobs()  # read after the listing: a job that starts later is not in it
        for job in found:
            if job not in here:
                path = namespace.folder_of(base, self._node.node_name, f"{job}.0")
                self._executor.submit(_remove, path)

    def reboot(self, reason: str) -> None:
        """Runs RebootProgram."""
        program = self._node.site.settings.reboot_program
        if not program:
            log.error("ordered to reboot, but there is no RebootProgram")
            return
        log.warning("rebooting by %s: %s", program, reason)
        task = self._loop.create_task(self._run(program, "reboot", REBOOT_S))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def unkillable(self, job_id: int, step: str) -> None:
        """Runs UnkillableStepProgram, if configured, for a step with a process that SIGKILL does not end."""
        program = self._node.site.settings.unkillable_step_program
        if program:
            facts = {
                "SLURM_JOB_ID": str(job_id),
                "SLURM_JOBID": str(job_id),
                "SLURM_STEP_ID": step,
                "SLURM_STEPID": step,
            }
            task = self._loop.create_task(self._run(program, "unkillable_step", UNKILLABLE_S, facts))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def check_health(self) -> None:
        """Runs HealthCheckProgram periodically."""
        checked = ""
        while True:
            settings = self._node.site.settings
            program, interval_s = settings.health_check_program, settings.health_check_interval_s
            states = settings.health_check_node_state
            if program and checked != program:
                checked = program
                await self._run(program, "health_check", HEALTH_CHECK_S)
                if "CYCLE" in states:
                    await self._pause(interval_s * random.random())  # noqa: S311 (spreads the nodes, protects nothing)
                    continue
            elif program and applies(states, bool(self._jobs())):
                await self._run(program, "health_check", HEALTH_CHECK_S)
            await self._pause(interval_s if program and interval_s else None)

    async def _pause(self, wait_s: float | None) -> None:
        """Waits this long, or until the configuration changes."""
        self._changed.clear()
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _run(self, program: str, what: str, timeout_s: float, facts: Mapping[str, str] | None = None) -> None:
        env = {**context(what, self._node.node_name), **(facts or {})}
        cluster = self._node.cluster_file or os.environ.get("PENSTOCK_CLUSTER", "")
        if cluster:
            env["PENSTOCK_CLUSTER"] = cluster  # for scontrol
        outcome = await self._loop.run_in_executor(self._executor, scripts.run, [program], env, timeout_s)
        if outcome.output:
            log.info("%s printed: %s", what, outcome.output.decode("utf-8", "replace").rstrip())
        if outcome.failure:
            log.warning("%s: %s", what, outcome.failure)


def _remove(path: str) -> None:
    try:
        namespace.remove(path)
        log.info("removed %s of a job that is no longer here", path)
    except OSError as error:
        log.warning("cannot remove %s: %s", path, error.strerror or error)
