"""Sends mail to the users of jobs: MailProg, run beside the loop.

Rules
    - `MailProg -s SUBJECT -- ADDRESS`: arguments, never a shell; the subject and the body are one line in Slurm's
      wording, which tools match. Line ends of a job's name are removed: mail programs execute lines that begin with
      `~`. ADDRESS is --mail-user, else the job's owner, at MailDomain if there is one.
    - Nothing is sent to an address that is not plain (penstock/values/mail.py). It is checked here again, as a job may be
      older than the check at its submission, and an owner's name comes from a directory.
    - Never as root: a controller that is root runs it as PenstockMailUser, uid, gid and groups. One that is not, as itself.
    - In a session of its own, for at most MAIL_SECONDS_MAX.
    - MAILS_AT_ONCE run, MAILS_OF_USER_AT_ONCE for one user's jobs, and users take turns. MAILS_OF_USER_MAX of a user's jobs
      wait, of all MAILS_WAITING_MAX; further ones are dropped, with one line in the log until all of the user's are sent.
      The loop never waits.
    - A failure is logged; a missing program is logged once.

The environment is that of PrologSlurmctld with the additions of slurm.conf(5) for MailProg; SLURM_JOB_QEUEUED_TIME is
Slurm's spelling. Deliberately absent: which mails are sent (core/jobs/mail.py).
"""

import logging
from typing import Final

from ctld.core.records.effects import SendMail
from ctld.core.records.job import JobRow
from ctld.runtime.lookups import LookupFailed, Lookups
from ctld.runtime.loop import Runtime
from ctld.runtime.programslots import ProgramSlots
from ctld.runtime.scripts import environment
from ctld.runtime.siteprograms import Program, run
from ctld.runtime.siteuser import NoIdentity, site_user
from penstock.values.config import Config
from penstock.values.duration import format_duration
from penstock.values.mail import TIME_LIMITS, is_mail_address
from penstock.values.states import JobState
from penstock.values.text import clean_line, shown

log = logging.getLogger("penstock.ctld")

MAILS_AT_ONCE: Final = 4
MAILS_OF_USER_AT_ONCE: Final = 2
MAILS_OF_USER_MAX: Final = 1_000
MAILS_WAITING_MAX: Final = 10_000
MAIL_SECONDS_MAX: Final = 60
#: Maximum characters of a subject: a job's name may have a thousand.
SUBJECT_MAX: Final = 998
US: Final = 1_000_000

_WORDS: Final = {
    "BEGIN": "Began", "END": "Ended", "FAIL": "Failed", "REQUEUE": "Requeued", "INVALID_DEPEND": "Invalid dependency",
    "STAGE_OUT": "Staged Out", "TIME_LIMIT": "Reached time limit",
    **{word: f"Reached {percent}% of time limit" for word, percent in TIME_LIMITS.items() if percent < 100},
}  # fmt: skip


class MailRunner:
    """Takes the SendMail effects of a runtime."""

    def __init__(self, runtime: Runtime, lookups: Lookups) -> None:
        self._runtime = runtime
        self._lookups = lookups
        self._turns = ProgramSlots(MAILS_AT_ONCE, MAILS_OF_USER_AT_ONCE)
        self._dropped: set[int] = set()  # users of whom mails were dropped, which the log says
        self._missing = ""
        runtime.handlers[SendMail] = self._take

    def stop(self) -> None:
        """Cancels all mail in progress, without waiting for it."""
        self._turns.stop()

    def _take(self, effect: SendMail) -> None:
        job = effect.job
        waiting = self._turns.count_of(job.user_id)
        if not waiting:
            self._dropped.discard(job.user_id)
        if waiting < MAILS_OF_USER_MAX and len(self._turns) < MAILS_WAITING_MAX:
            self._turns.start(self._run, effect, job.user_id)
        elif job.user_id not in self._dropped:
            self._dropped.add(job.user_id)
            log.warning("job %d: mail %s is dropped, as are further ones of %s: %d of this user wait, %d of all",
                        job.job_id, effect.kind, job.user_name, waiting, len(self._turns))  # fmt: skip

    async def _run(self, effect: SendMail) -> None:
        config: Config = self._runtime.core.state.config
        failure = await self._send(config, effect)
        if failure and failure != self._missing:
            log.warning("job %d: no mail %s: %s", effect.job.job_id, effect.kind, failure)

    async def _send(self, config: Config, effect: SendMail) -> str:
        about, to = subject(effect), address(effect.job, config.mail_domain)
        if not is_mail_address(to):
            return f"{shown(to)} is not an address: MailProg is not run for it"
        env = mail_environment(effect, config.cluster_name)
        try:
            identity = await site_user(self._lookups, config.penstock_mail_user, "PenstockMailUser")
        except (NoIdentity, LookupFailed) as error:
            return self._not_started(f"{config.mail_prog}: {error}")
        words = [config.mail_prog, "-s", about, "--", to]
        text = f"{about}\n".encode()
        ending = await run(Program(words, env, MAIL_SECONDS_MAX, identity=identity, text=text, keeps_output=False))
        if not ending.is_started:
            return self._not_started(ending.failure)
        self._missing = ""
        return ending.failure

    def _not_started(self, failure: str) -> str:
        if not self._missing:
            log.warning("MailProg cannot be run, jobs' mails are not sent: %s", failure)
        self._missing = failure
        return failure


def address(job: JobRow, domain: str) -> str:
    """Returns the recipient's address."""
    user = job.request.mail_user or job.user_name
    return f"{user}@{domain}" if domain and "@" not in user else user


def subject(effect: SendMail) -> str:
    """Returns the subject in Slurm's wording."""
    job = effect.job
    if effect.whole:
        which = f"Array Summary Job_id={job.array_job_id}_* ({job.array_job_id})"
    elif job.array_task_id is not None:
        which = f"Array Task Job_id={job.array_job_id}_{job.array_task_id} ({job.job_id})"
    else:
        which = f"Job_id={job.job_id}"
    text = f"Slurm {which} Name={job.request.name} {_WORDS[effect.kind]}{_times(effect)}{_end(effect)}"
    return clean_line(text[:SUBJECT_MAX]).replace("\t", " ")


def queued_s(effect: SendMail) -> int:
    """Returns the job's waiting time."""
    return max(0, effect.job.start_at_us - effect.job.submit_at_us) // US


def run_s(effect: SendMail) -> int:
    """Returns the job's run time; -1 = it has not run."""
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
    """Returns the environment of MailProg (slurm.conf(5))."""
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
