"""sprio: lists the components of each pending job's priority.

One call (ListPriorities); a line for each partition that a job may run in, as in Slurm. Without -o or -l the table has
the columns of the factors with a weight.
"""

import re
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from cli.base.clusters import open_one
from cli.base.document import DOCUMENT_OPTIONS, is_wanted
from cli.base.format import FormatField, body_line, clipped_tasks, header_line, parse_percent
from cli.base.jobids import selector_text
from cli.base.listing import FORMAT_OR_LONG, NOT_MULTIFACTOR, ListingKey, emit, environment, find_user, sort_rows, words
from cli.base.options import MAYBE, YES, Command, Option, OptionValues, parse
from cli.base.run import CommandError, complain, run
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import JobFilter
from penstock.v1.shares_pb2 import JobPriority, ListPrioritiesRequest, PriorityWeights
from penstock.values.errors import BadValue
from penstock.values.jobid import parse_selectors

FORMAT_LONG = "%.15i %9r %.8u %.8o %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10n %.10Q %.11N %.20T"
FORMAT_START = "%.15i %9r %.10Y %.10S"
#: Further factors that are shown when they have a weight: the field of the weights, weighted and as a fraction of 1.
BY_WEIGHT = (
    ("age", "%.10A", "%.10a"), ("assoc", "%.10B", "%.10b"), ("fair_share", "%.10F", "%.10f"),
    ("job_size", "%.10J", "%.10j"), ("partition", "%.10P", "%.10p"), ("qos", "%.10Q", "%.10q"),
    ("tres", "%20T", "%20t"),
)  # fmt: skip
#: The letters of factors as a fraction of 1.
_PARTS = re.compile(r"%\.?[0-9]*[abfjpqt]")
PRIORITY_SCALE = 2**32 - 1
NOTHING_FOUND = "Unable to find jobs matching user/id(s) specified"

COMMAND = Command(
    "sprio",
    "[OPTIONS]",
    (
        Option("noheader", "h", help="no headers on output"),
        Option("jobs", "j", MAYBE, help="comma separated list of jobs to view", metavar="jobid(s)", const=""),
        Option("long", "l", help="long report, with every factor"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "cluster to issue commands to", "name"),
        Option("cluster", "", YES, dest="clusters"),
        Option("norm", "n", help="factors as fractions of 1, without their weights"),
        Option("format", "o", YES, "SPRIO_FORMAT", "format specification", "format"),
        Option("partition", "p", YES, help="comma separated list of partitions to view", metavar="partition"),
        Option("sort", "S", YES, help="comma separated list of fields to sort on", metavar="fields"),
        Option("user", "u", YES, help="comma separated list of users to view", metavar="user_name(s)"),
        Option("users", "", YES, dest="user"),
        Option("verbose", "v", help="verbosity level", counted=True),
        Option("helpformat", help="list the letters of --format"),
        Option("weights", "w", help="show the weights of the factors"),
        Option("local", env="SPRIO_LOCAL", help="jobs of the local cluster only (the default)"),
        Option("federation", env="SPRIO_FEDERATION", help="the same, as no cluster is a member of one"),
        Option("sibling", env="SPRIO_SIBLING", help="the same, with the cluster's name"),
        *DOCUMENT_OPTIONS,
    ),
    usage="[-j jid[s]] [-u user_name[s]] [-o format] [-p partitions]\n"
    "   [--federation] [--local] [--sibling] [--usage] [-hlnvVw]",
)


class PriorityView(NamedTuple):
    """The further inputs of a column."""

    weights: PriorityWeights
    cluster: str


#: A line: a job, or None for the weights.
_Row = JobPriority | None
_Value = Callable[[JobPriority, PriorityView], str]
_Field = FormatField[_Row, PriorityView]


def job_id(job: JobPriority) -> str:
    """12, 12_4 or 12_[5-99]."""
    if job.HasField("array_task_id"):
        return f"{job.array_job_id}_{job.array_task_id}"
    if job.array_tasks:
        return f"{job.array_job_id or job.job_id}_[{clipped_tasks(job.array_tasks)}]"
    return str(job.job_id)


def _field(header: str, value: _Value, weight: Callable[[PriorityView], str] = lambda view: "") -> _Field:
    return FormatField(header, lambda row, view: weight(view) if row is None else value(row, view))


def _number(header: str, name: str, weight: str = "") -> _Field:
    shown = (lambda view: str(getattr(view.weights, weight))) if weight else (lambda view: "")
    return _field(header, lambda job, view: str(getattr(job, name)), shown)


def _part(header: str, name: str) -> _Field:
    return _field(
        header,
        lambda job, view: f"{getattr(job.normalized, name):.7f}",
        lambda view: str(getattr(view.weights, name)),
    )


def _tres(job: JobPriority, view: PriorityView) -> str:
    return ",".join(f"{name}={points}" for name, points in zip(view.weights.tres, job.tres, strict=False))


def _tres_parts(job: JobPriority, view: PriorityView) -> str:
    return ",".join(f"{n}={part:.2f}" for n, part in zip(view.weights.tres, job.normalized.tres, strict=False))


def _tres_weights(view: PriorityView) -> str:
    pairs = zip(view.weights.tres, view.weights.tres_weights, strict=True)
    return ",".join(f"{name}={weight:g}" for name, weight in pairs)


LETTERS: dict[str, _Field] = {
    "a": _part("AGE", "age"),
    "A": _number("AGE", "age", "age"),
    "b": _part("ASSOC", "assoc"),
    "B": _number("ASSOC", "assoc", "assoc"),
    "c": _field("CLUSTER", lambda job, view: view.cluster, lambda view: view.cluster),
    "f": _part("FAIRSHARE", "fair_share"),
    "F": _number("FAIRSHARE", "fair_share", "fair_share"),
    "i": _field("JOBID", lambda job, view: job_id(job), lambda view: "Weights"),
    "j": _part("JOBSIZE", "job_size"),
    "J": _number("JOBSIZE", "job_size", "job_size"),
    "n": _field("QOSNAME", lambda job, view: job.qos),
    "N": _number("NICE", "nice"),
    "o": _field("ACCOUNT", lambda job, view: job.account),
    "p": _part("PARTITION", "partition"),
    "P": _number("PARTITION", "partition_factor", "partition"),
    "q": _part("QOS", "qos"),
    "Q": _number("QOS", "qos_factor", "qos"),
    "r": _field("PARTITION", lambda job, view: job.partition),
    "S": _field("SITE", lambda job, view: str(job.site), lambda view: "1"),
    "t": _field("TRES", _tres_parts, _tres_weights),
    "T": _field("TRES", _tres, _tres_weights),
    "u": _field("USER", lambda job, view: job.user_name),
    "y": _field("PRIORITY", lambda job, view: f"{job.priority / PRIORITY_SCALE:.14f}"),
    "Y": _number("PRIORITY", "priority"),
}

_SORT: dict[str, ListingKey[JobPriority, PriorityView]] = {
    "a": lambda job, view: job.age,
    "b": lambda job, view: job.assoc,
    "c": lambda job, view: "",
    "f": lambda job, view: job.fair_share,
    "i": lambda job, view: (job.array_job_id or job.job_id, job.array_task_id, job.job_id),
    "j": lambda job, view: job.job_size,
    "n": lambda job, view: job.qos,
    "N": lambda job, view: job.nice,
    "o": lambda job, view: job.account,
    "p": lambda job, view: job.partition_factor,
    "q": lambda job, view: job.qos_factor,
    "r": lambda job, view: job.partition,
    "s": lambda job, view: job.site,
    "t": lambda job, view: sum(job.tres),
    "u": lambda job, view: job.user_name,
    "y": lambda job, view: job.priority,
}


def main() -> None:
    """The command sprio."""
    run("sprio", body)


def body(argv: list[str]) -> int:
    """Runs sprio once."""
    parsed = parse(COMMAND, argv, environment())
    options, rest = parsed.values, list(parsed.positional)
    if options.get("jobs") == "" and rest:  # `-j 12`
        options["jobs"] = rest.pop(0)
    if rest:
        raise CommandError(f"Unrecognized option: {rest[0]}")
    if options.flag("helpformat"):
        from cli.listings.helplists import letter_lines

        emit(letter_lines(sorted(LETTERS)))
        return 0
    if options.flag("long") and "format" in parse(COMMAND, argv).values:
        raise CommandError(f"sprio: fatal: {FORMAT_OR_LONG}", plain=True)
    filter_, matches_none = _filter(options)
    request = ListPrioritiesRequest(filter=filter_, normalized=_wants_parts(options))
    heading = bool(words(options.text("clusters")))
    with open_one("sprio", options.text("clusters")) as client:
        found, weights = _load(client, request)
        if options.flag("verbose") and not is_wanted(options):
            from cli.listings.verbose import RULE, sprio_options

            emit([RULE, *sprio_options(options), RULE, "", ""])
        if not weights.multifactor:
            complain("sprio", NOT_MULTIFACTOR, plain=True)
            return 1
        view = PriorityView(weights, client.cluster.cluster_name)
    jobs = [] if matches_none else found
    if is_wanted(options):
        from cli.base.document import document, message_object, write_document

        write_document(document("jobs", [message_object(job) for job in jobs], view.cluster), options)
        return 0
    if not jobs and not options.flag("weights") and (matches_none or filter_.users or filter_.ids):
        emit([NOTHING_FOUND])
        return 0
    _print(jobs, options, view, heading)
    return 0


def _load(client: Client, request: ListPrioritiesRequest) -> tuple[list[JobPriority], PriorityWeights]:
    """All pages, and the weights of the first."""
    jobs: list[JobPriority] = []
    weights = PriorityWeights()
    try:
        for page in client.stream("ListPriorities", request):
            if page.HasField("weights"):
                weights = page.weights
            jobs += page.jobs
    except PenstockError as error:
        from penstock.values.refusals import Code

        if error.code != Code.INVALID_JOB_ID:
            raise
        weights.multifactor = True  # no such job, with any priority plug-in
    return jobs, weights


def _filter(options: OptionValues) -> tuple[JobFilter, bool]:
    """The filters of the request, and whether none of the named users exists."""
    try:
        selectors = parse_selectors(",".join(words(options.text("jobs")))) if words(options.text("jobs")) else []
    except BadValue as error:
        raise CommandError(f"Invalid job id: {options.text('jobs')}") from error
    ids = [f"{s.job_id}_[{s.tasks.format()}]" if s.tasks is not None else selector_text(s) for s in selectors]
    named = words(options.text("user"))
    users = []
    for name in named:
        uid = find_user(name)
        if uid is None:
            complain("sprio", f"Invalid user: {name}")
        else:
            users.append(uid)
    return JobFilter(ids=ids, users=users, partitions=words(options.text("partition"))), bool(named) and not users


def _wants_parts(options: OptionValues) -> bool:
    return options.flag("norm") or _PARTS.search(options.text("format")) is not None


def format_text(options: OptionValues, weights: PriorityWeights) -> str:
    """The format: of -l, of -o, or of the factors with a weight."""
    if options.flag("long"):
        return FORMAT_LONG
    if options.text("format"):
        return options.text("format")
    normal = options.flag("norm")
    start = FORMAT_START.replace("%.10Y", "%.16y") if normal else FORMAT_START
    more = (" %.8c" if options.flag("sibling") else "") + (" %.8u" if options.text("user") else "")
    start = start.replace("%9r", f"%9r{more}")
    return " ".join([start, *(part[2 if normal else 1] for part in BY_WEIGHT if getattr(weights, part[0]))])


def _print(jobs: list[JobPriority], options: OptionValues, view: PriorityView, heading: bool) -> None:
    columns, unknown = parse_percent(format_text(options, view.weights), LETTERS)
    for part in unknown:
        raise CommandError(f"Invalid job format specification: {part.what}")
    lines = [f"CLUSTER: {view.cluster}"] if heading else []
    if not options.flag("noheader"):
        lines.append(header_line(columns).rstrip())
    if options.flag("weights"):
        emit([*lines, body_line(columns, None, view).rstrip()])
        return
    try:
        sort_rows(
            jobs, options.text("sort") or "i,r", lambda letter: _SORT.get(letter) or _SORT.get(letter.lower()), view
        )
    except CommandError:
        emit(lines)
        raise
    emit(chain(lines, (body_line(columns, job, view).rstrip() for job in jobs)))


if __name__ == "__main__":
    main()
