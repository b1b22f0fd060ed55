"""scrontab: a user's crontab, and the jobs of its entries.

An entry is a batch job that comes again: `request.cron` says when. It waits for its next time with `eligible_at_us`, as a
job with --begin does. When a run has ended, the attempt keeps how it ended, and the job goes back to the queue under the
same id for the next time after now (job_life.run_again). So runs never overlap, and times that come while one runs
or waits are left out.

A crontab is replaced whole or not at all: all entries are checked as submissions of the owner before anything changes.
The jobs of the old one that wait are cancelled; those that run go on, as jobs that run once.

A job that is cancelled leaves its entry disabled: its lines stay in the text, and are shown with #DISABLED. With
ScronParameters=explicit_scancel a cancel must say that it means jobs of crontabs.
"""

from ctld.core import depends, job_life, limit_submit, submit
from ctld.core.effects import CrontabUpdated, Refused
from ctld.core.events import CronEntry, Role, SubmitJob, UpdateCrontab
from ctld.core.model import Job
from ctld.core.periodic import CronJob, Crontab, next_start_us
from ctld.core.plain import with_changes
from ctld.core.ready import refresh
from ctld.core.rights import require_role
from ctld.core.state import ClusterState
from ctld.core.submit import Accepted
from penstock.values.cron import parse_spec
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from penstock.values.states import JobState, Reason

#: Entries of one crontab: each is a job that always waits or runs.
ENTRIES_MAX = 500
#: Characters and lines of its text, comments included.
TEXT_MAX = 256 * 1024
LINES_MAX = 10_000


def update_crontab(state: ClusterState, now_us: int, event: UpdateCrontab) -> None:
    """Handle scrontab. Raises Refused; entries that are refused are answered with their lines."""
    owner, periodic = event.owner, state.periodic
    if not is_enabled(state):
        raise Refused(Code.CRON_DISABLED)
    if event.actor.uid != owner.uid:
        require_role(event.actor, Role.ADMINISTRATOR, "changing the crontab of somebody else")
    if event.text is None and owner.uid not in periodic.crontabs:
        raise Refused(Code.NO_CRONTAB, f"of {owner.user_name}")
    _check_size(event)
    found: list[Accepted] = []
    for entry in event.entries:
        try:
            found.append(_check(state, now_us, event, entry))
        except Refused as refused:
            lines = (entry.first_line, entry.last_line)
            body = CrontabUpdated(failed_lines=lines, code=int(refused.code), text=refused.text)
            state.reply(event.reply_to, body)
            return
    submit.check_room(state, len(found))
    old = periodic.crontabs.get(owner.uid)
    going = [job for one in (old.jobs if old is not None else ()) if (job := state.jobs.get(one.job_id)) is not None]
    going = [job for job in going if job.request.cron and job.state is JobState.PENDING]
    limit_submit.at_submission(state, owner.user_name, [(accepted.request, 1) for accepted in found], going)
    # -- apply
    for cron_job in old.jobs if old is not None else ():
        _retire(state, now_us, state.jobs.get(cron_job.job_id), event.actor.uid)
    jobs = [_submit(state, now_us, event, *pair) for pair in zip(event.entries, found, strict=True)]
    if event.text is None:
        periodic.drop_crontab(owner.uid)
    else:
        entries = tuple(
            CronJob(job.job_id, e.first_line, e.last_line) for job, e in zip(jobs, event.entries, strict=True)
        )
        periodic.put_crontab(Crontab(owner.uid, owner.user_name, event.text, entries, (), now_us))
    warnings = tuple(text for accepted in found for text in accepted.warnings)
    state.reply(event.reply_to, CrontabUpdated(tuple(job.job_id for job in jobs), warnings))


def is_enabled(state: ClusterState) -> bool:
    """ScronParameters=enable."""
    return state.config.has_word("scron_parameters", "enable")


def _check_size(event: UpdateCrontab) -> None:
    text = event.text or ""
    if len(text) > TEXT_MAX:
        raise Refused(Code.INVALID_VALUE, f"the crontab has {len(text)} characters, the limit is {TEXT_MAX}")
    if text.count("\n") > LINES_MAX:
        raise Refused(Code.INVALID_VALUE, f"the crontab has {text.count(chr(10))} lines, the limit is {LINES_MAX}")
    if len(event.entries) > ENTRIES_MAX:
        raise Refused(Code.INVALID_VALUE, f"the crontab has {len(event.entries)} entries, the limit is {ENTRIES_MAX}")
    if "\0" in text:
        raise Refused(Code.INVALID_VALUE, "the crontab has a NUL character")


def _check(state: ClusterState, now_us: int, event: UpdateCrontab, entry: CronEntry) -> Accepted:
    """An entry as a submission of the owner. Raises Refused."""
    wanted = entry.job
    for said, what in ((wanted.array, "an array"), (wanted.begin_at_us, "--begin"), (wanted.kind, "no script")):
        if said:
            raise Refused(Code.NOT_SUPPORTED, f"{what} in a crontab")
    try:
        spec, rest = parse_spec(entry.cron)
    except BadValue as error:
        raise Refused(Code.INVALID_TIME_VALUE, str(error)) from None
    if rest:
        raise Refused(Code.INVALID_TIME_VALUE, "five fields say when it is due")
    found = submit.check(state, now_us, event.owner, wanted)
    return found._replace(request=with_changes(found.request, cron=spec.format()))


def _submit(state: ClusterState, now_us: int, event: UpdateCrontab, entry: CronEntry, found: Accepted) -> Job:
    """The job of an entry, waiting for its first time."""
    submission = SubmitJob(event.owner, "", now_us, entry.job, entry.spec)
    job = submit.new_job(state, now_us, submission, found)
    job.eligible_at_us = next_start_us(state, found.request.cron, now_us)
    state.active_count += 1
    state.add_job(job)
    depends.attach(state, job, found.dependency, now_us)
    submit.set_deadline(state, job)
    refresh(state, job, now_us)
    state.record(now_us, job, "submit", f"uid {job.user_id} crontab")
    return job


def _forget_time(state: ClusterState, job: Job) -> None:
    """The job does not come again, and is not queued again for another reason either."""
    job.request = with_changes(job.request, cron="", requeue=False)
    job.request_id = state.new_request(job.request)
    state.touch(job)


def _retire(state: ClusterState, now_us: int, job: Job | None, uid: int) -> None:
    """Its crontab is gone."""
    if job is None or not job.request.cron:
        return
    _forget_time(state, job)
    state.record(now_us, job, "crontab changed", f"uid {uid}")
    if job.state is JobState.PENDING:
        job_life.terminate(state, job, JobState.CANCELLED, Reason.NONE, now_us, "CANCELLED", uid)


def check_cancel(state: ClusterState, job: Job, confirmed: bool) -> None:
    """Raise Refused for a job of a crontab that may only be cancelled by name."""
    if job.request.cron and not confirmed and state.config.has_word("scron_parameters", "explicit_scancel"):
        raise Refused(Code.CANNOT_CANCEL_CRON_JOB)


def disable(state: ClusterState, job: Job) -> None:
    """The job is being cancelled: its entry is disabled."""
    if not job.request.cron:
        return
    _forget_time(state, job)
    crontab = state.periodic.crontabs.get(job.user_id)
    lines = [(e.first_line, e.last_line) for e in crontab.jobs if e.job_id == job.job_id] if crontab else []
    if crontab is not None and lines:
        state.periodic.put_crontab(crontab._replace(disabled=tuple(dict.fromkeys((*crontab.disabled, *lines)))))
