"""Translates sacct's options to the query for the controller, and filters its answer.

The controller filters by columns of the database; node and CPU counts, constraints, reasons and time limits are
filtered here. The default time window is Slurm's: from midnight; with -j everything; with -s jobs in that state now, or
at -S.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cli.base.format import DisplayClock
from cli.base.jobids import selector_text
from cli.base.listing import STATE_OF_WORD, find_user, numbers_in, words
from cli.base.options import OptionValues
from cli.base.run import CommandError
from cli.base.users import named_group
from cli.listings.sacct_fields import ACTIVE
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsRequest
from penstock.values.dates import format_date, parse_date_us
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, parse_selectors
from penstock.values.localtime import US


class RecordQuery(NamedTuple):
    """The query and the filters applied to its answer."""

    request: ListRecordsRequest
    selectors: list[JobSelector]
    keep: list[Callable[[JobRecord], bool]]
    nothing: bool  # only states that no job of this version enters were requested


def fatal(text: str) -> CommandError:
    """Builds sacct's error for a query that cannot be made."""
    return CommandError(f"sacct: fatal: {text}", plain=True)


def build_query(options: OptionValues, clock: DisplayClock) -> RecordQuery:
    """Translates the options to a query for the controller."""
    selectors = _selectors(options.text("jobs"))
    if "whole_hetjob" in options and str(options["whole_hetjob"]).lower() != "no":
        selectors = [s if s.het_offset is None else replace(s, het_offset=None) for s in selectors]
    states = _states(options)
    start_us, end_us = _window(options, clock.now_us)
    request = ListRecordsRequest(
        ids=[_id(s) for s in selectors],
        users=_users(options, bool(selectors)),
        accounts=words(options.text("accounts")),
        partitions=words(options.text("partition")),
        names=words(options.text("name")),
        states=sorted(states - {""}),
        nodes=[options.text("nodelist")] if options.text("nodelist") else (),
        start_at_us=start_us,
        end_at_us=end_us,
        duplicates=options.flag("duplicates"),
        no_steps=options.flag("allocations") or options.flag("completion"),
        truncate=options.flag("truncate"),
        qos=words(options.text("qos")),
        wckeys=words(options.text("wckeys")),
        group_ids=[_group_id(name) for name in words(options.text("group"))],
        assoc_ids=_association_ids(options),
        with_script=options.flag("batch_script"),
        with_environment=options.flag("env_vars"),
    )
    return RecordQuery(request, selectors, list(_extra_filters(options, selectors)), states == {""})


def _selectors(text: str) -> list[JobSelector]:
    try:
        return parse_selectors(",".join(words(text))) if words(text) else []
    except BadValue as error:
        raise fatal(f"Bad job/step specified: {text}") from error


def _id(selector: JobSelector) -> str:
    if selector.submitted_s is not None:
        return selector_text(selector)
    tasks = f"_[{selector.tasks.format()}]" if selector.tasks is not None else ""
    component = f"+{selector.het_offset}" if selector.het_offset is not None else ""
    return f"{selector.job_id}{tasks}{component}"


def _states(options: OptionValues) -> set[str]:
    """State names; "" for states that no job of this version enters."""
    found: set[str] = set()
    for word in words(options.text("state")):
        if word.lower() == "all":
            return set()
        if word.upper() not in STATE_OF_WORD:
            raise fatal(f"unrecognized job state value '{word}'")
        found.add(STATE_OF_WORD[word.upper()])
    return found | ({"CONFIGURING", "COMPLETING"} if "RUNNING" in found else set())


def _window(options: OptionValues, now: int) -> tuple[int, int]:
    """The time window, to the end of its last second; 0 = open."""
    start = _date(options, "starttime", now)
    end = _date(options, "endtime", now)
    has_states = bool(words(options.text("state")))
    if start is None:
        if options.text("jobs"):
            start = 0
        else:
            start = now if has_states else parse_date_us("midnight", now, past=True)
    if end is None:
        end = (start or now) if has_states else 0
    if start > (end or now):
        text = f"Start time ({format_date(start)}) requested is after end time ({format_date(end or now)})."
        raise CommandError(text)
    return start, _end_of_second(end) if end else 0


def _end_of_second(at_us: int) -> int:
    """The last microsecond of that second: what happens within the second of -E is in the window, as in Slurm, whose
    times are whole seconds."""
    return at_us - at_us % US + US - 1


def _date(options: OptionValues, key: str, now: int) -> int | None:
    text = options.text(key)
    if not text:
        return None
    try:
        return parse_date_us(text, now, past=True)
    except BadValue as error:
        raise CommandError(f"Invalid time specification (pos=0): {text}: {error}", plain=True) from error


def _users(options: OptionValues, has_jobs: bool) -> list[str]:
    """Uids; empty for root, for -a and for named jobs."""
    if options.flag("allusers"):
        return []
    named = words(options.text("user"))
    if not named:
        return [] if has_jobs or os.getuid() == 0 else [str(os.getuid())]
    uids = []
    for name in named:
        uid = find_user(name)
        if uid is None:
            raise CommandError(f"Invalid user id: {name}")
        uids.append(uid)
    return uids


def _extra_filters(options: OptionValues, selectors: list[JobSelector]) -> Iterator[Callable[[JobRecord], bool]]:
    if str(options.get("whole_hetjob", "")).lower() == "no" and selectors:
        named = {s.job_id + (s.het_offset or 0) for s in selectors}
        yield lambda job: not job.het_offset or job.job_id in named
    if options.text("nnodes"):
        yield _between("nodes_alloc", *numbers_in(options.text("nnodes"), "requested node range"))
    if options.text("ncpus"):
        yield _between("cpus_alloc", *numbers_in(options.text("ncpus"), "requested cpu range"))
    if options.text("constraints"):
        features = words(options.text("constraints"))
        yield lambda job: all(feature in job.request.features for feature in features)
    if options.text("reason"):
        reasons = {reason.lower() for reason in words(options.text("reason"))}
        yield lambda job: job.reason.lower() in reasons
    if options.flag("completion"):
        yield lambda job: job.state not in ACTIVE
    if least := options.text("timelimit_min"):
        least_s, most_s = _limit_s(least), _limit_s(options.text("timelimit_max", least))
        yield lambda job: least_s <= job.time_limit_s <= most_s


def _limit_s(text: str) -> int:
    try:
        return parse_duration_s(text)
    except BadValue as error:
        raise fatal(f"Invalid time limit specification\nsacct: {text[:80]}: {error}") from error


def _association_ids(options: OptionValues) -> list[int]:
    """-x."""
    named = words(options.text("associations"))
    for text in named:
        if not (text.isascii() and text.isdigit() and int(text[:20]) < 2**32):
            raise fatal(f"Invalid association id: {text}")
    return [int(text) for text in named]


def window_text(query: RecordQuery, clock: DisplayClock) -> str:
    """The text of -v about the window."""
    asked = query.request
    which = f"in states {','.join(asked.states)}" if asked.states else "eligible"
    start = format_date(asked.start_at_us) if asked.start_at_us else "Epoch 0"
    end = format_date(asked.end_at_us) if asked.end_at_us else "Now"
    if asked.start_at_us and start == end:
        return f"sacct: Jobs {which} at the time instant {start}"
    return f"sacct: Jobs {which} in the time window from {start} to {end}"


def _between(name: str, low: int, high: int | None) -> Callable[[JobRecord], bool]:
    return lambda job: low <= getattr(job, name) and (high is None or getattr(job, name) <= high)


def _group_id(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name[:10])
    gid = named_group(name)
    if gid is None:
        raise CommandError(f"Invalid group id: {name}")
    return gid
