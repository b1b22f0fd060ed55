"""sacct: the jobs that were, from the accounting records.

One call (ListRecords), one table. The controller filters by what the database has indexes for; what else Slurm can
filter by (node and CPU counts, constraints, ...) is dropped here. The default time window is Slurm's, and surprises
people there too: from midnight on; with -j everything; with -s only what is in that state now (or at -S).
"""

import grp
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.format import Clock, TableColumn, TableStyle, parse_table, table_lines
from cli.listing import (
    STATE_OF_WORD,
    check_clusters,
    emit,
    environment,
    find_user,
    now_us,
    numbers_in,
    pages,
    words,
)
from cli.options import MAYBE, YES, Command, Option, later, parse
from cli.run import CommandError, run
from cli.sacct_fields import COLUMNS, RecordRow, RecordView, association_id
from penstock.client import Client
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsRequest
from penstock.values.dates import format_date, parse_date_us
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, parse_selectors

FORMAT = "jobid,jobname,partition,account,alloccpus,state,exitcode"
FORMAT_BRIEF = "jobid,state,exitcode"
FORMAT_LONG = (
    "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,"
    "averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,"
    "state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,"
    "maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,"
    "alloctres,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,"
    "tresusageinmintask,tresusageintot,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,"
    "tresusageouttot"
)
UNITS = "KMGTP"
RULE = "-" * 80
#: With --array a line per waiting task.
EXPANDED_ROWS_MAX = 1_000_000

COMMAND = Command(
    "sacct",
    "[<OPTION>]",
    (
        Option("accounts", "A", YES, help="jobs of these accounts", metavar="account_list"),
        Option("account", "", YES, dest="accounts"),
        Option("allclusters", "L", help="jobs of all clusters (there is one)"),
        Option("allocations", "X", help="jobs only, without their steps"),
        Option("allusers", "a", help="all users' jobs"),
        Option("array", help="array tasks that wait on separate lines"),
        Option("batch-script", "B", help="print the batch script of the job"),
        Option("brief", "b", help=f"equivalent to --format={FORMAT_BRIEF}"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "name the cluster to ask, or all", "cluster_list"),
        Option("constraints", "C", YES, help="jobs that asked for all of these features", metavar="list"),
        Option("delimiter", value=YES, help="what separates the fields with -p or -P", metavar="characters"),
        Option("duplicates", "D", help="also the earlier attempts of requeued jobs"),
        Option("endtime", "E", YES, help="jobs before this time", metavar="time"),
        Option("env-vars", help="print the environment of the job"),
        Option("expand-patterns", help="show file names with their patterns filled in (the default)"),
        Option("federation", env="SACCT_FEDERATION", help="as --local, as no cluster is a member of one"),
        Option("format", "o", YES, "SACCT_FORMAT", "comma separated list of fields, name%width", "fields"),
        Option("group", "g", YES, help="jobs of these groups", metavar="gid_or_group_list"),
        Option("gid", "", YES, dest="group"),
        Option("helpformat", "e", help="list the fields for --format"),
        Option("jobs", "j", YES, help="jobs or steps to show", metavar="job(.step)", joined=True),
        *DOCUMENT_OPTIONS,
        Option("local", env="SACCT_LOCAL", help="the local cluster only (the default)"),
        Option("long", "l", help="many fields"),
        Option("name", value=YES, help="jobs with these names", metavar="jobname_list"),
        Option("ncpus", "I", YES, help="jobs that ran on so many CPUs", metavar="min[-max]"),
        Option("nnodes", "i", YES, help="jobs that ran on so many nodes", metavar="min[-max]"),
        Option("noconvert", help="do not convert units"),
        Option("nodelist", "N", YES, help="jobs that ran on any of these nodes", metavar="node_list"),
        Option("noheader", "n", help="no header"),
        Option("parsable", "p", help="output is '|' delimited with a '|' at the end"),
        Option("parsable2", "P", help="output is '|' delimited without a '|' at the end"),
        Option("partition", "r", YES, help="jobs of these partitions", metavar="part_list"),
        Option("qos", "q", YES, help="jobs of these QOSs", metavar="qos_list"),
        Option("reason", "R", YES, help="jobs that waited for one of these reasons", metavar="reason_list"),
        Option("starttime", "S", YES, help="jobs after this time", metavar="time"),
        Option("state", "s", YES, help="jobs in these states in that time", metavar="state_list"),
        Option("states", "", YES, dest="state"),
        Option("timelimit-max", "K", YES, help="with -k: the largest time limit", metavar="time"),
        Option("timelimit-min", "k", YES, help="jobs with this time limit (or more, with -K)", metavar="time"),
        Option("truncate", "T", help="cut times to the window of -S and -E"),
        Option("units", value=YES, help="show memory in this unit", metavar="[KMGTP]"),
        Option("user", "u", YES, help="jobs of these users", metavar="uid_or_user_list"),
        Option("uid", "", YES, dest="user"),
        Option("use-local-uid", help="show users by this machine's names (the default)"),
        Option("verbose", "v", help="verbosity level", counted=True),
        Option("wckeys", "W", YES, help="jobs with these wckeys", metavar="wckey_list"),
        Option("whole-hetjob", value=MAYBE, help="all components of a heterogeneous job", metavar="yes|no"),
        Option("associations", "x", YES, help="jobs of these associations, by number", metavar="assoc_list"),
        *later("flags/F", note="the records do not say which kind of pass has started a job"),
        *later("file/f", note="there is no job completion file; the records are in the database"),
        *later("completion/c", value="no", note="there is no job completion plug-in; the records are in the database"),
    ),
)


class Query(NamedTuple):
    """What to ask for and what to keep."""

    request: ListRecordsRequest
    selectors: list[JobSelector]
    keep: list[Callable[[JobRecord], bool]]
    nothing: bool  # only states that no job of this version enters were asked for


def main() -> None:
    """The command sacct."""
    run("sacct", body)


def body(argv: list[str]) -> int:
    """One run of sacct. Words that are no options are ignored, as Slurm ignores them."""
    options = parse(COMMAND, argv, environment()).values
    if options.get("helpformat"):
        emit(field_list())
        return 0
    given = parse(COMMAND, argv).values
    _check(options, given)
    columns = _columns(options, given)
    clock = Clock.of_environment(now_us())
    query = build_query(options, clock)
    wanted = _association_ids(options)
    with Client.open() as client:
        cluster = client.cluster.cluster_name
        check_clusters(options.get("clusters"), cluster)
        records = [] if query.nothing else pages(client, "ListRecords", query.request, "records")
        needs_ids = wanted or is_wanted(options) or any(column.name == "AssocID" for column in columns)
        assoc_ids = _load_association_ids(client) if records and needs_ids else {}
    records = [record for record in records if all(keep(record) for keep in query.keep)]
    if wanted:
        records = [one for one in records if association_id(assoc_ids, one) in wanted]
    if "batch_script" in options or "env_vars" in options:
        emit(list(_texts(records, environment_wanted="env_vars" in options)))
        return 0
    if is_wanted(options):
        from cli.document import write_document
        from cli.jsonacct import records_document

        write_document(records_document(records, cluster, clock.now_us, assoc_ids), options)
        return 0
    view = RecordView(clock, options.get("units", ""), not options.get("noconvert"), cluster, assoc_ids)
    rows = make_rows(records, query.selectors, bool(options.get("array")))
    if options.get("allocations"):
        rows = (row for row in rows if row.step is None)
    emit(list(table_lines(columns, rows, view, _style(options))))
    return 0


def _association_ids(options: dict[str, Any]) -> frozenset[int]:
    """-x."""
    named = words(options.get("associations"))
    for text in named:
        if not (text.isascii() and text.isdigit()):
            raise _fatal(f"Invalid association id: {text}")
    return frozenset(int(text[:10]) for text in named)


def _load_association_ids(client: Client) -> dict[tuple[str, str], int]:
    """The numbers of today's associations, by account and user."""
    from penstock.v1.shares_pb2 import ListAssociationsRequest

    found = pages(client, "ListAssociations", ListAssociationsRequest(), "associations")
    return {(one.account, one.user): one.id for one in found}


def _check(options: dict[str, Any], given: dict[str, Any]) -> None:
    """What contradicts itself."""
    if "format" in given and options.get("long"):
        raise _fatal("Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.")
    if "batch_script" in options and "env_vars" in options:
        raise _fatal("Options --batch-script and --env-vars are mutually exclusive")
    for key, what in (("batch_script", "job script"), ("env_vars", "job environment")):
        if key in options and not options.get("jobs"):
            raise _fatal(f"When requesting {what} you must also request specific jobs with the '-j' option.")
    unit = options.get("units", "K")
    if len(unit) != 1 or unit.upper() not in UNITS:
        raise _fatal(f"Invalid unit type '{unit}': one of {', '.join(UNITS)}")
    if "units" in options:
        options["units"] = unit.upper()
    whole = options.get("whole_hetjob", "yes")
    if isinstance(whole, str) and whole.lower() not in ("yes", "no"):
        raise _fatal(f'Invalid --whole-hetjob value "{whole}". Valid values: [yes|no].')


def _fatal(text: str) -> CommandError:
    return CommandError(f"sacct: fatal: {text}", plain=True)


def field_list() -> list[str]:
    """The names of all fields, four on a line."""
    names = [f"{column.name:<19}" for column in COLUMNS]
    return [" ".join(names[at : at + 4]) for at in range(0, len(names), 4)]


def _columns(options: dict[str, Any], given: dict[str, Any]) -> list[TableColumn]:
    if "format" in given:
        text = given["format"]
    elif options.get("long"):
        text = FORMAT_LONG
    else:
        text = FORMAT_BRIEF if options.get("brief") else options.get("format", FORMAT)
    columns, unknown = parse_table(text, COLUMNS)
    if unknown:
        raise CommandError(f'Invalid field requested: "{unknown[0].what}"')
    return columns


def _style(options: dict[str, Any]) -> TableStyle:
    parsable = options.get("parsable") or options.get("parsable2")
    delimiter = options.get("delimiter", "|") if parsable else ""
    return TableStyle(delimiter, bool(options.get("parsable")), not options.get("noheader"))


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
        no_steps=bool(options.get("allocations")),
        truncate=bool(options.get("truncate")),
        qos=words(options.get("qos")),
        with_script=bool(options.get("batch_script")),
        with_environment=bool(options.get("env_vars")),
    )
    return Query(request, selectors, list(_extra_filters(options, selectors)), states == {""})


def _selectors(text: str) -> list[JobSelector]:
    try:
        return parse_selectors(",".join(words(text))) if words(text) else []
    except BadValue as error:
        raise _fatal(f"Bad job/step specified: {text}") from error


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
            raise _fatal(f"unrecognized job state value '{word}'")
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
    if options.get("wckeys"):
        keys = words(options["wckeys"])
        yield lambda job: job.request.wckey in keys
    if options.get("group"):
        gids = {_group_id(name) for name in words(options["group"])}
        yield lambda job: job.group_id in gids
    if options.get("timelimit_min"):
        least_s = parse_duration_s(options["timelimit_min"])
        most_s = parse_duration_s(options.get("timelimit_max", options["timelimit_min"]))
        yield lambda job: least_s <= job.time_limit_s <= most_s


def _between(name: str, low: int, high: int | None) -> Callable[[JobRecord], bool]:
    return lambda job: low <= getattr(job, name) and (high is None or getattr(job, name) <= high)


def _group_id(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name[:10])
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise CommandError(f"Invalid group id: {name}") from error


def make_rows(records: Iterable[JobRecord], selectors: list[JobSelector], by_task: bool) -> Iterator[RecordRow]:
    """A line per job and per step; with named steps (`-j 12.batch`) those steps alone."""
    for record in records:
        asked = [s for s in selectors if s.job_id in (record.job_id, record.array_job_id, record.het_job_id)]
        asked = [s for s in asked if s.het_offset in (None, record.het_offset)]
        step_ids = {s.step_id for s in asked} - {None}
        if len(step_ids) == 0 or any(s.step_id is None for s in asked):
            yield from _job_rows(record, by_task)
            step_ids = set()
        for step in record.steps:
            if not step_ids or step.step_id in step_ids:
                yield RecordRow(record, step)


def _job_rows(record: JobRecord, by_task: bool) -> Iterator[RecordRow]:
    if not by_task or not record.array_tasks or record.HasField("array_task_id"):
        yield RecordRow(record, None)
        return
    from penstock.values.taskset import TaskSet

    tasks = TaskSet.parse(record.array_tasks)
    if len(tasks) > EXPANDED_ROWS_MAX:
        raise CommandError(f"job {record.job_id} has {len(tasks)} waiting tasks, more than {EXPANDED_ROWS_MAX} lines")
    for task_id in tasks:
        yield RecordRow(record, None, str(task_id))


def _texts(records: Iterable[JobRecord], environment_wanted: bool) -> Iterator[str]:
    """Scripts or environments, one after the other."""
    for record in records:
        name = RecordRow(record, None).id_text()
        if environment_wanted:
            text = "\n".join(_shown(entry) for entry in record.environment)
            yield f"Environment used for {name} (must be batch to display)\n{RULE}\n{text or 'NONE'}"
        else:
            yield f"Batch Script for {name}\n{RULE}\n{_shown(record.script) or 'NONE'}"


def _shown(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    main()
