"""scrontab: a user's crontab, and the jobs of its entries.

An entry is a recurring batch job with the schedule `request.cron`. It waits for its next time with `eligible_at_us`, as
a job with --begin does. When a run has ended, the attempt keeps its end state, and the job is requeued under the same
id for the next time after now (job_life.run_again). So runs never overlap, and times that pass while one runs or waits
are skipped.

A crontab is replaced whole or not at all: all entries are checked as submissions of the owner before anything changes.
The pending jobs of the old one are cancelled; running ones continue, as jobs that run once. An entry with unchanged
lines keeps its hold: setting the same crontab again does not release it.

A job that is cancelled leaves its entry disabled: its lines remain in the text, and are shown with #DISABLED. With
ScronParameters=explicit_scancel a cancel must include jobs of crontabs explicitly.
"""

from collections.abc import Generator, Iterator

from ctld.core.jobs import holds
from ctld.core.lifecycle import depends, job_life
from ctld.core.lifecycle.ready import refresh
from ctld.core.limits import submission as limit_submit
from ctld.core.queue.rights import require_role
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import CrontabUpdated, Refused
from ctld.core.records.events import Actor, CronEntry, Role, SubmitJob, UpdateCrontab
from ctld.core.records.job import Job
from ctld.core.records.periodic import CronJob, Crontab, next_of_spec_us
from ctld.core.requests import submit
from ctld.core.requests.submit import Accepted
from ctld.core.state.state import ClusterState
from penstock.values.cron import CronSpec, parse_spec
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from penstock.values.states import Hold, JobState, Reason

#: Maximum number of entries in one crontab: each is a job that always waits or runs.
ENTRIES_MAX = 500
#: Maximum characters and lines of its text, comments included.
TEXT_MAX = 256 * 1024
LINES_MAX = 10_000
#: Entries that are handled in one turn of the loop: some 5 ms.
SLICE_ENTRIES = 50
#: In names of the request's allowance: an item of a list of minutes, hours, ... in an entry.
ITEM_COST = 2


def check_rights(state: ClusterState, actor: Actor, owner: Actor) -> None:
    """Raises Refused unless the actor may change the owner's crontab; reads only."""
    if not is_enabled(state):
        raise Refused(Code.CRON_DISABLED)
    if actor.uid != owner.uid:
        require_role(actor, Role.ADMINISTRATOR, "changing another user's crontab")


def update_crontab(state: ClusterState, now_us: int, event: UpdateCrontab) -> None:
    """Handles scrontab, in slices."""
    state.handling.unfinished = _update(state, now_us, event)


def _update(state: ClusterState, now_us: int, event: UpdateCrontab) -> Iterator[None]:
    """Handles it. Raises Refused; for refused entries it answers with their lines."""
    owner, periodic = event.owner, state.periodic
    check_rights(state, event.actor, owner)
    if event.text is None and owner.uid not in periodic.crontabs:
        raise Refused(Code.NO_CRONTAB, f"of {owner.user_name}")
    _check_size(event)
    checked = yield from _checked(state, now_us, event)
    if isinstance(checked, CrontabUpdated):
        state.reply(event.reply_to, checked)
        return
    found, due_us = checked
    specs, requests = [entry.spec for entry in event.entries], [accepted.request for accepted in found]
    state.submissions.stored.check(owner.uid, state.config, now_us, specs, requests)
    old = periodic.crontabs.get(owner.uid)
    going = [job for one in (old.jobs if old is not None else ()) if (job := state.jobs.get(one.job_id)) is not None]
    going = [job for job in going if job.request.cron and job.state is JobState.PENDING]
    submit.check_room(state, len(found) - len(going))
    limit_submit.at_submission(state, owner.user_name, [(accepted.request, 1) for accepted in found], going)
    held = _held(state, old)
    state.applying()
    for number, cron_job in enumerate(old.jobs if old is not None else (), 1):
        _retire(state, now_us, state.jobs.get(cron_job.job_id), event.actor.uid)
        if number % SLICE_ENTRIES == 0:
            yield
    jobs = []
    for each in zip(event.entries, found, due_us, strict=True):
        jobs.append(_submit(state, now_us, event, *each))
        if len(jobs) % SLICE_ENTRIES == 0:
            yield
    lines = (event.text or "").split("\n") if held else []
    for entry, job in zip(event.entries, jobs, strict=True):
        if held and (hold := held.get(_text_of(lines, entry.first_line, entry.last_line))) is not None:
            holds.hold_like(job, *hold)
            refresh(state, job, now_us)
    if event.text is None:
        periodic.drop_crontab(owner.uid)
    else:
        entries = tuple(
            CronJob(job.job_id, e.first_line, e.last_line) for job, e in zip(jobs, event.entries, strict=True)
        )
        periodic.put_crontab(Crontab(owner.uid, owner.user_name, event.text, entries, (), now_us))
    warnings = tuple(text for accepted in found for text in accepted.warnings)
    state.reply(event.reply_to, CrontabUpdated(tuple(job.job_id for job in jobs), warnings))


def _checked(
    state: ClusterState, now_us: int, event: UpdateCrontab
) -> Generator[None, None, tuple[list[Accepted], list[int]] | CrontabUpdated]:
    """Returns the accepted entries and when they are due, or the answer for the first refused one."""
    found: list[Accepted] = []
    due_us: list[int] = []
    known: dict[CronSpec, int] = {}  # many entries are due at the same times
    for entry in event.entries:
        try:
            spec = _spec(state, entry)
            found.append(_check(state, now_us, event, entry, spec))
        except Refused as refused:
            lines = (entry.first_line, entry.last_line)
            return CrontabUpdated(failed_lines=lines, code=int(refused.code), text=refused.text)
        if spec not in known:
            known[spec] = next_of_spec_us(state.config.utc_offsets, spec, now_us)
        due_us.append(known[spec])
        if len(found) % SLICE_ENTRIES == 0:
            yield
    return found, due_us


def _held(state: ClusterState, old: Crontab | None) -> dict[str, tuple[Hold, str]]:
    """Returns the holds of a crontab's jobs and their reasons, by their entries' text."""
    entries = [(e, job) for e in (old.jobs if old is not None else ()) if (job := state.jobs.get(e.job_id)) is not None]
    held = [(entry, job) for entry, job in entries if job.hold is not Hold.NO and job.request.cron]
    lines = old.text.split("\n") if old is not None and held else []
    return {_text_of(lines, entry.first_line, entry.last_line): (job.hold, job.reason_detail) for entry, job in held}


def _text_of(lines: list[str], first: int, last: int) -> str:
    """Returns the text of some lines; they are counted from 1."""
    return "\n".join(lines[max(0, first - 1) : last])


def is_enabled(state: ClusterState) -> bool:
    """Whether crontabs are enabled: ScronParameters=enable."""
    return state.config.has_word("scron_parameters", "enable")


def _check_size(event: UpdateCrontab) -> None:
    text = event.text or ""
    if len(text) > TEXT_MAX:
        raise Refused(Code.INVALID_VALUE, f"the crontab has {len(text)} characters, the limit is {TEXT_MAX}")
    if text.count("\n") > LINES_MAX:
        raise Refused(Code.INVALID_VALUE, f"the crontab has {text.count(chr(10))} lines, the limit is {LINES_MAX}")
    if len(event.entries) > ENTRIES_MAX:
        raise Refused(Code.INVALID_VALUE, f"the crontab has {len(event.entries)} entries, the limit is {ENTRIES_MAX}")
    if sum(max(0, entry.last_line - entry.first_line + 1) for entry in event.entries) > LINES_MAX:
        raise Refused(Code.INVALID_VALUE, f"the entries have more than {LINES_MAX} lines together")
    if "\0" in text:
        raise Refused(Code.INVALID_VALUE, "the crontab has a NUL character")


def _spec(state: ClusterState, entry: CronEntry) -> CronSpec:
    """Returns when an entry is due. Raises Refused."""
    wanted = entry.job
    for said, what in ((wanted.array, "an array"), (wanted.begin_at_us, "--begin"), (wanted.kind, "no script")):
        if said:
            raise Refused(Code.NOT_SUPPORTED, f"{what} in a crontab")
    try:
        state.handling.allowance.spend(ITEM_COST * entry.cron.count(","))
        spec, rest = parse_spec(entry.cron)
    except BadValue as error:
        raise Refused(Code.INVALID_TIME_VALUE, str(error)) from None
    if rest:
        raise Refused(Code.INVALID_TIME_VALUE, "five fields say when it is due")
    return spec


def _check(state: ClusterState, now_us: int, event: UpdateCrontab, entry: CronEntry, spec: CronSpec) -> Accepted:
    """Checks an entry as a submission of the owner. Raises Refused."""
    found = submit.check(state, now_us, event.owner, entry.job)
    return found._replace(request=with_changes(found.request, cron=spec.format()))


def _submit(
    state: ClusterState, now_us: int, event: UpdateCrontab, entry: CronEntry, found: Accepted, due_us: int
) -> Job:
    """Creates the job of an entry, waiting for its first time."""
    submission = SubmitJob(event.owner, "", now_us, entry.job, entry.spec)
    job = submit.new_job(state, now_us, submission, found)
    job.eligible_at_us = due_us
    state.add_job(job, 1)
    depends.attach(state, job, found.dependency, now_us)
    submit.set_deadline(state, job)
    refresh(state, job, now_us)
    state.record(now_us, job, "submit", f"uid {job.user_id} crontab")
    return job


def _forget_time(state: ClusterState, job: Job) -> None:
    """Makes the job run only once: it neither recurs nor is requeued."""
    state.replace_request(job, with_changes(job.request, cron="", requeue=False))
    state.touch(job)


def _retire(state: ClusterState, now_us: int, job: Job | None, uid: int) -> None:
    """Handles a job whose crontab was removed."""
    if job is None or not job.request.cron:
        return
    _forget_time(state, job)
    state.record(now_us, job, "crontab changed", f"uid {uid}")
    if job.state is JobState.PENDING:
        job_life.terminate(state, job, JobState.CANCELLED, Reason.NONE, now_us, "CANCELLED", uid)


def check_cancel(state: ClusterState, job: Job, confirmed: bool) -> None:
    """Raises Refused for a job of a crontab that may only be cancelled by name."""
    if job.request.cron and not confirmed and state.config.has_word("scron_parameters", "explicit_scancel"):
        raise Refused(Code.CANNOT_CANCEL_CRON_JOB)


def disable(state: ClusterState, job: Job) -> None:
    """Disables the entry of a job that is being cancelled."""
    if not job.request.cron:
        return
    _forget_time(state, job)
    crontab = state.periodic.crontabs.get(job.user_id)
    lines = [(e.first_line, e.last_line) for e in crontab.jobs if e.job_id == job.job_id] if crontab else []
    if crontab is not None and lines:
        state.periodic.put_crontab(crontab._replace(disabled=tuple(dict.fromkeys((*crontab.disabled, *lines)))))
