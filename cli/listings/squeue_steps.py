"""squeue --steps: a line for each step that has not ended.

One call (ListSteps). The controller filters by job and user; partition, nodes, account and QOS are filtered here.
Letters and names are Slurm's for steps; fields that a step does not have print as in Slurm.
"""

from collections.abc import Callable
from itertools import chain

# Any: a sort key is compared only with keys of its own type
from typing import NamedTuple

from cli.base.format import Column, DisplayClock, FormatField, body_line, header_line, parse_names, parse_percent
from cli.base.listing import ListingKey, date_line, emit, sort_rows, unsorted, words
from cli.base.options import OptionValues
from cli.base.run import complain
from cli.base.stepids import is_live, job_text, list_steps, step_name, step_text
from cli.listings.nodegres import step_tres
from penstock.client import Client
from penstock.v1.steps_pb2 import StepInfo
from penstock.values.duration import format_elapsed
from penstock.values.hostlist import expand
from penstock.values.jobid import JobSelector
from penstock.values.localtime import US
from penstock.values.states import COMPACT_STATE

FORMAT = "%.15i %.8j %.9P %.8u %.9M %N"
SORT = "P,i"
COMPACT = {state.name: word for state, word in COMPACT_STATE.items()}


class StepView(NamedTuple):
    """The further inputs of a column."""

    clock: DisplayClock
    cluster: str = ""


_Value = Callable[[StepInfo, StepView], str]


def used_s(step: StepInfo, view: StepView) -> int:
    """The run time of the step."""
    if not step.start_at_us:
        return 0
    until_us = step.end_at_us if step.end_at_us and not is_live(step) else view.clock.now_us
    return max(until_us - step.start_at_us, 0) // 1_000_000


def time_limit(step: StepInfo) -> str:
    """The step's own limit."""
    return format_elapsed(step.time_limit_s) if step.time_limit_s > 0 else "UNLIMITED"


def gres(step: StepInfo) -> str:
    """The GRES requested on each node."""
    return step_tres(step).get("TresPerNode", "N/A")


def _tres(name: str) -> _Value:
    return lambda s, v: step_tres(s).get(name, "N/A")


def _of(name: str) -> _Value:
    return lambda s, v: str(getattr(s, name))


LETTERS: dict[str, FormatField[StepInfo, StepView]] = {
    "a": FormatField("ACCOUNT", lambda s, v: s.account or "(null)"),
    "b": FormatField("TRES_PER_NODE", lambda s, v: gres(s)),
    "i": FormatField("STEPID", lambda s, v: step_text(s)),
    "j": FormatField("NAME", lambda s, v: step_name(s)),
    "l": FormatField("TIME_LIMIT", lambda s, v: time_limit(s), uncut=True),
    "u": FormatField("USER", lambda s, v: s.user_name or str(s.user_id)),
    "A": FormatField("TASKS", _of("tasks")),
    "M": FormatField("TIME", lambda s, v: format_elapsed(used_s(s, v))),
    "N": FormatField("NODELIST", lambda s, v: s.node_list, uncut=True),
    "P": FormatField("PARTITION", _of("partition")),
    "S": FormatField("START_TIME", lambda s, v: v.clock.text(s.start_at_us)),
    "U": FormatField("UID", _of("user_id")),
}
NAMES: dict[str, FormatField[StepInfo, StepView]] = {
    "account": LETTERS["a"], "stepid": LETTERS["i"], "stepname": LETTERS["j"], "name": LETTERS["j"],
    "username": LETTERS["u"], "userid": LETTERS["U"], "partition": LETTERS["P"], "numtasks": LETTERS["A"],
    "timeused": LETTERS["M"], "timelimit": LETTERS["l"], "starttime": LETTERS["S"], "nodes": LETTERS["N"],
    "nodelist": LETTERS["N"], "tres-per-node": LETTERS["b"], "gres": LETTERS["b"],
    "stepstate": FormatField("STATE", _of("state")),
    "jobid": FormatField("JOBID", _of("job_id")),
    "jobarrayid": FormatField("JOBID", lambda s, v: job_text(s)),
    "arrayjobid": FormatField("ARRAY_JOB_ID", lambda s, v: str(s.array_job_id or s.job_id)),
    "arraytaskid": FormatField("ARRAY_TASK_ID", lambda s, v: str(s.array_task_id) if s.HasField("array_task_id") else "N/A"),
    "numcpus": FormatField("CPUS", _of("cpus")),
    "numnodes": FormatField("NODES", lambda s, v: str(len(expand(s.node_list)) if s.node_list else 0)),
    "qos": FormatField("QOS", lambda s, v: s.qos or "(null)"),
    "jobname": FormatField("JOB_NAME", _of("job_name")),
    "network": FormatField("NETWORK", lambda s, v: "(null)"),
    "resvport": FormatField("RESV_PORTS", lambda s, v: ",".join(map(str, s.plan.ports)) or "(null)"),
    "resvports": FormatField("RESV_PORTS", lambda s, v: ",".join(map(str, s.plan.ports)) or "(null)"),
    "submitline": FormatField("SUBMIT_LINE", lambda s, v: s.spec.submit_line or "(null)"),
    "tres-alloc": FormatField("TRES_ALLOC", lambda s, v: s.tres or "N/A"),
    "cpus-per-tres": FormatField("CPUS_PER_TRES", lambda s, v: "N/A"),
    "mem-per-tres": FormatField("MEM_PER_TRES", lambda s, v: "N/A"),
    "tres-bind": FormatField("TRES_BIND", _tres("TresBind")),
    "tres-freq": FormatField("TRES_FREQ", _tres("TresFreq")),
    "tres-per-job": FormatField("TRES_PER_JOB", lambda s, v: "N/A"),
    "tres-per-socket": FormatField("TRES_PER_SOCKET", _tres("TresPerSocket")),
    "tres-per-step": FormatField("TRES_PER_STEP", _tres("TresPerStep")),
    "tres-per-task": FormatField("TRES_PER_TASK", _tres("TresPerTask")),
    "cpufreq": FormatField("CPU_FREQ", lambda s, v: "N/A"),
    "container": FormatField("CONTAINER", lambda s, v: "(null)"),
    "containerid": FormatField("CONTAINER_ID", lambda s, v: "(null)"),
    "state": FormatField("STATE", _of("state")),
    "cluster": FormatField("CLUSTER", lambda s, v: v.cluster),
}  # fmt: skip

#: Letters that do not sort by their text. Steps without a number have the highest ones: those of batch scripts are last.
_SORTS: dict[str, ListingKey[StepInfo, StepView]] = {
    "i": lambda s, v: (s.array_job_id or s.job_id, s.job_id, s.step_id % 2**32),
    "l": lambda s, v: s.time_limit_s if s.time_limit_s > 0 else 2**63,
    "M": used_s,
    "S": lambda s, v: s.start_at_us // US,
    "A": lambda s, v: s.tasks,
    "U": lambda s, v: s.user_id,
}


def sort_key(letter: str) -> ListingKey[StepInfo, StepView] | None:
    """The sort key of a letter of -S."""
    field = LETTERS.get(letter)
    return _SORTS.get(letter) or (field.value if field else None)


def columns_of(options: OptionValues, given: OptionValues) -> list[Column]:
    """The columns of the command line's format, else of the default for steps; format variables apply to jobs only."""
    if "Format" in given:
        columns, unknown = parse_names(given.text("Format"), NAMES)
    else:
        columns, unknown = parse_percent(given.text("format", FORMAT), LETTERS)
    for part in unknown:
        complain("squeue", f"Invalid job step format specification: {part.what}")
    return columns


def report(
    client: Client,
    selectors: list[JobSelector] | None,
    users: list[str],
    options: OptionValues,
    given: OptionValues,
    lines: list[str],
    clock: DisplayClock,
) -> int:
    """Prints the steps after `lines`. `selectors`: [] = all, None = no step matches."""
    view = StepView(clock, client.cluster.cluster_name)
    columns = columns_of(options, given)
    found = [] if selectors is None else list_steps(client, selectors, users)
    steps = [step for step in found if is_live(step) and _is_wanted(step, options)]
    sort_rows(steps, options.text("sort", SORT), lambda letter: sort_key(letter) or unsorted, view)
    if options.flag("verbose"):
        from cli.listings.verbose import update_line

        lines.append(update_line(clock.now_us, len(found)))
    if not options.flag("noheader"):
        if (options.flag("long") or options.text("iterate")) and not options.flag("verbose"):
            lines.append(date_line(clock.now_us))
        lines.append(header_line(columns))
    emit(chain(lines, (body_line(columns, step, view) for step in steps)))
    return 0


def _is_wanted(step: StepInfo, options: OptionValues) -> bool:
    nodes = options.text("nodelist")
    return (
        _among(step.partition, options.text("partition"))
        and _among(step_name(step), options.text("name"))
        and _among(step.account, options.text("account"))
        and _among(step.qos, options.text("qos"))
        and (not nodes or bool(set(expand(nodes)) & set(expand(step.node_list))))
    )


def _among(value: str, text: str) -> bool:
    return not text or value in words(text)
