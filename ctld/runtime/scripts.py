"""PrologSlurmctld and EpilogSlurmctld: the site's programs on the controller's machine, beside the loop.

Rules
    - As the controller's user, in a session of their own, with a deadline (PrologEpilogTimeout); at the deadline the
      whole process group is killed.
    - The environment is a list of names; what a user chose is only ever a value (reliability.md 3).
    - SCRIPTS_MAX run at a time, the others wait. The loop goes on.
    - The core hears of the end of a prolog; an epilog's is only logged, as nothing waits for it.

Deliberately absent: what a failure means (core/holders.py).
"""

import asyncio
import glob
import logging
from typing import Any, Final

from ctld.core.effects import RunScript
from ctld.core.events import ScriptEnded
from ctld.core.model import JobRow
from ctld.runtime.loop import Runtime
from ctld.runtime.programs import Turns, ends_within
from penstock.values.hostlist import compress

log = logging.getLogger("penstock.ctld")

SCRIPTS_MAX: Final = 64
OUTPUT_BYTES_MAX: Final = 4096
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ScriptRunner:
    """Takes the RunScript effects of a runtime."""

    def __init__(self, runtime: Runtime, cluster_name: str) -> None:
        self._runtime = runtime
        self._cluster_name = cluster_name
        self._turns = Turns(SCRIPTS_MAX)
        runtime.handlers[RunScript] = lambda effect: self._turns.start(self._run, effect)

    def stop(self) -> None:
        """Wait for nobody: what runs is run again after a restart."""
        self._turns.stop()

    async def _run(self, effect: RunScript) -> None:
        job = effect.job
        failure = await self._run_all(effect)
        if failure:
            log.warning("job %d: %s: %s", job.job_id, effect.context, failure)
        if effect.context == "prolog_slurmctld":
            self._runtime.post(ScriptEnded(job.job_id, job.attempt, failure))

    async def _run_all(self, effect: RunScript) -> str:
        """ "" = all ended well, else what the first one that did not is and did."""
        env = environment(effect.job, effect.context, self._cluster_name)
        for pattern in effect.patterns:
            paths = sorted(await asyncio.to_thread(glob.glob, pattern)) if glob.has_magic(pattern) else [pattern]
            for path in paths:
                who = f"job {effect.job.job_id}: {effect.context}"
                if failure := await run_program([path], env, effect.timeout_s, who):
                    return failure
        return ""


async def run_program(command: list[str], env: dict[str, str], timeout_s: int, who: str, **identity: Any) -> str:
    """Run a program to its end. "" = it ended well, else what happened.

    `who` is what the log calls it, `identity` whom the child becomes (user, group, extra_groups, umask); `timeout_s` 0 = none.
    """
    path = command[0]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=env, cwd="/", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True, **identity,
        )  # fmt: skip
    except OSError as error:
        return f"{path}: {error.strerror}"
    output = asyncio.create_task(_tail(process.stdout))
    try:
        failure = await ends_within(process, process.wait(), timeout_s, path)
    finally:
        output.cancel()  # what it left running may keep the pipe open
    if failure:
        return failure
    if said := _said(output):
        log.info("%s said: %s", who, said)
    code = process.returncode or 0
    if code < 0:
        return f"{path}: ended by signal {-code}"
    return f"{path}: exit status {code}" if code else ""


def _said(output: "asyncio.Task[bytearray]") -> str:
    done = output.done() and not output.cancelled()
    return output.result().decode("utf-8", "replace").rstrip() if done else ""


async def _tail(stream: asyncio.StreamReader | None) -> bytearray:
    kept = bytearray()
    while stream is not None and (piece := await stream.read(65536)):
        kept += piece
        del kept[:-OUTPUT_BYTES_MAX]
    return kept


def environment(job: JobRow, context: str, cluster_name: str) -> dict[str, str]:
    """What the programs find. Names are ours; nothing of the submitted environment is among them."""
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
