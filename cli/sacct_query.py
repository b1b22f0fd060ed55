"""What sacct's options ask for: the question to the controller, and what is dropped of its answer.

The controller filters by what the database has columns for; node and CPU counts, constraints, reasons and time limits are
looked at here. The window of time when nothing is said of it is Slurm's: from midnight; with -j everything; with -s what is
in that state now, or at -S.
"""

import grp
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from cli.format import Clock
from cli.listing import STATE_OF_WORD, find_user, numbers_in, words
from cli.run import CommandError
from cli.sacct_fields import ACTIVE
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsRequest
from penstock.values.dates import format_date, parse_date_us
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, parse_selectors


class Query(NamedTuple):
    """What to ask for and what to keep."""

    request: ListRecordsRequest
    selectors: list[JobSelector]
    keep: list[Callable[[JobRecord], bool]]
    nothing: bool  # only states that no job of this version enters were asked for


def fatal(text: str) -> CommandError:
    """What sacct says before it gives up."""
    return CommandError(f"sacct: fatal: {text}", plain=True)


def build_query(options: dict[str, Any], clock: Clock) -> Query:
    """The options as a question to the controller."""
    selectors = _selectors(options.get("jobs", ""))
    if "whole_hetjob" in options and str(options["whole_hetjob"]).lower() != "no":
        selectors = [s if s.het_offset is None else replace(s, het_offset=None) for s in selectors]
    states = _states(options)
    start_us, end_us = _window(options, clock.now_us)
    request = ListRecordsRequest(
        ids=[_id(s) for s in selectors],
        users=_users(options, bool(selectors)),
        accounts=words(options.get("accounts")),
        partitions=words(options.get("partition")),
        names=words(options.get("name")),
        states=sorted(states - {""}),
        nodes=[options["nodelist"]] if options.get("nodelist") else (),
        start_at_us=start_us,
        end_at_us=end_us,
        duplicates=bool(options.get("duplicates")),
        no_steps=bool(options.get("allocations") or options.get("completion")),
        truncate=bool(options.get("truncate")),
        qos=words(options.get("qos")),
        wckeys=words(options.get("wckeys")),
        group_ids=[_group_id(name) for name in words(options.get("group"))],
        assoc_ids=_association_ids(options),
        with_script=bool(options.get("batch_script")),
        with_environment=bool(options.get("env_vars")),
    )
    return Query(request, selectors, list(_extra_filters(options, selectors)), states == {""})


def _selectors(text: str) -> list[JobSelector]:
    try:
        return parse_selectors(",".join(words(text))) if words(text) else []
    except BadValue as error:
        raise fatal(f"Bad job/step specified: {text}") from error


def _id(selector: JobSelector) -> str:
    tasks = f"_[{selector.tasks.format()}]" if selector.tasks is not None else ""
    component = f"+{selector.het_offset}" if selector.het_offset is not None else ""
    return f"{selector.job_id}{tasks}{component}"


def _states(options: dict[str, Any]) -> set[str]:
    """State names; "" stands for words of states that no job of this version enters."""
    found: set[str] = set()
    for word in words(options.get("state")):
        if word.lower() == "all":
            return set()
        if word.upper() not in STATE_OF_WORD:
            raise fatal(f"unrecognized job state value '{word}'")
        found.add(STATE_OF_WORD[word.upper()])
    return found | ({"CONFIGURING", "COMPLETING"} if "RUNNING" in found else set())


def _window(options: dict[str, Any], now: int) -> tuple[int, int]:
    """The time window; 0 = open."""
    start = _date(options, "starttime", now)
    end = _date(options, "endtime", now)
    has_states = bool(words(options.get("state")))
    if start is None:
        if options.get("jobs"):
            start = 0
        else:
            start = now if has_states else parse_date_us("midnight", now, past=True)
    if end is None:
        end = (start or now) if has_states else 0
    if end and start > end:
        raise CommandError(f"Start time ({format_date(start)}) requested is after end time ({format_date(end)}).")
    return start, end


def _date(options: dict[str, Any], key: str, now: int) -> int | None:
    text = options.get(key)
    if not text:
        return None
    try:
        return parse_date_us(text, now, past=True)
    except BadValue as error:
        raise CommandError(f"Invalid time specification (pos=0): {text}\nsacct: {error}", plain=True) from error


def _users(options: dict[str, Any], has_jobs: bool) -> list[str]:
    """Uids; nobody in particular for root, for -a and for named jobs."""
    if options.get("allusers"):
        return []
    named = words(options.get("user"))
    if not named:
        return [] if has_jobs or os.getuid() == 0 else [str(os.getuid())]
    uids = []
    for name in named:
        uid = find_user(name)
        if uid is None:
            raise CommandError(f"Invalid user id: {name}")
        uids.append(uid)
    return uids


def _extra_filters(options: dict[str, Any], selectors: list[JobSelector]) -> Iterator[Callable[[JobRecord], bool]]:
    if str(options.get("whole_hetjob", "")).lower() == "no" and selectors:
        named = {s.job_id + (s.het_offset or 0) for s in selectors}
        yield lambda job: not job.het_offset or job.job_id in named
    if options.get("nnodes"):
        yield _between("nodes_alloc", *numbers_in(options["nnodes"], "node range -i"))
    if options.get("ncpus"):
        yield _between("cpus_alloc", *numbers_in(options["ncpus"], "cpu range -I"))
    if options.get("constraints"):
        features = words(options["constraints"])
        yield lambda job: all(feature in job.request.features for feature in features)
    if options.get("reason"):
        reasons = {reason.lower() for reason in words(options["reason"])}
        yield lambda job: job.reason.lower() in reasons
    if options.get("completion"):
        yield lambda job: job.state not in ACTIVE
    if options.get("timelimit_min"):
        least_s = parse_duration_s(options["timelimit_min"])
        most_s = parse_duration_s(options.get("timelimit_max", options["timelimit_min"]))
        yield lambda job: least_s <= job.time_limit_s <= most_s


def _association_ids(options: dict[str, Any]) -> list[int]:
    """-x."""
    named = words(options.get("associations"))
    for text in named:
        if not (text.isascii() and text.isdigit() and int(text[:20]) < 2**32):
            raise fatal(f"Invalid association id: {text}")
    return [int(text) for text in named]


def window_text(query: Query, clock: Clock) -> str:
    """What -v says of the window."""
    asked = query.request
    which = f"in states {','.join(asked.states)}" if asked.states else "eligible"
    start = format_date(asked.start_at_us) if asked.start_at_us else "Epoch 0"
    end = format_date(asked.end_at_us) if asked.end_at_us else "Now"
    if asked.start_at_us and asked.start_at_us == asked.end_at_us:
        return f"sacct: Jobs {which} at the time instant {start}"
    return f"sacct: Jobs {which} in the time window from {start} to {end}"


def _between(name: str, low: int, high: int | None) -> Callable[[JobRecord], bool]:
    return lambda job: low <= getattr(job, name) and (high is None or getattr(job, name) <= high)


def _group_id(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name[:10])
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise CommandError(f"Invalid group id: {name}") from error
