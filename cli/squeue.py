"""squeue: lists the pending and running jobs.

One call to the controller (ListJobs), one table (cli.listings.jobtable): only the columns that are shown, sorted or
filtered by are transferred. What the options select is listings/squeue_query.py. Steps (-s) are another call and another
table: listings/squeue_steps.py. Documents: listings/jsonout.py. An array's pending tasks are one record. `-r` shows them
one by one, `-j 12_4` the requested ones.
"""

import gc
from collections.abc import Iterator
from itertools import chain

from cli.base.clusters import on_each
from cli.base.document import DOCUMENT_OPTIONS, is_wanted
from cli.base.format import Column, DisplayClock, header_line, parse_names, parse_percent
from cli.base.listing import FORMAT_OR_LONG, date_line, emit, environment, now_us, report_rate_limits, sort_keys, words
from cli.base.options import MAYBE, YES, Command, Option, OptionValues, parse
from cli.base.run import CommandError, complain, run
from cli.listings.jobtable import SINGLE, TASKS, JobField, JobTable, SortKey, lines, needed_by, reader, sort
from cli.listings.squeue_fields import LETTERS, NAMES, JobView, sort_key
from cli.listings.squeue_query import STATE_WORDS, QueueQuery, build_query
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import JobFilter, JobInfo, ListJobsReply, ListJobsRequest
from penstock.values.jobcolumns import NAMES as COLUMN_NAMES
from penstock.values.refusals import TEXT, Code

FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
FORMAT_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
FORMAT_START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
SORT, SORT_START = "P,t,-p", "S"
#: The most lines of -r, which prints one per pending task.
EXPANDED_ROWS_MAX = 1_000_000
NO_SUCH_JOB = f"slurm_load_jobs error: {TEXT[Code.INVALID_JOB_ID]}"

COMMAND = Command(
    "squeue",
    "[OPTIONS]",
    (
        Option("account", "A", YES, "SQUEUE_ACCOUNT", "comma separated list of accounts to view", "account(s)"),
        Option("accounts", "", YES, dest="account"),
        Option("all", "a", env="SQUEUE_ALL", help="display jobs in hidden partitions"),
        Option("array", "r", env="SQUEUE_ARRAY", help="display one job array element per line"),
        Option(
            "array-unique", env="SQUEUE_ARRAY_UNIQUE", help="one line for an array's pending elements (the default)"
        ),
        Option("expand-patterns", help="show file names with their patterns expanded (the default)"),
        Option("noheader", "h", help="no headers on output"),
        Option("iterate", "i", YES, help="repeat the report at this interval, in seconds", metavar="seconds"),
        Option("job", "j", MAYBE, help="comma separated list of jobs to view", metavar="job(s)", const=""),
        Option("jobs", "", MAYBE, dest="job", const=""),
        *DOCUMENT_OPTIONS,
        Option("long", "l", help="long report"),
        Option("licenses", "L", YES, "SQUEUE_LICENSES", "comma separated list of license names to view", "license(s)"),
        Option("local", env="SQUEUE_LOCAL", help="jobs of the local cluster only (the default)"),
        Option("federation", env="SQUEUE_FEDERATION", help="the same, as no cluster is a member of one"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "clusters to list one after the other, or all", "cluster"),
        Option("me", help="equivalent to --user=<my username>"),
        Option("notme", help="the jobs of all other users"),
        Option("name", "n", YES, "SQUEUE_NAMES", "comma separated list of job names to view", "job_name(s)"),
        Option("names", "", YES, dest="name"),
        Option("noconvert", help="do not convert units (2048M stays, not 2G)"),
        Option("format", "o", YES, "SQUEUE_FORMAT", "format specification", "format"),
        Option("Format", "O", YES, "SQUEUE_FORMAT2", "format specification by field names", "format", dest="Format"),
        Option("partition", "p", YES, "SQUEUE_PARTITION", "comma separated list of partitions to view", "partition(s)"),
        Option("partitions", "", YES, dest="partition"),
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
        Option("only-job-state", help="request only the jobs' states"),
        Option("helpformat", help="list the letters of --format"),
        Option("helpFormat", help="list the fields of --Format"),
        Option("helpstate", help="list the states of --states"),
        Option("sibling", env="SQUEUE_SIBLING", help="all sibling jobs of a federation: there are none"),
    ),
)


def main() -> None:
    """The command squeue."""
    run("squeue", body)


def body(argv: list[str]) -> int:
    """Runs squeue once."""
    parsed = parse(COMMAND, argv, environment())
    options = parsed.values
    if any(options.flag(name) for name in ("helpstate", "helpformat", "helpFormat")):
        from cli.listings.helplists import asked_lines

        emit(asked_lines(options, LETTERS, NAMES, STATE_WORDS.split(",")))
        return 0
    _take_words(options, parsed.positional)
    given = parse(COMMAND, argv).values
    if "format" in given and options.flag("long"):
        raise CommandError(f"squeue: fatal: {FORMAT_OR_LONG}", plain=True)
    both = [key for key in given if key in _FORMATS]
    if len(both) > 1:
        raise CommandError(f"{_FORMATS[both[1]]} is incompatible with {_FORMATS[both[0]]}")
    query = build_query(options)
    gc.disable()  # a listing allocates much and creates no reference cycles; collecting takes a fifth of its time
    try:
        return on_each(
            "squeue", options, lambda client, is_named: _report(client, query, options, given, is_named),
            document=is_wanted(options),
        )  # fmt: skip
    finally:
        gc.enable()


#: The two options that give the columns; of both, the second one is in excess.
_FORMATS = {"format": "-o (--format)", "Format": "-O (--Format)"}


def _take_words(options: OptionValues, positional: list[str]) -> None:
    """Joins `--job 12` and `--steps 12.0`: the word after an option with an optional value is its value."""
    rest = list(positional)
    for key in ("job", "steps"):
        if options.get(key) == "" and rest:
            options[key] = rest.pop(0)
            options["nothing"] = not options[key]  # `-j ""`: a filter by jobs without a job
    if rest:
        from cli.base.helptext import usage_text

        raise CommandError(f"squeue: error: Unrecognized option: {rest[0]}\n{usage_text(COMMAND)}", plain=True)


def _report(client: Client, query: QueueQuery, options: OptionValues, given: OptionValues, heading: bool) -> int:
    report_rate_limits("squeue", client, options)
    clock = DisplayClock.of_environment(now_us())
    if options.text("nodelist"):
        _check_nodes(client, options.text("nodelist"))
    heads = [f"CLUSTER: {client.cluster.cluster_name}"] if heading else []
    if options.flag("verbose") and not is_wanted(options):
        heads += _verbose_head(options, clock)
    if "steps" in options and not is_wanted(options):
        from cli.listings import squeue_steps

        users = list(query.request.filter.users)
        return squeue_steps.report(
            client, None if query.matches_none else query.selectors, users, options, given, heads, clock
        )
    if is_wanted(options):
        return _document(client, query, options, clock)
    view = JobView(clock, not options.flag("noconvert"), client.cluster.cluster_name)
    columns = _columns(options, given)
    head = _with_header(heads, columns, options, clock)
    try:
        keys: list[tuple[SortKey, bool]] = sort_keys(_sort_text(options), sort_key)
    except CommandError:
        emit(head)
        raise
    fields: list[JobField | None] = [column.field for column in columns]
    table = load(client, query, clock, needed_by(fields, [key for key, _ in keys]))
    if table is None:
        complain("squeue", NO_SUCH_JOB, plain=True)
        return 1
    if options.flag("verbose"):
        from cli.listings.verbose import update_line

        at_us = 0 if len(query.selectors) == 1 else clock.now_us
        head.insert(len(heads), update_line(at_us, table.rows))
    expand_rows(table, query)
    sort(table, keys, view)
    emit(chain(head, lines(table, columns, view)))
    return 0


def _verbose_head(options: OptionValues, clock: DisplayClock) -> list[str]:
    """The lines of -v above all others."""
    from cli.listings.verbose import head, squeue_options

    text = FORMAT_START if options.flag("start") and "format" not in options else options.text("format")
    return head(squeue_options(options, text), clock.now_us, options, blank=2)


def _with_header(lines: list[str], columns: list[Column], options: OptionValues, clock: DisplayClock) -> list[str]:
    """The lines above the jobs; -v has printed the date."""
    if options.flag("noheader"):
        return list(lines)
    dated = (options.flag("long") or options.text("iterate")) and not options.flag("verbose")
    return [*lines, *([date_line(clock.now_us)] if dated else []), header_line(columns)]


def load(client: Client, query: QueueQuery, clock: DisplayClock, names: list[str]) -> JobTable | None:
    """Loads the jobs to show, with these columns; None when the single requested job does not exist."""
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


def _pages(client: Client, query: QueueQuery, request: ListJobsRequest) -> Iterator[ListJobsReply]:
    """The pages of the answer; none when no given id exists."""
    if query.matches_none:
        return
    try:
        yield from client.stream("ListJobs", request)
    except PenstockError as error:
        if error.code != Code.INVALID_JOB_ID:
            raise


def _is_unknown(query: QueueQuery, found: int) -> bool:
    """Whether the single requested job does not exist."""
    filters = query.request.filter
    only_id = len(query.selectors) == 1 and not (filters.users or filters.partitions or filters.names or filters.nodes)
    return only_id and not found and not query.matches_none


def _has_other_tasks(client: Client, query: QueueQuery) -> bool:
    """Whether the array of a missing task exists: then there is nothing to show and no error."""
    if query.selectors[0].tasks is None:
        return False
    request = ListJobsRequest(
        filter=JobFilter(ids=[str(query.selectors[0].job_id)]), columns=["job_id"], all_states=True
    )
    return any(page.rows or page.jobs for page in _pages(client, query, request))


def _document(client: Client, query: QueueQuery, options: OptionValues, clock: DisplayClock) -> int:
    """--json, --yaml: jobs are read and written one by one."""
    from cli.listings.jsonout import write_jobs

    def jobs() -> Iterator[JobInfo]:
        for page in _pages(client, query, query.request):
            for job in page.jobs:
                if query.states is None or job.state in query.states:
                    yield job

    write_jobs(_kept(jobs(), query, clock), client.cluster.cluster_name, clock.now_us, options)
    return 0


def _kept(jobs: Iterator[JobInfo], query: QueueQuery, clock: DisplayClock) -> Iterator[JobInfo]:
    readers = [(keep, [reader(name) for name in keep.needs]) for keep in query.keep]
    for job in jobs:
        if all(keep.test(clock, *(read(job) for read in reads)) for keep, reads in readers):
            yield job


def _check_nodes(client: Client, hostlist: str) -> None:
    """A node that does not exist is an error, not an empty list."""
    from penstock.v1.controller_pb2 import ListNodesRequest
    from penstock.values.hostlist import expand

    known = {node.name for node in client.call("ListNodes", ListNodesRequest()).nodes}
    for name in expand(hostlist) if known else ():  # PrivateData=nodes: users see none
        if name not in known:
            raise CommandError(f"Invalid node name {name}")


def expand_rows(table: JobTable, query: QueueQuery) -> None:
    """Makes a line per job, per task when tasks are listed one by one, per partition with --priority.

    The common case first: a line for each job.
    """
    columns = table.columns
    if not query.expand and not query.by_partition and not any(s.tasks is not None for s in query.selectors):
        if any(columns["array_tasks"]):
            pairs = zip(table.text_column("array_tasks"), table.number_column("array_task_id"), strict=True)
            columns[TASKS] = [pending if task_id < 0 else "" for pending, task_id in pairs]
        else:
            columns[TASKS] = [""] * table.rows
        columns[SINGLE] = [False] * table.rows
        return
    at: list[int] = []
    tasks: list[object] = []
    single: list[object] = []
    partitions: list[object] = []
    texts = zip(*map(table.text_column, ("array_tasks", "partition", "state")), strict=True)
    for position, ((pending, partition, state), task_id) in enumerate(
        zip(texts, table.number_column("array_task_id"), strict=True)
    ):
        is_array = bool(pending) and task_id < 0
        names = words(partition) if query.by_partition and state == "PENDING" else [partition]
        names = [name for name in names if name in query.request.filter.partitions] or names
        if not is_array:
            shown, one = [""], False
        else:
            base = table.number_column("array_job_id")[position] or table.number_column("job_id")[position]
            shown, one = _task_lines(base, pending, query)
        count = len(shown) * len(names)
        at += [position] * count
        single += [one] * count
        partitions += names * len(shown)
        tasks += shown if len(names) == 1 else [task for task in shown for _ in names]
    if at != list(range(table.rows)):
        table.choose(at)
    columns["partition"] = partitions
    columns[TASKS] = tasks
    columns[SINGLE] = single


def _task_lines(base: int, pending: str, query: QueueQuery) -> tuple[list[str], bool]:
    """The lines of an array's pending tasks, and whether each is one task."""
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


def _columns(options: OptionValues, given: OptionValues) -> list[Column]:
    """The format: of the command line, of an option that implies one, of the environment, the default."""
    if "Format" in given or ("format" not in given and "Format" in options):
        columns, unknown = parse_names(options.text("Format"), NAMES)
    else:
        if "format" in given:
            text = given.text("format")
        elif options.flag("start"):
            text = FORMAT_START
        else:
            text = FORMAT_LONG if options.flag("long") else options.text("format", FORMAT)
        columns, unknown = parse_percent(text, LETTERS)
    for part in unknown:
        complain("squeue", f"Invalid job format specification: {part.what}")
    return columns


def _sort_text(options: OptionValues) -> str:
    default = SORT_START if options.flag("start") else SORT
    return options.text("sort") or default


if __name__ == "__main__":
    main()
