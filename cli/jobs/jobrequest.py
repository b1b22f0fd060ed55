"""Builds the request from the values of a job's options.

Most values are one field of the request, which the option names (`Option.field`). This module handles the rest: values
that set several fields, and options that have a meaning only together.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cli.base.options import OptionValues
from cli.base.requestkey import new_key
from cli.base.run import CommandError, warn
from cli.jobs.bindwords import BindHint
from cli.jobs.jobopts import FIELDS, FOR_ALLOCATION, IMMEDIATE, OVERSUBSCRIBE, SHARED
from cli.jobs.jobwords import COUNT_MAX, TaskTres, devices
from penstock.v1.common_pb2 import GresCount, JobRequest

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.clusterfile import ClusterFile
    from penstock.v1.controller_pb2 import SubmitJobReply, SubmitJobRequest
    from penstock.v1.steps_pb2 import StepSpec
    from penstock.values.gres import Gres

#: The most characters of the command line that a record keeps.
SUBMIT_LINE_MAX = 16 * 1024
#: Options that one source cannot have together; one from a higher source replaces the other from a lower one.
EXCLUSIVE_KEYS = ("mem", "mem_per_cpu", "mem_per_gpu")
MEMORY_CONFLICT = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
#: Mutually exclusive options of a request, Slurm's level of the error, and its message.
CONFLICTS = (
    ("core_spec", "thread_spec", "error", "-S/--core-spec and --thread-spec options are mutually exclusive"),
    ("gpus_per_task", "ntasks_per_gpu", "fatal",
     "--gpus-per-task is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"),
    ("ntasks_per_node", "ntasks_per_gpu", "fatal",
     "--ntasks-per-node is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"),
)  # fmt: skip

_FIELDS = {**FIELDS, IMMEDIATE.key: IMMEDIATE.field}
_PATHS = {"output": "std_out", "error": "std_err", "input": "std_in"}
_SHARED_FIELDS = {
    "exclusive": "exclusive", "user": "exclusive_user", "mcs": "exclusive_mcs", "topo": "exclusive_topo",
    OVERSUBSCRIBE: "oversubscribe", FOR_ALLOCATION: "exclusive",
}  # fmt: skip


def current_folder() -> bytes:
    """The working directory."""
    try:
        return os.getcwdb()
    except FileNotFoundError as error:
        raise CommandError("the current directory no longer exists: change to an existing one") from error


def merge(*layers: OptionValues) -> OptionValues:
    """Merges the sources of options, the lowest first."""
    merged = OptionValues()
    for layer in layers:
        given = [key for key in EXCLUSIVE_KEYS if key in layer]
        if len(given) > 1:
            raise CommandError(MEMORY_CONFLICT, level="fatal")
        if given:
            for key in EXCLUSIVE_KEYS:
                merged.pop(key, None)
        merged |= layer
    return merged


def job_request(values: OptionValues) -> JobRequest:
    """The request that the options describe; what the submitting process adds is left to the caller."""
    job = JobRequest()
    put_fields(job, _FIELDS, values)
    if "nodes" in values:
        job.nodes_min, job.nodes_max = values.numbers("nodes")
    for key, field in _PATHS.items():
        setattr(job, field, os.fsencode(values.text(key)))
    _shape(job, values)
    if "switches" in values:
        job.switches_max, *wait_s = values.numbers("switches")
        job.switches_wait_s = wait_s[0] if wait_s else values.number("switches_wait")
    if SHARED in values:
        setattr(job, _SHARED_FIELDS[values.text(SHARED)], True)
    if values.get("requeue") is not None:
        job.requeue = bool(values["requeue"])
        job.expedite = values["requeue"] == "expedite"
    mode = values.text("open_mode")
    if mode:
        job.open_append = mode == "append"
        job.open_truncate = mode == "truncate"
    _devices(job, values)
    return job


def fewer_nodes(name: str, values: OptionValues) -> None:
    """Fewer tasks than nodes: reduces the nodes to the tasks, with a warning, as Slurm does; refuses a list of more
    nodes than requested."""
    if "nodelist" in values and "nodes" in values:
        from penstock.values.hostlist import expand

        named, most = len(set(expand(values.text("nodelist")))), values.numbers("nodes")[1]
        if named > most:
            raise CommandError(f"invalid number of nodes (-N {max(named, values.numbers('nodes')[0])}-{most})")
    ntasks, (least, _) = values.number("ntasks"), values.numbers("nodes", 0, 0)
    if 0 < ntasks < least:
        values["nodes"] = (ntasks, ntasks)
        if not values.flag("quiet"):
            warn(name, f"can't run {ntasks} processes on {least} nodes, setting nnodes to {ntasks}")


def open_for_job(
    command: str, values: OptionValues, request: Callable[[], "SubmitJobRequest"], *, stays: bool = False,
    here: "ClusterFile | None" = None,
) -> "Client":  # fmt: skip
    """Opens a client of the cluster in which the job is to run. `request` makes the request by which several clusters are
    compared; `stays`: the programs that the command starts use that cluster, too; `here`: the one without --clusters, if
    it is known.
    """
    if values.text("clusters"):
        from cli.jobs.submitcluster import open_cluster

        return open_cluster(command, values, request, stays)
    from penstock.client import Client

    return Client.open(cluster=here)


def question(job: JobRequest, *components: JobRequest) -> "SubmitJobRequest":
    """Builds the question when and where an allocation would start; nothing is submitted."""
    from penstock.v1.common_pb2 import JobSpec
    from penstock.v1.controller_pb2 import SubmitJobRequest

    return SubmitJobRequest(request_key=new_key(), job=job, spec=JobSpec(), components=components, test_only=True)


def named_cluster(values: OptionValues, client: "Client") -> str:
    """The name of the job's cluster if --clusters was given, else ""."""
    return client.cluster.cluster_name if values.text("clusters") else ""


def prediction(name: str, reply: "SubmitJobReply") -> str:
    """The answer of --test-only."""
    from penstock.values.dates import format_date

    start = format_date(reply.start_at_us)
    where = f"{reply.cpus} processors on nodes {reply.node_list} in partition {reply.partition}"
    return f"{name}: Job {reply.job_id} to start at {start} using {where}"


def check_conflicts(values: OptionValues) -> None:
    """Raises CommandError for options that exclude each other."""
    for first, second, level, text in CONFLICTS:
        if first in values and second in values:
            raise CommandError(text, level=level)
    deadline = values.number("deadline")
    if deadline and values.number("begin") > deadline:
        raise CommandError("Incompatible begin and deadline time specification")


def _shape(job: JobRequest, values: OptionValues) -> None:
    """The requirements on nodes, sockets, cores and threads."""
    check_conflicts(values)
    if "extra_node_info" in values:
        job.sockets_per_node, job.cores_per_socket, job.threads_per_core = values.numbers("extra_node_info")
    if not (job.ntasks or job.ntasks_per_node or job.nodes_max > job.nodes_min):
        _tasks_inside(job, values)
    if hint := values.of(BindHint, "hint"):
        job.threads_per_core = job.threads_per_core or hint.threads
        job.ntasks_per_socket = job.ntasks_per_socket or hint.tasks


def _tasks_inside(job: JobRequest, values: OptionValues) -> None:
    """A task on each socket, core and thread that is asked for, where the number of nodes is known."""
    if "extra_node_info" not in values and not job.nodes_min:
        return
    asked = [job.sockets_per_node, job.cores_per_socket]
    if "extra_node_info" in values:
        asked.append(job.threads_per_core)
    if any(asked):
        ntasks = math.prod((max(1, job.nodes_min), *filter(None, asked)))
        if ntasks > COUNT_MAX:
            raise CommandError(f"Numeric argument ({ntasks}) to big for --ntasks.")
        job.ntasks = ntasks


def _devices(job: JobRequest, values: OptionValues) -> None:
    job.gres_per_node.extend(counts(_node_gres(values)))
    job.gpus_per_node_asked = "gpus_per_node" in values
    if "gpus_per_socket" in values:
        job.gres_per_socket.extend(counts(devices(values, "gpus_per_socket")))
        job.gres_sockets = sockets_of(values)
    job.gres_per_job.extend(counts(devices(values, "gpus")))
    job.gres_per_task.extend(counts(devices(values, "gpus_per_task")))
    if of_task := values.of(TaskTres, "tres_per_task"):
        cpus, gres = of_task
        if (cpus and "cpus_per_task" in values) or (gres and "gpus_per_task" in values):
            raise CommandError("--tres-per-task repeats --cpus-per-task or --gpus-per-task: leave one out")
        job.cpus_per_task = cpus or job.cpus_per_task
        job.gres_per_task.extend(counts(gres))


def put_fields(message: "JobRequest | StepSpec", fields: Mapping[str, str], values: OptionValues) -> None:
    """Puts values into the fields that take them unchanged. `fields`: by key."""
    for key, value in values.items():
        field = fields.get(key)
        if field is None:
            continue
        if isinstance(value, list | tuple):
            getattr(message, field).extend(value)
        else:
            setattr(message, field, value)


def counts(gres: "Iterable[Gres]") -> list[GresCount]:
    """Generic resources as the request carries them."""
    return [GresCount(name=g.name, type=g.type, count=g.count) for g in gres]


def sockets_of(values: OptionValues) -> int:
    """The least number of sockets of a node; 0 = not given."""
    return values.number("sockets_per_node") or values.numbers("extra_node_info", 0)[0]


def _node_gres(values: OptionValues) -> "list[Gres]":
    """The devices of each node. GPUs in --gres beside --gpus-per-node or --gpus-per-socket must be the same."""
    gres = list(devices(values, "gres"))
    each = devices(values, "gpus_per_node") if "gpus_per_node" in values else None
    if "gpus_per_socket" in values:
        sockets = sockets_of(values)
        if not sockets:
            raise CommandError("--gpus-per-socket option requires --sockets-per-node to be specified")
        each = tuple(g.__class__(g.name, g.type, g.count * sockets) for g in devices(values, "gpus_per_socket"))
    if each is None:
        return gres
    asked = {(g.type, g.count) for g in gres if g.name == "gpu"}
    if asked and asked != {(g.type, g.count) for g in each}:
        raise CommandError(
            "Invalid generic resource (gres) specification", detail="--gres names other GPUs for each node"
        )
    return [g for g in gres if g.name != "gpu"] + list(each)


def submit_line(command: str, argv: Sequence[str]) -> str:
    """The command line as typed, truncated for `sacct -o SubmitLine`."""
    return shown(f"{command} {' '.join(argv)}")[:SUBMIT_LINE_MAX]


def shown(text: str) -> str:
    """Text for a table: bytes that are not UTF-8, and control characters, are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
