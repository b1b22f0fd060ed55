"""Mail to the users of jobs: MailProg, run beside the loop.

Rules
    - `MailProg -s SUBJECT ADDRESS`, as Slurm: arguments, never a shell; the subject and the body are one line of ours in
      Slurm's words, which tools match. ADDRESS is --mail-user, else the job's owner, at MailDomain if there is one.
    - As the controller's user, in a session of its own, with MAIL_SECONDS_MAX to do it in.
    - MAILS_AT_ONCE run, MAILS_WAITING_MAX wait; what comes beyond is dropped with a line in the log. The loop goes on.
    - A program that is not there, or fails, is a line in the log; a missing one is told of once.

The environment is that of PrologSlurmctld and what slurm.conf(5) adds for MailProg; SLURM_JOB_QEUEUED_TIME is Slurm's
spelling. Deliberately absent: which mails there are (core/mail.py).
"""

import asyncio
import logging
from typing import Final

from ctld.core.effects import SendMail
from ctld.core.model import JobRow
from ctld.runtime.loop import Runtime
from ctld.runtime.programs import Turns, ends_within
from ctld.runtime.scripts import environment
from penstock.values.config import Config
from penstock.values.duration import format_duration
from penstock.values.mail import TIME_LIMITS
from penstock.values.states import JobState

log = logging.getLogger("penstock.ctld")

MAILS_AT_ONCE: Final = 4
MAILS_WAITING_MAX: Final = 1_000
MAIL_SECONDS_MAX: Final = 60
#: Characters of a subject: a job's name may have a thousand.
SUBJECT_MAX: Final = 998
US: Final = 1_000_000

_WORDS: Final = {
    "BEGIN": "Began", "END": "Ended", "FAIL": "Failed", "REQUEUE": "Requeued", "INVALID_DEPEND": "Invalid dependency",
    "STAGE_OUT": "Staged Out", "TIME_LIMIT": "Reached time limit",
    **{word: f"Reached {percent}% of time limit" for word, percent in TIME_LIMITS.items() if percent < 100},
}  # fmt: skip


class MailRunner:
    """Takes the SendMail effects of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turns = Turns(MAILS_AT_ONCE)
        self._missing = ""
        runtime.handlers[SendMail] = self._take

    def stop(self) -> None:
        """Wait for nobody."""
        self._turns.stop()

    def _take(self, effect: SendMail) -> None:
        if len(self._turns) >= MAILS_WAITING_MAX:
            log.warning("job %d: mail %s is dropped, %d wait", effect.job.job_id, effect.kind, MAILS_WAITING_MAX)
            return
        self._turns.start(self._run, effect)

    async def _run(self, effect: SendMail) -> None:
        config: Config = self._runtime.core.state.config
        failure = await self._send(config, effect)
        if failure and failure != self._missing:
            log.warning("job %d: no mail %s: %s", effect.job.job_id, effect.kind, failure)

    async def _send(self, config: Config, effect: SendMail) -> str:
        about = subject(effect)
        words = (config.mail_prog, "-s", about, address(effect.job, config.mail_domain))
        env = mail_environment(effect, config.cluster_name)
        try:
            process = await asyncio.create_subprocess_exec(
                *words, env=env, cwd="/", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            failure = f"{config.mail_prog}: {error.strerror}"
            if not self._missing:
                log.warning("MailProg cannot be run, jobs' mails are not sent: %s", failure)
            self._missing = failure
            return failure
        self._missing = ""
        end = process.communicate(f"{about}\n".encode())
        if failure := await ends_within(process, end, MAIL_SECONDS_MAX, config.mail_prog):
            return failure
        return f"{config.mail_prog}: exit status {process.returncode}" if process.returncode else ""


def address(job: JobRow, domain: str) -> str:
    """Whom the mail goes to."""
    user = job.request.mail_user or job.user_name
    return f"{user}@{domain}" if domain and "@" not in user else user


def subject(effect: SendMail) -> str:
    """The subject in Slurm's words."""
    job = effect.job
    if effect.whole:
        which = f"Array Summary Job_id={job.array_job_id}_* ({job.array_job_id})"
    elif job.array_task_id is not None:
        which = f"Array Task Job_id={job.array_job_id}_{job.array_task_id} ({job.job_id})"
    else:
        which = f"Job_id={job.job_id}"
    text = f"Slurm {which} Name={job.request.name} {_WORDS[effect.kind]}{_times(effect)}{_end(effect)}"
    return text[:SUBJECT_MAX]


def queued_s(effect: SendMail) -> int:
    """How long it waited."""
    return max(0, effect.job.start_at_us - effect.job.submit_at_us) // US


def run_s(effect: SendMail) -> int:
    """How long it has run; -1 = it has not."""
    job = effect.job
    end_us = job.end_at_us or effect.at_us
    return max(0, end_us - job.start_at_us - job.suspended_us) // US if job.start_at_us else -1


def _times(effect: SendMail) -> str:
    if effect.kind == "BEGIN":
        return f", Queued time {format_duration(queued_s(effect))}"
    if effect.kind == "INVALID_DEPEND" or run_s(effect) < 0:
        return ""
    return f", Run time {format_duration(run_s(effect))}"


def _end(effect: SendMail) -> str:
    if effect.kind not in ("END", "FAIL"):
        return ""
    job, array = effect.job, effect.array
    if array is None:
        return f", {job.state.name}" + ("" if job.exit_signal else f", ExitCode {job.exit_code}")
    word = "Mixed" if array.mixed else job.state.name
    if array.signal_max:
        return f", {word}, MaxSignal [{array.signal_max}]"
    return f", {word}, ExitCode [{array.code_min}-{array.code_max}]"


def mail_environment(effect: SendMail, cluster_name: str) -> dict[str, str]:
    """What MailProg finds (slurm.conf(5))."""
    job, array = effect.job, effect.array
    env = environment(job, "mail", cluster_name)
    del env["SLURM_SCRIPT_CONTEXT"]
    state = JobState.RUNNING if effect.kind == "BEGIN" else job.state
    env |= {"SLURM_JOB_STATE": state.name, "SLURM_JOB_MAIL_TYPE": _WORDS[effect.kind]}
    if effect.kind == "BEGIN":
        env["SLURM_JOB_QEUEUED_TIME"] = format_duration(queued_s(effect))
    elif run_s(effect) >= 0:
        env["SLURM_JOB_RUN_TIME"] = format_duration(run_s(effect))
    if effect.kind in ("END", "FAIL"):
        env["SLURM_JOB_EXIT_CODE_MAX"] = str(array.code_max if array else job.exit_code)
        env["SLURM_JOB_EXIT_CODE_MIN"] = str(array.code_min if array else job.exit_code)
        env["SLURM_JOB_TERM_SIGNAL_MAX"] = str(array.signal_max if array else job.exit_signal)
    return env
