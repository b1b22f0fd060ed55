"""squeue --steps: a line for each step that has not ended.

One call (ListSteps). Which job, which user is asked of the controller; partition, nodes, account and QOS are looked at
here. Letters and names are Slurm's for steps; what a step has not prints as Slurm prints it.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

from cli.format import Clock, Column, Field, body_line, header_line, parse_names, parse_percent
from cli.listing import date_line, emit, sort_rows, words
from cli.run import complain
from cli.stepids import is_live, job_text, list_steps, step_name, step_text
from penstock.client import Client
from penstock.v1.steps_pb2 import StepInfo
from penstock.values.duration import format_elapsed
from penstock.values.hostlist import expand
from penstock.values.jobid import JobSelector
from penstock.values.states import COMPACT_STATE

FORMAT = "%.15i %.8j %.9P %.8u %.9M %N"
SORT = "P,i"
COMPACT = {state.name: word for state, word in COMPACT_STATE.items()}


class StepView(NamedTuple):
    """What else a column may depend on."""

    clock: Clock
    cluster: str = ""


Value = Callable[[StepInfo, StepView], str]


def used_s(step: StepInfo, view: StepView) -> int:
    """How long it has run."""
    if not step.start_at_us:
        return 0
    until_us = step.end_at_us if step.end_at_us and not is_live(step) else view.clock.now_us
    return max(until_us - step.start_at_us, 0) // 1_000_000


def time_limit(step: StepInfo) -> str:
    """The step's own limit."""
    return format_elapsed(step.time_limit_s) if step.time_limit_s > 0 else "UNLIMITED"


def gres(step: StepInfo) -> str:
    """What was asked for on each node."""
    items = (":".join(filter(None, ("gres/" + g.name, g.type, str(g.count)))) for g in step.spec.gres_per_node)
    return ",".join(items) or "N/A"


def _of(name: str) -> Value:
    return lambda s, v: str(getattr(s, name))


LETTERS: dict[str, Field] = {
    "a": Field("ACCOUNT", lambda s, v: s.account or "(null)"),
    "b": Field("TRES_PER_NODE", lambda s, v: gres(s)),
    "i": Field("STEPID", lambda s, v: step_text(s)),
    "j": Field("NAME", lambda s, v: step_name(s)),
    "l": Field("TIME_LIMIT", lambda s, v: time_limit(s), uncut=True),
    "u": Field("USER", lambda s, v: s.user_name or str(s.user_id)),
    "A": Field("TASKS", _of("tasks")),
    "M": Field("TIME", lambda s, v: format_elapsed(used_s(s, v))),
    "N": Field("NODELIST", lambda s, v: s.node_list, uncut=True),
    "P": Field("PARTITION", _of("partition")),
    "S": Field("START_TIME", lambda s, v: v.clock.text(s.start_at_us)),
    "U": Field("UID", _of("user_id")),
}
NAMES: dict[str, Field] = {
    "account": LETTERS["a"], "stepid": LETTERS["i"], "stepname": LETTERS["j"], "name": LETTERS["j"],
    "username": LETTERS["u"], "userid": LETTERS["U"], "partition": LETTERS["P"], "numtasks": LETTERS["A"],
    "timeused": LETTERS["M"], "timelimit": LETTERS["l"], "starttime": LETTERS["S"], "nodes": LETTERS["N"],
    "nodelist": LETTERS["N"], "tres-per-node": LETTERS["b"], "gres": LETTERS["b"],
    "stepstate": Field("STATE", _of("state")),
    "jobid": Field("JOBID", _of("job_id")),
    "jobarrayid": Field("JOBID", lambda s, v: job_text(s)),
    "arrayjobid": Field("ARRAY_JOB_ID", lambda s, v: str(s.array_job_id or s.job_id)),
    "arraytaskid": Field("ARRAY_TASK_ID", lambda s, v: str(s.array_task_id) if s.HasField("array_task_id") else "N/A"),
    "numcpus": Field("CPUS", _of("cpus")),
    "numnodes": Field("NODES", lambda s, v: str(len(expand(s.node_list)) if s.node_list else 0)),
    "qos": Field("QOS", lambda s, v: s.qos or "(null)"),
    "jobname": Field("JOB_NAME", _of("job_name")),
    "network": Field("NETWORK", lambda s, v: "(null)"),
    "resvport": Field("RESV_PORTS", lambda s, v: ",".join(map(str, s.plan.ports)) or "(null)"),
    "resvports": Field("RESV_PORTS", lambda s, v: ",".join(map(str, s.plan.ports)) or "(null)"),
    "submitline": Field("SUBMIT_LINE", lambda s, v: s.spec.submit_line or "(null)"),
    "tres-alloc": Field("TRES_ALLOC", lambda s, v: s.tres or "N/A"),
    "cpus-per-tres": Field("CPUS_PER_TRES", lambda s, v: "N/A"),
    "mem-per-tres": Field("MEM_PER_TRES", lambda s, v: "N/A"),
    "tres-bind": Field("TRES_BIND", lambda s, v: "N/A"),
    "tres-freq": Field("TRES_FREQ", lambda s, v: "N/A"),
    "tres-per-job": Field("TRES_PER_JOB", lambda s, v: "N/A"),
    "tres-per-socket": Field("TRES_PER_SOCKET", lambda s, v: "N/A"),
    "tres-per-step": Field("TRES_PER_STEP", lambda s, v: "N/A"),
    "tres-per-task": Field("TRES_PER_TASK", lambda s, v: "N/A"),
    "cpufreq": Field("CPU_FREQ", lambda s, v: "N/A"),
    "container": Field("CONTAINER", lambda s, v: "(null)"),
    "containerid": Field("CONTAINER_ID", lambda s, v: "(null)"),
    "state": Field("STATE", _of("state")),
    "cluster": Field("CLUSTER", lambda s, v: v.cluster),
}  # fmt: skip

#: Letters that sort by something else than their text.
_SORTS: dict[str, Callable[[StepInfo, StepView], Any]] = {
    "i": lambda s, v: (s.array_job_id or s.job_id, s.job_id, s.step_id),
    "l": lambda s, v: s.time_limit_s if s.time_limit_s > 0 else 2**63,
    "M": used_s,
    "S": lambda s, v: s.start_at_us,
    "A": lambda s, v: s.tasks,
    "U": lambda s, v: s.user_id,
}


def sort_key(letter: str) -> Callable[[StepInfo, StepView], Any] | None:
    """What a letter of -S sorts by."""
    field = LETTERS.get(letter)
    return _SORTS.get(letter) or (field.value if field else None)


def columns_of(options: dict[str, Any], given: dict[str, Any]) -> list[Column]:
    """The format: of the command line, else the one for steps; variables speak of jobs."""
    if "Format" in given:
        columns, unknown = parse_names(given["Format"], NAMES)
    else:
        columns, unknown = parse_percent(given.get("format", FORMAT), LETTERS)
    for part in unknown:
        complain("squeue", f"Invalid job step format specification: {part.what}")
    return columns


def report(
    client: Client,
    selectors: list[JobSelector] | None,
    users: list[str],
    options: dict[str, Any],
    given: dict[str, Any],
    lines: list[str],
    clock: Clock,
) -> int:
    """Print the steps below `lines`. `selectors`: [] = all, None = no step can be meant."""
    view = StepView(clock, client.cluster.cluster_name)
    columns = columns_of(options, given)
    found = [] if selectors is None else list_steps(client, selectors, users)
    steps = [step for step in found if is_live(step) and _is_wanted(step, options)]
    sort_rows(steps, str(options.get("sort", SORT)), sort_key, view)
    if not options.get("noheader"):
        if options.get("long") or options.get("iterate"):
            lines.append(date_line(clock.now_us))
        lines.append(header_line(columns))
    emit(chain(lines, (body_line(columns, step, view) for step in steps)))
    return 0


def _is_wanted(step: StepInfo, options: dict[str, Any]) -> bool:
    nodes = options.get("nodelist")
    return (
        _among(step.partition, options.get("partition"))
        and _among(step_name(step), options.get("name"))
        and _among(step.account, options.get("account"))
        and _among(step.qos, options.get("qos"))
        and (not nodes or bool(set(expand(nodes)) & set(expand(step.node_list))))
    )


def _among(value: str, text: str | None) -> bool:
    return not text or value in words(text)
