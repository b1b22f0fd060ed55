"""squeue: the jobs that wait and run.

One call to the controller (ListJobs), one table (cli.jobtable): only the columns that are shown, sorted or filtered by
come over. What the controller filters is sent as a filter; what it does not know as a filter (licenses, run
time) is dropped here. States are checked here again, because a single `-j` asks for all states: only then can "this job
has ended" be told from "there is no such job".
Steps (-s) are another call and another table: squeue_steps.py. Documents: jsonout.py.
An array's waiting tasks come as one record. `-r` shows them one by one, `-j 12_4` those that were asked for.
"""

import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.format import Clock, Column, header_line, parse_names, parse_percent
from cli.jobids import selector_text
from cli.jobtable import SINGLE, TASKS, JobTable, SortKey, lines, needed_by, reader, sort
from cli.listing import (
    STATE_OF_WORD,
    check_clusters,
    date_line,
    emit,
    environment,
    find_user,
    now_us,
    repeat,
    sort_keys,
    tell_of_limits,
    words,
)
from cli.options import MAYBE, YES, Command, Option, parse, usage_text
from cli.run import CommandError, complain, run
from cli.squeue_fields import LETTERS, NAMES, RUN_NEEDS, JobView, sort_key, used_s
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import JobFilter, JobInfo, ListJobsRequest
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.jobcolumns import NAMES as COLUMN_NAMES
from penstock.values.jobid import JobSelector, parse_selectors
from penstock.values.refusals import TEXT, Code
from penstock.values.states import ENDED, JobState

FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
FORMAT_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
FORMAT_START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
SORT, SORT_START = "P,t,-p", "S"
#: With -r a line per waiting task; more than this is a wish for a different tool.
EXPANDED_ROWS_MAX = 1_000_000
NO_SUCH_JOB = f"slurm_load_jobs error: {TEXT[Code.INVALID_JOB_ID]}"

COMMAND = Command(
    "squeue",
    "[OPTIONS]",
    (
        Option("account", "A", YES, "SQUEUE_ACCOUNT", "comma separated list of accounts to view", "account(s)"),
        Option("all", "a", env="SQUEUE_ALL", help="display jobs in hidden partitions"),
        Option("array", "r", env="SQUEUE_ARRAY", help="display one job array element per line"),
        Option(
            "array-unique", env="SQUEUE_ARRAY_UNIQUE", help="one line for an array's pending elements (the default)"
        ),
        Option("expand-patterns", help="show file names with their patterns filled in (the default)"),
        Option("noheader", "h", help="no headers on output"),
        Option("iterate", "i", YES, help="repeat the report every so many seconds", metavar="seconds"),
        Option("job", "j", MAYBE, help="comma separated list of jobs to view", metavar="job(s)", const=""),
        Option("jobs", "", MAYBE, dest="job", const=""),
        *DOCUMENT_OPTIONS,
        Option("long", "l", help="long report"),
        Option("licenses", "L", YES, "SQUEUE_LICENSES", "comma separated list of license names to view", "license(s)"),
        Option("local", env="SQUEUE_LOCAL", help="jobs of the local cluster only (the default)"),
        Option("federation", env="SQUEUE_FEDERATION", help="the same, as no cluster is a member of one"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "name the cluster to ask, or all", "cluster"),
        Option("me", help="equivalent to --user=<my username>"),
        Option("notme", help="everybody's jobs but mine"),
        Option("name", "n", YES, "SQUEUE_NAMES", "comma separated list of job names to view", "job_name(s)"),
        Option("names", "", YES, dest="name"),
        Option("noconvert", help="do not convert units (2048M stays, not 2G)"),
        Option("format", "o", YES, "SQUEUE_FORMAT", "format specification", "format"),
        Option("Format", "O", YES, "SQUEUE_FORMAT2", "format specification by field names", "format", dest="Format"),
        Option("partition", "p", YES, "SQUEUE_PARTITION", "comma separated list of partitions to view", "partition(s)"),
        Option("priority", "P", env="SQUEUE_PRIORITY", help="a line for each partition that a pending job may run in"),
        Option("qos", "q", YES, "SQUEUE_QOS", "comma separated list of QOSs to view", "qos(s)"),
        Option("reservation", "R", YES, help="reservation to view", metavar="name"),
        Option("running-over", value=YES, help="jobs that have run for longer than this time", metavar="time"),
        Option("running-under", value=YES, help="jobs that have run for less than this time", metavar="time"),
        Option("steps", "s", MAYBE, help="comma separated list of job steps to view", metavar="step(s)", const=""),
        Option("sort", "S", YES, "SQUEUE_SORT", "comma separated list of fields to sort on", "fields"),
        Option("start", help="print expected start times of pending jobs"),
        Option("states", "t", YES, "SQUEUE_STATES", "comma separated list of states to view, or all", "states"),
        Option("user", "u", YES, "SQUEUE_USERS", "comma separated list of users to view", "user_name(s)"),
        Option("users", "", YES, dest="user"),
        Option("nodelist", "w", YES, help="list of nodes to view", metavar="hostlist"),
        Option("verbose", "v", help="verbosity level", counted=True),
        Option("hide", help="do not show jobs in hidden partitions (the default)"),
        Option("only-job-state", help="ask for nothing but the jobs' states"),
        Option("sibling", env="SQUEUE_SIBLING", help="all sibling jobs of a federation: there are none"),
    ),
)

#: In the order in which Slurm's own message lists them.
STATE_WORDS = (
    "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY,"
    "COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,REQUEUE_HOLD,REVOKED,SIGNALING,SPECIAL_EXIT,"
    "STAGE_OUT,STOPPED"
)


#: A pending job that waits for somebody to look at its exit status: shown as a state, asked for as PENDING.
SPECIAL = "SPECIAL_EXIT"


class Keep(NamedTuple):
    """A filter of this side: `test(clock, *values of the needed columns)`."""

    needs: tuple[str, ...]
    test: Callable[..., bool]


class Query(NamedTuple):
    """What to ask for and what to keep."""

    request: ListJobsRequest
    selectors: list[JobSelector]
    states: frozenset[str] | None  # None = all
    keep: list[Keep]
    expand: bool
    by_partition: bool
    nobody: bool  # a user was named whom nobody knows: there is nothing to show


def main() -> None:
    """The command squeue."""
    run("squeue", body)


def body(argv: list[str]) -> int:
    """One run of squeue."""
    parsed = parse(COMMAND, argv, environment())
    options = parsed.values
    _take_words(options, parsed.positional)
    given = parse(COMMAND, argv).values
    if "format" in given and options.get("long"):
        raise CommandError(
            "squeue: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.",
            plain=True,
        )
    query = build_query(options)
    gc.disable()  # a listing makes much and leaves no rings behind; looking for them takes a fifth of its time
    try:
        with Client.open() as client:
            tell_of_limits("squeue", client, options)
            heading = check_clusters(options.get("clusters"), client.cluster.cluster_name)
            return repeat("squeue", options.get("iterate"), lambda: _report(client, query, options, given, heading))
    finally:
        gc.enable()


def _take_words(options: dict[str, Any], positional: list[str]) -> None:
    """`--job 12` and `--steps 12.0`: a word behind an option whose value may be left out counts as its value."""
    rest = list(positional)
    for key in ("job", "steps"):
        if options.get(key) == "" and rest:
            options[key] = rest.pop(0)
            options["nothing"] = not options[key]  # `-j ""`: jobs are asked for, and none is named
    if rest:
        raise CommandError(f"squeue: error: Unrecognized option: {rest[0]}\n{usage_text(COMMAND)}", plain=True)


def build_query(options: dict[str, Any]) -> Query:
    """The options as a question to the controller."""
    text = options.get("job") or options.get("steps") or ""
    selectors = _selectors(text, steps=bool(options.get("steps")) and not options.get("job"))
    states = _states(options)
    users, nobody = _users(options)
    nobody = nobody or bool(options.get("nothing")) or states == frozenset()
    single = len(selectors) == 1
    request = ListJobsRequest(
        filter=JobFilter(
            ids=words_of_ids(selectors),
            users=users,
            partitions=words(options.get("partition")),
            names=words(options.get("name")),
            states=sorted({"PENDING" if name == SPECIAL else name for name in states}) if states and not single else (),
            nodes=[options["nodelist"]] if options.get("nodelist") else (),
            accounts=words(options.get("account")),
            qos=words(options.get("qos")),
            reservations=words(options.get("reservation")),
        ),
        all_states=states is None or single,
        detail=is_wanted(options),
        planned=_wants_plan(options),
        hide_hidden=not (options.get("all") or options.get("partition") or selectors),
    )
    keep = list(_extra_filters(options))
    return Query(request, selectors, states, keep, bool(options.get("array")), bool(options.get("priority")), nobody)


def _wants_plan(options: dict[str, Any]) -> bool:
    """Whether a planned start or its nodes are shown or sorted by: %S, %Y, StartTime, SchedNodes, --start, --json."""
    letters = str(options.get("format", "")) + str(options.get("sort", ""))
    names = str(options.get("Format", "")).lower()
    return bool(
        options.get("start")
        or is_wanted(options)
        or {"S", "Y"} & set(letters)
        or "starttime" in names
        or "schednodes" in names
    )


def words_of_ids(selectors: Iterable[JobSelector]) -> list[str]:
    """Job ids for the controller: steps do not matter to it."""
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


def _states(options: dict[str, Any]) -> frozenset[str] | None:
    """The wanted states; None = all. An empty list is Slurm's default: whatever has not ended."""
    if options.get("start"):
        return frozenset(("PENDING", SPECIAL))
    active = frozenset(s.name for s in JobState) - ENDED
    if options.get("states") == "":
        return frozenset()
    names: set[str] = set()
    for word in words(options.get("states")):
        if word.lower() == "all":
            return None
        if word.upper() not in STATE_OF_WORD:
            raise CommandError(f"Invalid job state specified: {word}\nValid job states include: {STATE_WORDS}")
        names.add(SPECIAL if word.upper() in (SPECIAL, "SE") else STATE_OF_WORD[word.upper()])
    return frozenset(names | {SPECIAL} if "PENDING" in names else names) if names else active | {SPECIAL}


def _users(options: dict[str, Any]) -> tuple[list[str], bool]:
    """Uids, and whether users were named of whom none exists."""
    if options.get("me"):
        return [str(os.getuid())], False
    named = words(options.get("user"))
    found = [find_user(name) for name in named]
    for name, uid in zip(named, found, strict=True):
        if uid is None:
            complain("squeue", f"Invalid user: {name}")
    known = [uid for uid in found if uid is not None]
    return known, bool(named) and not known


def _extra_filters(options: dict[str, Any]) -> Iterator[Keep]:
    if options.get("licenses"):
        licenses = set(words(options["licenses"]))
        yield Keep(("request.licenses",), lambda clock, text: any(w.partition(":")[0] in licenses for w in words(text)))
    if options.get("notme"):
        me = os.getuid()
        yield Keep(("user_id",), lambda clock, uid: uid != me)
    if options.get("running_over"):
        over_s = parse_duration_s(options["running_over"])
        yield Keep(RUN_NEEDS, lambda clock, *run: run[0] not in ENDED and used_s(clock, *run) > over_s)
    if options.get("running_under"):
        under_s = parse_duration_s(options["running_under"])
        yield Keep(RUN_NEEDS, lambda clock, *run: run[0] == "RUNNING" and used_s(clock, *run) < under_s)


def _report(client: Client, query: Query, options: dict[str, Any], given: dict[str, Any], heading: bool) -> int:
    clock = Clock.of_environment(now_us())
    if options.get("nodelist"):
        _check_nodes(client, options["nodelist"])
    if "steps" in options and not is_wanted(options):
        from cli import squeue_steps

        heads = [f"CLUSTER: {client.cluster.cluster_name}"] if heading else []
        users = list(query.request.filter.users)
        return squeue_steps.report(
            client, None if query.nobody else query.selectors, users, options, given, heads, clock
        )
    if is_wanted(options):
        return _document(client, query, options, clock)
    view = JobView(clock, not options.get("noconvert"), client.cluster.cluster_name)
    columns = _columns(options, given)
    head = [f"CLUSTER: {view.cluster}"] if heading else []
    if not options.get("noheader"):
        if options.get("long") or options.get("iterate"):
            head.append(date_line(clock.now_us))
        head.append(header_line(columns))
    try:
        keys: list[tuple[SortKey, bool]] = sort_keys(_sort_text(options), sort_key)
    except CommandError:
        emit(head)
        raise
    fields: list[Any] = [column.field for column in columns]
    table = load(client, query, clock, needed_by(fields, [key for key, _ in keys]))
    if table is None:
        complain("squeue", NO_SUCH_JOB, plain=True)
        return 1
    expand_rows(table, query)
    sort(table, keys, view)
    emit(chain(head, lines(table, columns, view)))
    return 0


def load(client: Client, query: Query, clock: Clock, names: list[str]) -> JobTable | None:
    """The jobs to show, with these columns; None when the one job that was asked for is not known."""
    needs = [*names, "state", "array_tasks", "array_task_id", "job_id", "array_job_id", "partition"]
    table = JobTable(dict.fromkeys(needs + [name for keep in query.keep for name in keep.needs]))
    asked = list(table.columns)
    request = query.request
    if COLUMN_NAMES.issuperset(asked):
        request = ListJobsRequest(columns=asked)
        request.MergeFrom(query.request)
    for page in _pages(client, query, request):
        table.take(page, asked)
    if _is_unknown(query, table.rows) and not _has_other_tasks(client, query):
        return None
    wanted = query.states
    if wanted is not None:
        table.keep(("state",), lambda state: state in wanted)
    for keep in query.keep:
        table.keep(keep.needs, lambda *values, keep=keep: keep.test(clock, *values))
    return table


def _pages(client: Client, query: Query, request: ListJobsRequest) -> Iterator[Any]:
    """The answer; nothing for ids of which none is known."""
    if query.nobody:
        return
    try:
        yield from client.stream("ListJobs", request)
    except PenstockError as error:
        if error.code != Code.INVALID_JOB_ID:
            raise


def _is_unknown(query: Query, found: int) -> bool:
    """Whether the one job that was asked for does not exist."""
    filters = query.request.filter
    only_id = len(query.selectors) == 1 and not (filters.users or filters.partitions or filters.names or filters.nodes)
    return only_id and not found and not query.nobody


def _has_other_tasks(client: Client, query: Query) -> bool:
    """Whether the array of a task that is not there is: then there is nothing to show, and nothing is wrong."""
    if query.selectors[0].tasks is None:
        return False
    request = ListJobsRequest(
        filter=JobFilter(ids=[str(query.selectors[0].job_id)]), columns=["job_id"], all_states=True
    )
    return any(page.rows or page.jobs for page in _pages(client, query, request))


def _document(client: Client, query: Query, options: dict[str, Any], clock: Clock) -> int:
    """--json, --yaml: jobs are written as they come."""
    from cli.jsonout import write_jobs

    def jobs() -> Iterator[JobInfo]:
        for page in _pages(client, query, query.request):
            for job in page.jobs:
                if query.states is None or job.state in query.states:
                    yield job

    write_jobs(_kept(jobs(), query, clock), client.cluster.cluster_name, clock.now_us, options)
    return 0


def _kept(jobs: Iterator[JobInfo], query: Query, clock: Clock) -> Iterator[JobInfo]:
    readers = [(keep, [reader(name) for name in keep.needs]) for keep in query.keep]
    for job in jobs:
        if all(keep.test(clock, *(read(job) for read in reads)) for keep, reads in readers):
            yield job


def _check_nodes(client: Client, hostlist: str) -> None:
    """A node that does not exist is an error, not an empty list."""
    from penstock.v1.controller_pb2 import ListNodesRequest
    from penstock.values.hostlist import expand

    known = {node.name for node in client.call("ListNodes", ListNodesRequest()).nodes}
    for name in expand(hostlist) if known else ():  # PrivateData=nodes: a user is told of none
        if name not in known:
            raise CommandError(f"Invalid node name {name}")


def expand_rows(table: JobTable, query: Query) -> None:
    """A line per job, per task where tasks are wanted one by one, per partition with --priority.

    The common case first: a line for each job.
    """
    columns = table.columns
    if not query.expand and not query.by_partition and not any(s.tasks is not None for s in query.selectors):
        if any(columns["array_tasks"]):
            pairs = zip(columns["array_tasks"], columns["array_task_id"], strict=True)
            columns[TASKS] = [pending if task_id < 0 else "" for pending, task_id in pairs]
        else:
            columns[TASKS] = [""] * table.rows
        columns[SINGLE] = [False] * table.rows
        return
    at: list[int] = []
    tasks: list[str] = []
    single: list[bool] = []
    partitions: list[str] = []
    values = zip(*(columns[n] for n in ("array_tasks", "array_task_id", "partition", "state")), strict=True)
    for position, (pending, task_id, partition, state) in enumerate(values):
        is_array = bool(pending) and task_id < 0
        names = words(partition) if query.by_partition and state == "PENDING" else [partition]
        if not is_array:
            shown, one = [""], False
        else:
            base = columns["array_job_id"][position] or columns["job_id"][position]
            shown, one = _task_lines(base, pending, query)
        count = len(shown) * len(names)
        at += [position] * count
        single += [one] * count
        partitions += names * len(shown)
        tasks += shown if len(names) == 1 else [task for task in shown for _ in names]
    if at != list(range(table.rows)):
        table.choose(at)
    columns["partition"] = partitions
    columns[TASKS], columns[SINGLE] = tasks, single


def _task_lines(base: int, pending: str, query: Query) -> tuple[list[str], bool]:
    """The lines of an array's waiting tasks, and whether each is one task."""
    asked = [s.tasks for s in query.selectors if s.job_id == base]
    if not query.expand and (not asked or None in asked):
        return [pending], False
    from penstock.values.taskset import TaskSet

    tasks = TaskSet.parse(pending)
    if asked and None not in asked:
        wanted = TaskSet.of(())
        for some in asked:
            wanted = wanted.union(some or wanted)
        tasks = tasks.intersect(wanted)
    if len(tasks) > EXPANDED_ROWS_MAX:
        raise CommandError(f"job {base} has {len(tasks)} pending tasks; no more than {EXPANDED_ROWS_MAX} are listed")
    return list(map(str, tasks)), True


def _columns(options: dict[str, Any], given: dict[str, Any]) -> list[Column]:
    """The format: of the command line, of an option that implies one, of the environment, the default."""
    if "Format" in given or ("format" not in given and "Format" in options):
        columns, unknown = parse_names(options["Format"], NAMES)
    else:
        if "format" in given:
            text = given["format"]
        elif options.get("start"):
            text = FORMAT_START
        else:
            text = FORMAT_LONG if options.get("long") else options.get("format", FORMAT)
        columns, unknown = parse_percent(text, LETTERS)
    for part in unknown:
        complain("squeue", f"Invalid job format specification: {part.what}")
    return columns


def _sort_text(options: dict[str, Any]) -> str:
    default = SORT_START if options.get("start") else SORT
    return str(options.get("sort") or default)


if __name__ == "__main__":
    main()
