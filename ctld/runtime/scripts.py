"""PrologSlurmctld and EpilogSlurmctld: the site's programs on the controller's machine, beside the loop.

Rules
    - As the controller's user, in a session of their own, with a deadline (PrologEpilogTimeout); at the deadline the
      whole process group is killed.
    - The environment is a fixed list of names; user input only occurs in values (reliability.md 3).
    - SCRIPTS_MAX run at a time, the others wait. The loop never waits.
    - The end of a prolog is an event for the core; that of an epilog is only logged, as nothing waits for it.

Deliberately absent: consequences of failures (core/nodes/extern_steps.py).
"""

import asyncio
import glob
import logging
from typing import Final

from ctld.core.records.effects import RunScript
from ctld.core.records.events import ScriptEnded
from ctld.core.records.job import JobRow
from ctld.runtime.loop import Runtime
from ctld.runtime.programs import PATH
from ctld.runtime.programslots import ProgramSlots
from ctld.runtime.siteprograms import Program, run
from penstock.values.hostlist import compress

log = logging.getLogger("penstock.ctld")

SCRIPTS_MAX: Final = 64


class ScriptRunner:
    """Takes the RunScript effects of a runtime."""

    def __init__(self, runtime: Runtime, cluster_name: str) -> None:
        self._runtime = runtime
        self._cluster_name = cluster_name
        self._turns = ProgramSlots(SCRIPTS_MAX)
        runtime.handlers[RunScript] = lambda effect: self._turns.start(self._run, effect, effect.job.user_id)

    def stop(self) -> None:
        """Cancels all programs, without waiting for them: running ones are repeated after a restart."""
        self._turns.stop()

    async def _run(self, effect: RunScript) -> None:
        job = effect.job
        failure = await self._run_all(effect)
        if failure:
            log.warning("job %d: %s: %s", job.job_id, effect.context, failure)
        if effect.context == "prolog_slurmctld":
            self._runtime.post(ScriptEnded(job.job_id, job.attempt, failure))

    async def _run_all(self, effect: RunScript) -> str:
        """Runs the programs; "" = all succeeded, else a description of the first failure."""
        env = environment(effect.job, effect.context, self._cluster_name)
        for pattern in effect.patterns:
            paths = sorted(await asyncio.to_thread(glob.glob, pattern)) if glob.has_magic(pattern) else [pattern]
            for path in paths:
                who = f"job {effect.job.job_id}: {effect.context}"
                if failure := (await run(Program([path], env, effect.timeout_s, who))).failure:
                    return failure
        return ""


def environment(job: JobRow, context: str, cluster_name: str) -> dict[str, str]:
    """Returns the environment of the programs. Names are ours; nothing of the submitted environment is among them."""
    request = job.request
    env = {
        "PATH": PATH,
        "SLURM_SCRIPT_CONTEXT": context,
        "SLURM_CLUSTER_NAME": cluster_name,
        "SLURM_JOB_ID": job.job_id,
        "SLURM_JOBID": job.job_id,
        "SLURM_JOB_NAME": request.name,
        "SLURM_JOB_USER": job.user_name,
        "SLURM_JOB_UID": job.user_id,
        "SLURM_JOB_GROUP": job.group_name,
        "SLURM_JOB_GID": job.group_id,
        "SLURM_JOB_ACCOUNT": request.account,
        "SLURM_JOB_PARTITION": job.partition,
        "SLURM_JOB_QOS": request.qos,
        "SLURM_JOB_COMMENT": request.comment,
        "SLURM_JOB_CONSTRAINTS": request.features,
        "SLURM_JOB_EXTRA": request.extra,
        "SLURM_JOB_LICENSES": request.licenses,
        "SLURM_JOB_EXCLUSIVE": request.exclusive_word(),
        "SLURM_JOB_OVERSUBSCRIBE": request.oversubscribe_word(),
        "SLURM_JOB_RESERVATION": request.reservation_run or request.reservation,
        "SLURM_JOB_NODELIST": compress(part.node for part in job.alloc),
        "SLURM_JOB_NUM_NODES": len(job.alloc),
        "SLURM_JOB_RESTART_COUNT": job.attempt,
        "SLURM_JOB_START_TIME": job.start_at_us // 1_000_000,
        "SLURM_JOB_WORK_DIR": request.work_dir.decode("utf-8", "backslashreplace"),
        "SLURM_JOB_STDOUT": request.std_out.decode("utf-8", "backslashreplace"),
        "SLURM_JOB_STDERR": request.std_err.decode("utf-8", "backslashreplace"),
        "SLURM_JOB_STDIN": request.std_in.decode("utf-8", "backslashreplace"),
        "SLURM_SUBMIT_DIR": request.submit_dir.decode("utf-8", "backslashreplace"),
        "SLURM_WCKEY": request.wckey,
    }
    if job.array_task_id is not None:
        env |= {"SLURM_ARRAY_JOB_ID": job.array_job_id, "SLURM_ARRAY_TASK_ID": job.array_task_id}
    if context == "epilog_slurmctld":
        env |= {
            "SLURM_JOB_END_TIME": job.end_at_us // 1_000_000,
            "SLURM_JOB_EXIT_CODE": job.exit_code << 8 | job.exit_signal,
            "SLURM_JOB_EXIT_CODE2": f"{job.exit_code}:{job.exit_signal}",
            "SLURM_JOB_DERIVED_EC": f"{job.derived_code}:{job.derived_signal}",
        }
    return {name: str(value) for name, value in env.items() if value != "" and "\0" not in str(value)}
