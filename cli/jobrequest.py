"""From the values of a job's options to the request that is sent.

Most values are one field of the request, which the option names (`Option.field`). Here is the rest: values that are
several fields, and options that mean something only together.
"""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cli.jobopts import FIELDS, IMMEDIATE, OVERSUBSCRIBE, SHARED
from cli.run import CommandError, warn
from penstock.v1.common_pb2 import GresCount, JobRequest

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.v1.controller_pb2 import SubmitJobReply
    from penstock.values.gres import Gres

#: Options that cannot stand together in one place; one from a higher place replaces the other from a lower one.
EXCLUSIVE_KEYS = ("mem", "mem_per_cpu", "mem_per_gpu")
MEMORY_CONFLICT = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
#: Options that no request may have both of, and Slurm's words for it.
CONFLICTS = (
    ("core_spec", "thread_spec", "-S/--core-spec and --thread-spec options are mutually exclusive"),
    ("ntasks_per_node", "ntasks_per_gpu",
     "--ntasks-per-node is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"),
)  # fmt: skip

_FIELDS = {**FIELDS, IMMEDIATE.key: IMMEDIATE.field}
_PATHS = {"output": "std_out", "error": "std_err", "input": "std_in"}
_SHARED_FIELDS = {
    "exclusive": "exclusive", "user": "exclusive_user", "mcs": "exclusive_mcs", "topo": "exclusive_topo",
    OVERSUBSCRIBE: "oversubscribe",
}  # fmt: skip


def current_folder() -> bytes:
    """The working directory."""
    try:
        return os.getcwdb()
    except FileNotFoundError as error:
        raise CommandError("the current directory does not exist any more: cd to one that does") from error


def merge(*layers: dict[str, Any]) -> dict[str, Any]:
    """Lay the places where options were given over each other, the lowest first."""
    merged: dict[str, Any] = {}
    for layer in layers:
        given = [key for key in EXCLUSIVE_KEYS if key in layer]
        if len(given) > 1:
            raise CommandError(MEMORY_CONFLICT)
        if given:
            for key in EXCLUSIVE_KEYS:
                merged.pop(key, None)
        merged |= layer
    return merged


def job_request(values: dict[str, Any]) -> JobRequest:
    """The request that the options describe; what the submitting process adds is left to the caller."""
    job = JobRequest(**{_FIELDS[key]: value for key, value in values.items() if key in _FIELDS})
    if "nodes" in values:
        job.nodes_min, job.nodes_max = values["nodes"]
    for key, field in _PATHS.items():
        setattr(job, field, os.fsencode(values.get(key, "")))
    _shape(job, values)
    if "switches" in values:
        job.switches_max, wait_s = values["switches"]
        job.switches_wait_s = values.get("switches_wait", 0) if wait_s is None else wait_s
    if SHARED in values:
        setattr(job, _SHARED_FIELDS[values[SHARED]], True)
    if values.get("requeue") is not None:
        job.requeue = bool(values["requeue"])
        job.expedite = values["requeue"] == "expedite"
    mode = values.get("open_mode")
    if mode:
        job.open_append = mode == "append"
        job.open_truncate = mode == "truncate"
    _devices(job, values)
    return job


def fewer_nodes(name: str, values: dict[str, Any]) -> None:
    """Fewer tasks than nodes: as many nodes as tasks, with a warning, as Slurm does; more nodes named than wanted: refused."""
    if "nodelist" in values and "nodes" in values:
        from penstock.values.hostlist import expand

        named, most = len(set(expand(values["nodelist"]))), values["nodes"][1]
        if named > most:
            raise CommandError(f"invalid number of nodes (-N {max(named, values['nodes'][0])}-{most})")
    ntasks, (least, _) = values.get("ntasks", 0), values.get("nodes", (0, 0))
    if 0 < ntasks < least:
        values["nodes"] = (ntasks, ntasks)
        if not values.get("quiet"):
            warn(name, f"can't run {ntasks} processes on {least} nodes, setting nnodes to {ntasks}")


def named_cluster(values: dict[str, Any], client: "Client") -> str:
    """The cluster's name where --clusters names it ("" = it does not). Another one is an error."""
    if not values.get("clusters"):
        return ""
    from cli.listing import check_clusters

    check_clusters(values["clusters"], client.cluster.cluster_name)
    return client.cluster.cluster_name


def prediction(name: str, reply: "SubmitJobReply") -> str:
    """What --test-only is answered with."""
    from penstock.values.dates import format_date

    start = format_date(reply.start_at_us)
    where = f"{reply.cpus} processors on nodes {reply.node_list} in partition {reply.partition}"
    return f"{name}: Job {reply.job_id} to start at {start} using {where}"


def _shape(job: JobRequest, values: dict[str, Any]) -> None:
    """What the nodes and their sockets, cores and threads are to be."""
    for first, second, text in CONFLICTS:
        if first in values and second in values:
            raise CommandError(text)
    if "extra_node_info" in values:
        job.sockets_per_node, job.cores_per_socket, job.threads_per_core = values["extra_node_info"]
    if "hint" in values:
        threads, tasks = values["hint"]
        job.threads_per_core = job.threads_per_core or threads
        job.ntasks_per_socket = job.ntasks_per_socket or tasks


def _devices(job: JobRequest, values: dict[str, Any]) -> None:
    job.gres_per_node.extend(counts(_node_gres(values)))
    if "gpus_per_socket" in values:
        job.gres_per_socket.extend(counts(values["gpus_per_socket"]))
        job.gres_sockets = _sockets(values)
    job.gres_per_job.extend(counts(values.get("gpus", ())))
    job.gres_per_task.extend(counts(values.get("gpus_per_task", ())))
    if "tres_per_task" in values:
        cpus, gres = values["tres_per_task"]
        if (cpus and "cpus_per_task" in values) or (gres and "gpus_per_task" in values):
            raise CommandError("--tres-per-task says again what --cpus-per-task or --gpus-per-task say: leave one out")
        job.cpus_per_task = cpus or job.cpus_per_task
        job.gres_per_task.extend(counts(gres))


def counts(gres: "Iterable[Gres]") -> list[GresCount]:
    """Generic resources as the request carries them."""
    return [GresCount(name=g.name, type=g.type, count=g.count) for g in gres]


def _sockets(values: dict[str, Any]) -> int:
    found: int = values.get("sockets_per_node") or (values.get("extra_node_info") or (0,))[0]
    return found


def _node_gres(values: dict[str, Any]) -> "list[Gres]":
    """--gpus-per-node stands in the place of the GPUs in --gres; --gpus-per-socket likewise."""
    gres = list(values.get("gres", ()))
    each = values.get("gpus_per_node")
    if "gpus_per_socket" in values:
        sockets = _sockets(values)
        if not sockets:
            raise CommandError("--gpus-per-socket option requires --sockets-per-node to be specified")
        each = [g.__class__(g.name, g.type, g.count * sockets) for g in values["gpus_per_socket"]]
    return gres if each is None else [g for g in gres if g.name != "gpu"] + list(each)


def shown(text: str) -> str:
    """Text that can stand in a table: what is not UTF-8, and control characters, are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
