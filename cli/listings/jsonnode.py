"""`scontrol show node --json`: nodes in the structure of Slurm's data_parser, and `gpus`, which is ours.

Unsupported fields have the value that Slurm gives to unset ones.
"""

from collections.abc import Iterable

from cli.base.document import Json, document, message_object, number, time_object
from cli.listings.nodegres import gres, gres_drain, gres_used
from cli.listings.nodestate import cpus_for_jobs, json_words
from cli.listings.show import node_tres, node_tres_used
from penstock.v1.controller_pb2 import GpuInfo, GpuReadingInfo, NodeInfo
from penstock.values.tres import format_tres


def nodes_document(nodes: Iterable[NodeInfo], cluster: str, now_us: int) -> Json:
    """The whole answer."""
    return document("nodes", [node_object(node, cluster) for node in nodes], cluster, last_update=time_object(now_us))


def node_object(node: NodeInfo, cluster: str) -> Json:
    """One node."""
    return _absent() | _identity(node, cluster) | _sizes(node) | _devices(node)


def _absent() -> Json:
    """The fields that no node of this version has."""
    energy = {
        "average_watts": 0,
        "base_consumed_energy": 0,
        "consumed_energy": 0,
        "current_watts": number(None),
        "previous_consumed_energy": 0,
        "last_collected": 0,
    }
    return {
        "burstbuffer_network_address": "",
        "cert_flags": [],
        "cpu_binding": 0,
        "energy": energy,
        "external_sensors": {},
        "gpu_spec": "",
        "power": {},
        "res_cores_per_gpu": 0,
        "tls_cert_last_renewal": time_object(0),
        "topology": "",
    }


def _identity(node: NodeInfo, cluster: str) -> Json:
    return {
        "name": node.name,
        "hostname": node.hostname or node.name,
        "address": node.addr or node.name,
        "architecture": node.arch,
        "operating_system": node.os,
        "version": node.version,
        "cluster_name": cluster,
        "comment": node.comment,
        "extra": node.extra,
        "instance_id": node.instance_id,
        "instance_type": node.instance_type,
        "state": json_words(node),
        "next_state_after_reboot": [],
        "reason": node.reason,
        "reason_changed_at": time_object(node.reason_at_us),
        "reason_set_by_user": node.reason_user,
        "reservation": node.reservation,
        "partitions": list(node.partitions),
        "features": list(node.features),
        "active_features": list(node.features),
        "boot_time": time_object(node.boot_at_us),
        "slurmd_start_time": time_object(node.noded_start_at_us),
        "last_busy": time_object(node.last_busy_at_us),
        "resume_after": number(None),
        "owner": "",
        "mcs_label": node.mcs_label,
        "port": 0,
    }


def _sizes(node: NodeInfo) -> Json:
    used = node_tres_used(node)
    return {
        "boards": node.boards,
        "sockets": node.sockets,
        "cores": node.cores_per_socket,
        "threads": node.threads_per_core,
        "cpus": node.cpus,
        "effective_cpus": cpus_for_jobs(node),
        "alloc_cpus": node.cpus_alloc,
        "alloc_idle_cpus": cpus_for_jobs(node) - node.cpus_alloc,
        "cpu_load": node.cpu_load_centi,
        "real_memory": node.real_memory_mb,
        "alloc_memory": node.mem_alloc_mb,
        "free_mem": number(node.free_memory_mb or None),
        "specialized_cores": node.core_spec_count,
        "specialized_cpus": node.cpu_spec_list,
        "specialized_memory": node.mem_spec_limit_mb,
        "temporary_disk": node.tmp_disk_mb,
        "weight": node.weight,
        "tres": format_tres(node_tres(node)),
        "tres_used": format_tres(used) if used else "",
        "tres_weighted": 0.0,
    }


def _devices(node: NodeInfo) -> Json:
    has_any = bool(node.gres or node.gres_used)
    return {
        "gres": gres(node) if node.gres else "",
        "gres_drained": gres_drain(node),
        "gres_used": gres_used(node) if has_any else "",
        "gpu_driver": node.gpu_driver,
        "cuda_version": node.cuda_version,
        "nvml_version": node.nvml_version,
        "gpu_constraint": node.gpu_constraint,
        "gpu_why": node.gpu_why,
        "gpus": [gpu_object(gpu) for gpu in node.gpus],
    }


def gpu_object(gpu: GpuInfo) -> Json:
    """One GPU; `since` and `idle_since` in seconds, as all times."""
    found = message_object(gpu)
    del found["since_us"], found["idle_since_us"]
    found["xids"] = [{"xid": one.xid, "times": one.times, "last": time_object(one.last_us)} for one in gpu.xids]
    return found | {"since": time_object(gpu.since_us), "idle_since": time_object(gpu.idle_since_us)}


def reading_member(reading: GpuReadingInfo | None) -> Json:
    """What a GPU does now, as a member of its object: null, like each figure, where nothing is known. `at` in seconds."""
    if reading is None:
        return {"reading": None}
    figures = message_object(reading)
    for name in ("node", "uuid", "index", "at_us"):
        del figures[name]
    return {"reading": {"at": time_object(reading.at_us)} | figures}
