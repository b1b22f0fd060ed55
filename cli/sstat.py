"""sstat: prints the current usage of running steps. The controller lists the steps and their nodes; the figures come
directly from the steps' supervisors on their nodes, so frequent calls do not load the controller. A job without a step
number selects its first step of srun, else its script, as in Slurm; -a all of them. Figures are as of the node's last
sample (JobAcctGatherFrequency).
"""

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cli.base.format import TableColumn, TableStyle, parse_table, table_lines
from cli.base.jobids import wire_id
from cli.base.listing import emit, words
from cli.base.nodeanswer import ids
from cli.base.options import VALUES, YES, Command, Option, parse
from cli.base.run import CommandError, complain, run
from cli.base.stepids import attach, default_step, is_live, list_steps, names_step, step_text
from cli.listings.helplists import name_lines
from cli.listings.stepusage import FIELDS, K, Sizes, StepUsage, merged
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.steps_pb2 import StepInfo
from penstock.values.errors import BadValue
from penstock.values.jobid import EXTERN_STEP, JobSelector, parse_selector

NAME = "sstat"
FORMAT = (
    "jobid,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,"
    "maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,avecpufreq,reqcpufreqmin,reqcpufreqmax,"
    "reqcpufreqgov,consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,"
    "maxdiskwritenode,maxdiskwritetask,avediskwrite,tresusageinave,tresusageinmax,tresusageinmaxnode,"
    "tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,tresusageoutave,"
    "tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutmin,tresusageoutminnode,tresusageoutmintask,"
    "tresusageouttot"
)
FORMAT_PIDS = "jobid,nodelist,pids"
COMMAND = Command(
    NAME,
    "[<OPTION>] -j <job(.stepid)>",
    (
        Option("allsteps", "a", help="all steps of the given jobs"),
        Option("format", "o", YES, "SSTAT_FORMAT", "comma separated list of fields, name%width", "fields"),
        Option("fields", "", YES, dest="format"),
        Option("helpformat", "e", help="list the fields for --format"),
        Option("jobs", "j", YES, help="jobs or steps to show", metavar="job(.step)"),
        Option("noheader", "n", help="no header"),
        Option("noconvert", help="do not convert units"),
        Option("parsable", "p", help="output is '|' delimited with a '|' at the end"),
        Option("parsable2", "P", help="output is '|' delimited without a '|' at the end"),
        Option("pidformat", "i", help=f"process ids by node, equivalent to --format={FORMAT_PIDS}"),
        Option("verbose", "v", help="verbosity level", counted=True),
    ),
    shape=VALUES,
    usage="[options] -j <job(.stepid)>\n\tUse --help for help",
    hints=False,
)


class StepRowShown(NamedTuple):
    """A line: a step, or one of its nodes with its processes."""

    step: StepInfo
    usage: StepUsage
    node: str = ""
    pids: tuple[int, ...] = ()


def cpu_text(used_ms: int) -> str:
    """`00:01.234`, `01:02:03`, `1-02:03:04`: below an hour with milliseconds."""
    seconds = used_ms // 1000
    if seconds < 3600:
        return f"{seconds // 60:02d}:{seconds % 60:02d}.{used_ms % 1000:03d}"
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


_Value = Callable[[StepRowShown, Sizes], str]


def _cpu(least: bool) -> _Value:
    def show(row: StepRowShown, sizes: Sizes) -> str:
        metric = row.usage.metrics.get(K.CPU_MS)
        return "" if metric is None else cpu_text(metric.min if least else row.usage.average(K.CPU_MS))

    return show


def _sampled(name: str) -> _Value:
    return lambda row, sizes: FIELDS[name](row.usage, sizes)


_VALUES: dict[str, _Value] = {
    "JobID": lambda r, s: step_text(r.step),
    "NTasks": lambda r, s: str(r.step.tasks),
    "Nodelist": lambda r, s: r.node or r.step.node_list,
    "Pids": lambda r, s: ",".join(map(str, r.pids)),
    "AveCPU": _cpu(least=False),
    "MinCPU": _cpu(least=True),
    "AveCPUFreq": lambda r, s: "0",
    "ReqCPUFreq": lambda r, s: "0",
    "ReqCPUFreqMin": lambda r, s: "Unknown",
    "ReqCPUFreqMax": lambda r, s: "Unknown",
    "ReqCPUFreqGov": lambda r, s: "Unknown",
    "ConsumedEnergy": lambda r, s: FIELDS["ConsumedEnergy"](r.usage, s) or "0",
    "ConsumedEnergyRaw": lambda r, s: FIELDS["ConsumedEnergyRaw"](r.usage, s) or "0",
}
_WIDTHS = """
AveCPU 10|AveCPUFreq 10|AveDiskRead 12|AveDiskWrite 12|AvePages 10|AveRSS 10|AveVMSize 10|ConsumedEnergy 14
ConsumedEnergyRaw 17|JobID -12|MaxDiskRead 12|MaxDiskReadNode 15|MaxDiskReadTask 15|MaxDiskWrite 12|MaxDiskWriteNode 16
MaxDiskWriteTask 16|MaxPages 8|MaxPagesNode 12|MaxPagesTask 14|MaxRSS 10|MaxRSSNode 10|MaxRSSTask 10|MaxVMSize 10
MaxVMSizeNode 14|MaxVMSizeTask 14|MinCPU 10|MinCPUNode 10|MinCPUTask 10|Nodelist 20|NTasks 8|Pids 20|ReqCPUFreq 10
ReqCPUFreqMin 13|ReqCPUFreqMax 13|ReqCPUFreqGov 13|TRESUsageInAve 14|TRESUsageInMax 14|TRESUsageInMaxNode 18
TRESUsageInMaxTask 18|TRESUsageInMin 14|TRESUsageInMinNode 18|TRESUsageInMinTask 18|TRESUsageInTot 14
TRESUsageOutAve 15|TRESUsageOutMax 15|TRESUsageOutMaxNode 19|TRESUsageOutMaxTask 19|TRESUsageOutMin 15
TRESUsageOutMinNode 19|TRESUsageOutMinTask 19|TRESUsageOutTot 15
"""


def _columns() -> tuple[TableColumn[StepRowShown, Sizes], ...]:
    pairs = (item.split() for line in _WIDTHS.split("\n") for item in line.split("|") if item)
    return tuple(TableColumn(name, int(width), _VALUES.get(name) or _sampled(name)) for name, width in pairs)


COLUMNS = _columns()


def main() -> None:
    """The command sstat."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Runs sstat once."""
    line = parse(COMMAND, argv, os.environ)
    options = line.values
    if options.flag("helpformat"):
        emit(name_lines(column.name for column in COLUMNS))
        return 0
    text = FORMAT_PIDS if options.flag("pidformat") else options.text("format", FORMAT)
    columns, unknown = parse_table(text, COLUMNS)
    if unknown:
        raise CommandError(f'Invalid field requested: "{unknown[0].what}"')
    named = words(options.text("jobs")) + [part for word in line.positional for part in words(word)]
    if not named:
        raise CommandError("You didn't give me any jobs to stat.")
    wants_pids = any(column.name == "Pids" for column in columns)
    with Client.open() as client:
        steps, missing = find_steps(client, named, options.flag("allsteps"))
        for selector in missing:
            complain(NAME, _not_found(client, selector))
        rows = [row for step in steps for row in rows_of(client, step, wants_pids)]
    delimiter = "|" if options.flag("parsable") or options.flag("parsable2") else ""
    style = TableStyle(delimiter, options.flag("parsable"), not options.flag("noheader"))
    emit(table_lines(columns, rows, Sizes("", not options.flag("noconvert")), style))
    return 0


def _not_found(client: Client, selector: JobSelector) -> str:
    """What Slurm says of a job or step without a live step; its exit status is 0."""
    job = wire_id(dataclasses.replace(selector, step_id=None))
    if selector.step_id is None:
        return f"No steps running for job {job}"
    if any(is_live(step) for step in list_steps(client, [dataclasses.replace(selector, step_id=None)])):
        return f"StepId={wire_id(selector)} not found running."
    return f"couldn't get steps for job {job}"


def _selector(text: str) -> JobSelector:
    try:
        return parse_selector(text)
    except BadValue as error:
        raise CommandError(f"Bad job/step specified: {text[:80]}", detail=str(error), level="fatal") from error


def find_steps(client: Client, named: list[str], all_steps: bool) -> tuple[list[StepInfo], list[JobSelector]]:
    """The selected live steps, in the order of the ids, and the selectors of none."""
    selectors = [_selector(name) for name in named]
    known = [step for step in list_steps(client, selectors) if is_live(step)]
    steps: list[StepInfo] = []
    missing = []
    for selector in selectors:
        found = [step for step in known if names_step(selector, step)]
        if selector.step_id is None and not all_steps:
            by_job: dict[int, list[StepInfo]] = {}
            for step in found:
                by_job.setdefault(step.job_id, []).append(step)
            found = [one for each in by_job.values() if (one := default_step(each)) is not None]
        elif selector.step_id is None:
            found = [step for step in found if step.step_id != EXTERN_STEP]
        steps += [step for step in found if step not in steps]
        missing += [] if found else [selector]
    return steps, missing


def rows_of(client: Client, step: StepInfo, wants_pids: bool) -> Iterator[StepRowShown]:
    """A step's line, or with Pids a line for each of its nodes."""
    from cli.steps.stepquery import ask

    try:
        attached = attach(client, step.job_id, step.step_id)
    except PenstockError as error:
        complain(NAME, f"{step_text(step)}: {error.text}")
        return
    answers = ask(client.cluster, attached, "pids" if wants_pids else "usage")
    for node, reason in answers.missing.items():
        complain(NAME, f"{step_text(step)}: node {node} does not answer: {reason}")
    if not wants_pids:
        yield StepRowShown(step, merged(answers.found))
        return
    for node in sorted(answers.found, key=list(attached.plan.nodes).index if attached.plan.nodes else str):
        yield StepRowShown(step, StepUsage({}, 0), node, tuple(sorted(ids(answers.found[node].get("pids")))))


if __name__ == "__main__":
    main()
