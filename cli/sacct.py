"""sacct: lists jobs from the accounting records.

One call (ListRecords), one table. listings/sacct_query.py builds the query, listings/sacct_fields.py the fields. With
-c ended jobs are shown as in a job completion log; with -f such a log of Slurm's is read (listings/jobcomp.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from cli.base.clusters import ALL, collect, named_clusters
from cli.base.document import DOCUMENT_OPTIONS, Json, is_wanted
from cli.base.format import DisplayClock, TableColumn, TableStyle, parse_table, table_lines
from cli.base.listing import FORMAT_OR_LONG, emit, environment, list_records, now_us, words
from cli.base.options import ACCEPTED, MAYBE, VALUES, YES, Command, Option, OptionValues, parse
from cli.base.output import verbatim
from cli.base.run import CommandError, complain, run
from cli.listings.helplists import name_lines
from cli.listings.sacct_fields import COLUMNS, JobNumbers, RecordRow, RecordView
from cli.listings.sacct_query import RecordQuery, build_query, fatal, window_text
from penstock.client import Client
from penstock.v1.accounting_pb2 import JobRecord
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector
from penstock.values.states import COMPACT_STATE, Reason

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
#: Fields by their names before Slurm 23.02.
OLD_NAMES = {"reserved": "Planned", "resvcpu": "PlannedCPU", "resvcpuraw": "PlannedCPURAW"}
UNITS = "KMGTP"
RULE = "-" * 80
#: With --array a line per waiting task.
EXPANDED_ROWS_MAX = 1_000_000
#: The timeout of a whole answer, which is read and sent in pages: 100,000 records take ten seconds and more.
ANSWER_LIMIT_S = 600.0

#: The formats of -c: the default, and those with -l and -b.
FORMATS_OF_COMPLETION = {
    "": "jobid,uid,jobname,partition,nnodes,nodelist,state,end",
    "long": "jobid,uid,jobname,partition,nnodes,nodelist,state,start,end,timelimit",
    "brief": "jobid,uid,state",
}
SCHED_FLAGS = ("schedsubmit", "schedmain", "schedbackfill")


def _sched_flags(text: str) -> str:
    """The words of -F."""
    wrong = [word for word in words(text) if word.lower() not in SCHED_FLAGS]
    if wrong or not words(text):
        raise BadValue("write SchedSubmit, SchedMain or SchedBackfill")
    return text


FOOTER = """\
  Note, valid start/end time formats are...
       HH:MM[:SS] [AM|PM]
       MMDD[YY][-HH:MM[:SS]]
       MM.DD[.YY][-HH:MM[:SS]]
       MM/DD[/YY][-HH:MM[:SS]]
       YYYY-MM-DD[THH:MM[:SS]]
       now[{+|-}count[seconds(default)|minutes|hours|days|weeks]]"""

COMMAND = Command(
    "sacct",
    "[<OPTION>]",
    (
        Option("accounts", "A", YES, help="jobs of these accounts", metavar="account_list"),
        Option("account", "", YES, dest="accounts"),
        Option("allclusters", "L", help="jobs of all clusters"),
        Option("allocations", "X", help="jobs only, without their steps"),
        Option("allusers", "a", help="all users' jobs"),
        Option("array", help="array tasks that wait on separate lines"),
        Option("batch-script", "B", help="print the batch script of the job"),
        Option("brief", "b", help=f"equivalent to --format={FORMAT_BRIEF}"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "jobs of these clusters, or all", "cluster_list"),
        Option("constraints", "C", YES, help="jobs that requested all of these features", metavar="list"),
        Option("delimiter", value=YES, help="the separator of fields with -p or -P", metavar="characters"),
        Option("duplicates", "D", help="also the earlier attempts of requeued jobs"),
        Option("endtime", "E", YES, help="jobs before this time", metavar="time"),
        Option("env-vars", help="print the environment of the job"),
        Option("expand-patterns", help="show file names with their patterns expanded (the default)"),
        Option("federation", env="SACCT_FEDERATION", help="the same as --local: no cluster is a member of one"),
        Option("format", "o", YES, "SACCT_FORMAT", "comma separated list of fields, name%width", "fields"),
        Option("fields", "", YES, dest="format"),
        Option("group", "g", YES, help="jobs of these groups", metavar="gid_or_group_list"),
        Option("gid", "", YES, dest="group"),
        Option("helpformat", "e", help="list the fields for --format"),
        Option("help-fields", dest="helpformat"),
        Option("helpreason", help="list the reasons of --reason"),
        Option("helpstate", help="list the states of --state"),
        Option("jobs", "j", YES, help="jobs or steps to show", metavar="job(.step)", joined=True),
        *DOCUMENT_OPTIONS,
        Option("local", env="SACCT_LOCAL", help="the local cluster only (the default)"),
        Option("long", "l", help="many fields"),
        Option("name", value=YES, help="jobs with these names", metavar="jobname_list"),
        Option("ncpus", "I", YES, help="jobs that ran on this number of CPUs", metavar="min[-max]"),
        Option("nnodes", "i", YES, help="jobs that ran on this number of nodes", metavar="min[-max]"),
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
        Option("completion", "c", help="jobs that have ended, as a job completion log has them"),
        Option(
            "file", "f", YES, help="read a job completion file (jobcomp/filetxt) instead; implies -c", metavar="file"
        ),
        Option(
            "flags",
            "F",
            YES,
            convert=_sched_flags,
            status=ACCEPTED,
            note="one planner starts jobs at once and past others, so no record says which kind of pass it was",
        ),
    ),
    footer=FOOTER,
    shape=VALUES,
    usage="[options]\n\tUse --help for help",
    hints=False,
)


def main() -> None:
    """The command sacct."""
    run("sacct", body)


def body(argv: list[str]) -> int:
    """Runs sacct once. Other arguments are ignored, as by Slurm."""
    line = parse(COMMAND, argv, environment())
    options = line.values
    if helped := _help_lines(options):
        emit(helped)
        return 0
    if line.positional:
        raise CommandError("\n".join(["Unknown arguments:", *(f" {word}" for word in line.positional)]))
    given = parse(COMMAND, argv).values
    if options.text("file"):
        options["completion"] = True
    _check(options, given)
    columns = _columns(options, given)
    clock = DisplayClock.of_environment(now_us())
    query = build_query(options, clock)
    if options.flag("verbose"):
        complain("sacct", window_text(query, clock), plain=True)
    found, status = _load(query, columns, options, clock)
    if not found:
        return status
    _print(found, query, columns, options, clock)
    return status


_Columns = list[TableColumn[RecordRow, RecordView]]


class ClusterRecords(NamedTuple):
    """The records of one cluster."""

    records: list[JobRecord]
    cluster: str
    numbers: JobNumbers


def _load(
    query: RecordQuery, columns: _Columns, options: OptionValues, clock: DisplayClock
) -> tuple[list[ClusterRecords], int]:
    """Loads the records of the file or of each named cluster; with the exit status."""
    if options.text("file"):
        from cli.listings.jobcomp import read

        records = read(options.text("file"), query.request, clock.now_us)
        return [ClusterRecords(_kept(records, query), "", JobNumbers())], 0

    def load(client: Client) -> ClusterRecords:
        if named := words(options.text("qos")):
            _check_qos(client, named)
        records = [] if query.nothing else list_records(client, query.request, ANSWER_LIMIT_S)
        numbers = _load_numbers(client, records, columns, is_wanted(options))
        return ClusterRecords(_kept(records, query), client.cluster.cluster_name, numbers)

    with Client.open() as client:
        text = ALL if options.flag("allclusters") else options.text("clusters")
        clusters = named_clusters("sacct", text, client.cluster, client)
        if clusters == [client.cluster]:
            return [load(client)], 0
        return collect("sacct", clusters, load, client)


def _kept(records: list[JobRecord], query: RecordQuery) -> list[JobRecord]:
    """Those that the options ask for; tasks of an array in their order, however they got their ids."""
    kept = [record for record in records if all(keep(record) for keep in query.keep)]
    return sorted(kept, key=_place)


def _place(record: JobRecord) -> tuple[int, int]:
    return (record.array_job_id or record.job_id, record.array_task_id if record.HasField("array_task_id") else -1)


def _print(
    found: list[ClusterRecords], query: RecordQuery, columns: _Columns, options: OptionValues,
    clock: DisplayClock,
) -> None:  # fmt: skip
    """Prints the records of all clusters as one table or document."""
    if "batch_script" in options or "env_vars" in options:
        for one in found:
            for text in _texts(one.records, environment_wanted="env_vars" in options):
                verbatim(f"{text}\n")
        return
    if is_wanted(options):
        from cli.base.document import write_document
        from cli.listings.jsonacct import records_document

        made = [records_document(one.records, one.cluster, clock.now_us, one.numbers.assoc_ids) for one in found]
        made[0]["jobs"] = [job for document in made for job in cast("list[Json]", document["jobs"])]
        write_document(made[0], options)
        return
    style = _style(options)
    for one in found:
        view = RecordView(clock, options.text("units"), not options.flag("noconvert"), one.cluster, one.numbers)
        rows = make_rows(one.records, query.selectors, options.flag("array"))
        if options.flag("allocations") or options.flag("completion"):
            rows = (row for row in rows if row.step is None)
        emit(table_lines(columns, rows, view, style))
        style = style._replace(header=False)


def _load_numbers(client: Client, records: list[JobRecord], columns: _Columns, everything: bool) -> JobNumbers:
    """The numbers of associations, QOS and wckeys, if a column shows them."""
    shown = {column.name for column in columns}
    found = JobNumbers()
    if records and (everything or "AssocID" in shown) and not all(record.assoc_id for record in records):
        from cli.base.account_tree import load_associations

        assocs = load_associations(client).associations
        found = found._replace(assoc_ids={(one.account, one.user): one.id for one in assocs if not one.partition})
    if records and "QOSRAW" in shown:
        from penstock.v1.controller_pb2 import ListQosRequest

        found = found._replace(qos_ids={one.name: one.id for one in client.call("ListQos", ListQosRequest()).qos})
    if records and "WCKeyID" in shown:
        from penstock.v1.governance_pb2 import ListWckeysRequest

        keys = client.call("ListWckeys", ListWckeysRequest(with_deleted=True)).wckeys
        found = found._replace(wckey_ids={(one.name, one.user): one.id for one in keys})
    return found


def _check_qos(client: Client, named: Sequence[str]) -> None:
    """Raises CommandError for a QOS that the cluster does not have."""
    from penstock.v1.controller_pb2 import ListQosRequest

    every = client.call("ListQos", ListQosRequest(with_deleted=True)).qos  # jobs had them
    known = [one.name for one in sorted(every, key=lambda one: one.id)]
    for name in named:
        if name.lower().lstrip("+") not in known:
            text = f"sacct: error: You gave a bad qos '{name}'. Valid QOS's are {','.join(known)}"
            raise CommandError(f"{text}\nsacct: fatal: problem processing qos list", plain=True)


def _check(options: OptionValues, given: OptionValues) -> None:
    """Raises CommandError for options that contradict each other."""
    if "format" in given and options.flag("long"):
        raise fatal(FORMAT_OR_LONG)
    if "batch_script" in options and "env_vars" in options:
        raise fatal("Options --batch-script and --env-vars are mutually exclusive")
    for key, what in (("batch_script", "job script"), ("env_vars", "job environment")):
        if key in options and not options.text("jobs"):
            raise fatal(f"When requesting {what} you must also request specific jobs with the '-j' option.")
    unit = options.text("units", "K")
    if len(unit) != 1 or unit.upper() not in UNITS:
        text = f"sacct: error: Invalid unit type '{unit}'. Possible options are '{''.join(UNITS)}'"
        raise CommandError(f"{text}\nsacct: fatal: Invalid unit type", plain=True)
    if "units" in options:
        options["units"] = unit.upper()
    whole = options.get("whole_hetjob", "yes")
    if isinstance(whole, str) and whole.lower() not in ("yes", "no"):
        raise fatal(f'Invalid --whole-hetjob value "{whole}". Valid values: [yes|no].')


def _help_lines(options: OptionValues) -> list[str]:
    """The lines of --helpformat, --helpreason and --helpstate; none without them."""
    if options.flag("helpformat"):
        return name_lines(column.name for column in COLUMNS)
    if options.flag("helpreason"):
        return sorted(Reason)
    return name_lines(state.name for state in COMPACT_STATE) if options.flag("helpstate") else []


def _columns(options: OptionValues, given: OptionValues) -> _Columns:
    if "format" in given:
        text = given.text("format")
    elif options.flag("completion"):
        text = FORMATS_OF_COMPLETION["long" if options.flag("long") else "brief" if options.flag("brief") else ""]
    elif options.flag("long"):
        text = FORMAT_LONG
    else:
        text = FORMAT_BRIEF if options.flag("brief") else options.text("format", FORMAT)
    if text.strip().upper() == "ALL":
        return list(COLUMNS)
    columns, unknown = parse_table(_renamed(text), COLUMNS)
    if unknown:
        raise CommandError(f'Invalid field requested: "{unknown[0].what}"')
    return columns


def _renamed(text: str) -> str:
    """Names that late releases of Slurm have changed."""
    parts = (part.strip().partition("%") for part in text.split(","))
    return ",".join(OLD_NAMES.get(name.lower(), name) + percent + width for name, percent, width in parts)


def _style(options: OptionValues) -> TableStyle:
    parsable = options.flag("parsable") or options.flag("parsable2")
    delimiter = options.text("delimiter", "|") if parsable else ""
    return TableStyle(delimiter, options.flag("parsable"), not options.flag("noheader"))


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
