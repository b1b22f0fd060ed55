"""What squeue's options select: the query for the controller, and the filters that are applied to its answer.

The controller filters where it has a filter; the rest (licenses, run time, users that are not wanted) is filtered here.
States are checked here again, because a single `-j` requests all states, to distinguish "this job has ended" from
"there is no such job". Deliberately absent: what is shown of a job (squeue_fields.py), and the call (cli/squeue.py).
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from cli.base.document import is_wanted
from cli.base.jobids import selector_text
from cli.base.listing import STATE_OF_WORD, find_user, words
from cli.base.options import OptionValues
from cli.base.run import CommandError, complain
from cli.listings.squeue_fields import RUN_NEEDS, used_s
from penstock.v1.controller_pb2 import JobFilter, ListJobsRequest
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, parse_selectors
from penstock.values.states import ENDED, JobState

#: In the order in which Slurm's own message lists them.
STATE_WORDS = (
    "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY,"
    "COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,REQUEUE_HOLD,REVOKED,SIGNALING,SPECIAL_EXIT,"
    "STAGE_OUT,STOPPED"
)


#: States that are shown for some jobs of another state, by which they are queried: held because of an exit status; sent
#: SIGSTOP.
SPECIAL, STOPPED = "SPECIAL_EXIT", "STOPPED"
SHOWN = {"SE": SPECIAL, SPECIAL: SPECIAL, "ST": STOPPED, STOPPED: STOPPED}
QUERIED_AS = {SPECIAL: "PENDING", STOPPED: "RUNNING"}


class Keep(NamedTuple):
    """A filter on the client's side: `test(clock, *values of the needed columns)`."""

    needs: tuple[str, ...]
    test: Callable[..., bool]


class QueueQuery(NamedTuple):
    """The query and the filters applied to its answer."""

    request: ListJobsRequest
    selectors: list[JobSelector]
    states: frozenset[str] | None  # None = all
    keep: list[Keep]
    expand: bool
    by_partition: bool
    matches_none: bool  # an unknown user was named: there is nothing to show


#: Filters whose value is a list.
_LISTS = ("user", "account", "partition", "name", "qos", "nodelist", "reservation", "licenses")


def build_query(options: OptionValues) -> QueueQuery:
    """Translates the options to a query for the controller."""
    text = options.text("job") or options.text("steps")
    selectors = _selectors(text, steps=bool(options.text("steps")) and not options.text("job"))
    states = _states(options)
    users, matches_none = _users(options)
    matches_none = matches_none or options.flag("nothing") or states == frozenset()
    matches_none = matches_none or any(options.get(key) == "" for key in _LISTS)  # `-u ""`: nothing is in an empty list
    single = len(selectors) == 1
    request = ListJobsRequest(
        filter=JobFilter(
            ids=words_of_ids(selectors),
            users=users,
            partitions=words(options.text("partition")),
            names=words(options.text("name")),
            states=sorted({QUERIED_AS.get(name, name) for name in states}) if states and not single else (),
            nodes=[options.text("nodelist")] if options.text("nodelist") else (),
            accounts=words(options.text("account")),
            qos=words(options.text("qos")),
            reservations=words(options.text("reservation")),
        ),
        all_states=states is None or single,
        detail=is_wanted(options),
        planned=_wants_plan(options),
        hide_hidden=not (options.flag("all") or options.text("partition") or selectors),
    )
    keep = list(_extra_filters(options))
    return QueueQuery(request, selectors, states, keep, options.flag("array"), options.flag("priority"), matches_none)


def _wants_plan(options: OptionValues) -> bool:
    """Whether a planned start or its nodes are shown or sorted by: %S, %Y, StartTime, SchedNodes, --start, --json."""
    letters = options.text("format") + options.text("sort")
    names = options.text("Format").lower()
    return bool(
        options.flag("start")
        or is_wanted(options)
        or {"S", "Y"} & set(letters)
        or "starttime" in names
        or "schednodes" in names
    )


def words_of_ids(selectors: Iterable[JobSelector]) -> list[str]:
    """Job ids for the controller, without their steps."""
    return [f"{s.job_id}_[{s.tasks.format()}]" if s.tasks is not None else selector_text(s) for s in selectors]


def _selectors(text: str, steps: bool) -> list[JobSelector]:
    try:
        named = [word[:-1] if re.fullmatch("[0-9]+_", word) else word for word in words(text)]
        found = parse_selectors(",".join(named)) if named else []
    except BadValue as error:
        if steps:
            raise CommandError(f"Invalid job_step id: {text}.??") from error
        raise CommandError(f"Invalid job id: {text}") from error
    if steps and any(s.step_id is None for s in found):
        raise CommandError(f"Invalid job_step id: {text}.??")
    return found


def _states(options: OptionValues) -> frozenset[str] | None:
    """The wanted states; None = all. An empty list is Slurm's default: jobs that have not ended."""
    if options.flag("start"):
        return frozenset(("PENDING", SPECIAL))
    active = frozenset(s.name for s in JobState) - ENDED
    if options.get("states") == "":
        return frozenset()
    names: set[str] = set()
    for word in words(options.text("states")):
        if word.lower() == "all":
            return None
        if word.upper() not in STATE_OF_WORD:
            raise CommandError(f"Invalid job state specified: {word}\nValid job states include: {STATE_WORDS}")
        names.add(SHOWN.get(word.upper()) or STATE_OF_WORD[word.upper()])
    if not names:
        return with_shown(active)
    return with_shown(frozenset(names - {""}))  # "": states that no job enters


def with_shown(names: frozenset[str]) -> frozenset[str]:
    """Adds the states that are shown for some jobs of the given ones."""
    return names | {shown for shown, base in QUERIED_AS.items() if base in names}


def _users(options: OptionValues) -> tuple[list[str], bool]:
    """Uids, and whether none of the named users exists."""
    if options.flag("me"):
        return [str(os.getuid())], False
    named = words(options.text("user"))
    found = [find_user(name) for name in named]
    for name, uid in zip(named, found, strict=True):
        if uid is None:
            complain("squeue", f"Invalid user: {name}")
    known = [uid for uid in found if uid is not None]
    return known, bool(named) and not known


def _extra_filters(options: OptionValues) -> Iterator[Keep]:
    if options.text("licenses"):
        licenses = set(words(options.text("licenses")))
        yield Keep(("request.licenses",), lambda clock, text: any(w.partition(":")[0] in licenses for w in words(text)))
    if options.flag("notme"):
        me = os.getuid()
        yield Keep(("user_id",), lambda clock, uid: uid != me)
    if options.text("running_over"):
        over_s = parse_duration_s(options.text("running_over"))
        yield Keep(RUN_NEEDS, lambda clock, *run: run[0] not in ENDED and used_s(clock, *run) > over_s)
    if options.text("running_under"):
        under_s = parse_duration_s(options.text("running_under"))
        yield Keep(RUN_NEEDS, lambda clock, *run: run[0] in ("RUNNING", STOPPED) and used_s(clock, *run) < under_s)
