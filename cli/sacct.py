"""sacct: the jobs that were, from the accounting records.

One call (ListRecords), one table. What is asked for is sacct_query.py's, how a field looks sacct_fields.py's. With -c the
jobs that have ended are shown as a job completion log has them; with -f such a log of Slurm's is read (jobcomp.py).
"""

from collections.abc import Iterable, Iterator
from typing import Any

from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.format import Clock, TableColumn, TableStyle, parse_table, table_lines
from cli.listing import check_clusters, emit, environment, now_us, pages, words
from cli.options import ACCEPTED, MAYBE, YES, Command, Option, parse
from cli.run import CommandError, complain, run
from cli.sacct_fields import COLUMNS, Numbers, RecordRow, RecordView
from cli.sacct_query import build_query, fatal, window_text
from penstock.client import Client
from penstock.v1.accounting_pb2 import JobRecord
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector

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
#: Fields by the names that they had before Slurm 23.02.
OLD_NAMES = {"reserved": "Planned", "resvcpu": "PlannedCPU", "resvcpuraw": "PlannedCPURAW"}
UNITS = "KMGTP"
RULE = "-" * 80
#: With --array a line per waiting task.
EXPANDED_ROWS_MAX = 1_000_000
#: For a whole answer, which is read and sent in pages: 100,000 records take ten seconds and more.
ANSWER_LIMIT_S = 600.0

#: Of -c: the format, and those with -l and -b.
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
        Option("completion", "c", help="jobs that have ended, as a job completion log has them"),
        Option(
            "file", "f", YES, help="read a job completion file (jobcomp/filetxt) instead; implies -c", metavar="file"
        ),
        Option(
            "flags",
            "F",
            YES,
            convert=_sched_flags,
            standing=ACCEPTED,
            note="one planner starts jobs at once and past others, so no record says which kind of pass it was",
        ),
    ),
)


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
    if options.get("file"):
        options["completion"] = True
    _check(options, given)
    columns = _columns(options, given)
    clock = Clock.of_environment(now_us())
    query = build_query(options, clock)
    if options.get("verbose"):
        complain("sacct", window_text(query, clock), plain=True)
    if options.get("file"):
        from cli.jobcomp import read

        records, cluster, numbers = read(options["file"], query.request, clock.now_us), "", Numbers()
    else:
        with Client.open() as client:
            cluster = client.cluster.cluster_name
            check_clusters(options.get("clusters"), cluster)
            records = [] if query.nothing else pages(client, "ListRecords", query.request, "records", ANSWER_LIMIT_S)
            numbers = _load_numbers(client, records, columns, is_wanted(options))
    records = [record for record in records if all(keep(record) for keep in query.keep)]
    if "batch_script" in options or "env_vars" in options:
        emit(list(_texts(records, environment_wanted="env_vars" in options)))
        return 0
    if is_wanted(options):
        from cli.document import write_document
        from cli.jsonacct import records_document

        write_document(records_document(records, cluster, clock.now_us, numbers.assoc_ids), options)
        return 0
    view = RecordView(clock, options.get("units", ""), not options.get("noconvert"), cluster, numbers)
    rows = make_rows(records, query.selectors, bool(options.get("array")))
    if options.get("allocations") or options.get("completion"):
        rows = (row for row in rows if row.step is None)
    emit(table_lines(columns, rows, view, _style(options)))
    return 0


def _load_numbers(client: Client, records: list[JobRecord], columns: list[TableColumn], everything: bool) -> Numbers:
    """The numbers of associations, QOS and wckeys, as far as a column shows them."""
    shown = {column.name for column in columns}
    found = Numbers()
    if records and (everything or "AssocID" in shown) and not all(record.assoc_id for record in records):
        from cli.tree import load_associations

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


def _check(options: dict[str, Any], given: dict[str, Any]) -> None:
    """What contradicts itself."""
    if "format" in given and options.get("long"):
        raise fatal("Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.")
    if "batch_script" in options and "env_vars" in options:
        raise fatal("Options --batch-script and --env-vars are mutually exclusive")
    for key, what in (("batch_script", "job script"), ("env_vars", "job environment")):
        if key in options and not options.get("jobs"):
            raise fatal(f"When requesting {what} you must also request specific jobs with the '-j' option.")
    unit = options.get("units", "K")
    if len(unit) != 1 or unit.upper() not in UNITS:
        raise fatal(f"Invalid unit type '{unit}': one of {', '.join(UNITS)}")
    if "units" in options:
        options["units"] = unit.upper()
    whole = options.get("whole_hetjob", "yes")
    if isinstance(whole, str) and whole.lower() not in ("yes", "no"):
        raise fatal(f'Invalid --whole-hetjob value "{whole}". Valid values: [yes|no].')


def field_list() -> list[str]:
    """The names of all fields, four on a line."""
    names = [f"{column.name:<19}" for column in COLUMNS]
    return [" ".join(names[at : at + 4]) for at in range(0, len(names), 4)]


def _columns(options: dict[str, Any], given: dict[str, Any]) -> list[TableColumn]:
    if "format" in given:
        text = given["format"]
    elif options.get("completion"):
        text = FORMATS_OF_COMPLETION["long" if options.get("long") else "brief" if options.get("brief") else ""]
    elif options.get("long"):
        text = FORMAT_LONG
    else:
        text = FORMAT_BRIEF if options.get("brief") else options.get("format", FORMAT)
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


def _style(options: dict[str, Any]) -> TableStyle:
    parsable = options.get("parsable") or options.get("parsable2")
    delimiter = options.get("delimiter", "|") if parsable else ""
    return TableStyle(delimiter, bool(options.get("parsable")), not options.get("noheader"))


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
