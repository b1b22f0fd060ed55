"""Simulations of workloads, in /penstock/v1/:

    POST   /penstock/v1/simulations                    begins one: a log of the caller's, or the cluster's last days
    GET    /penstock/v1/simulations/{simulation_id}    its state, and its result
    DELETE /penstock/v1/simulations/{simulation_id}    ends it, or forgets the result

The jobs of the last days are those that accounting shows the caller, as sacct does; their nodes are those that the controller
shows. The log of a caller goes to the simulator as it came: nothing of it is looked at here.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from cli.base.document import Json
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsRequest
from penstock.v1.controller_pb2 import (
    ListNodesRequest,
    NodeInfo,
    RenderConfigReply,
    RenderConfigRequest,
    ShowConfigRequest,
)
from rest.answers import RestError
from rest.calling import RestCall
from rest.contract.parse import CONVERSION, NO_MEMBER
from rest.limits import (
    POLICY_CHARS_MAX,
    SIMULATED_DAYS_MAX,
    SIMULATED_JOBS_MAX,
    SIMULATED_POLICIES_MAX,
)
from rest.simulations import SimulationRun, Simulations

#: Members of a body. Either `log`, the text of a log, or `days`. `on_cluster`: a log runs on the cluster's nodes, else on
#: `processors`; 0: those that its header names.
BODY: Final = {
    "name": "string", "log": "string", "days": "integer", "partition": "string", "on_cluster": "boolean",
    "processors": "integer", "policies": "string[]",
}  # fmt: skip
DEFAULT_POLICIES: Final = ("easy",)
#: The policy that is the cluster's configuration.
SITE: Final = "site"
NAME_CHARS_MAX: Final = 200
_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _US
#: Columns of a log, as those of `sacct -P`: times in seconds since 1970, limits in minutes.
_HEADER: Final = (
    "JobID|User|Account|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqCPUS|AllocTRES|ReqTRES|State"
)
_EMPTY: Final[Json] = {
    "name": "", "jobs": 0, "processors": 0, "interval_s": 0, "notes": [], "left_out": [], "doubts": [], "runs": [],
    "waits": [],
}  # fmt: skip


async def begin(call: RestCall) -> Json:
    """Begins a simulation; the answer has its id."""
    user_id = await call.user_id()
    order, log, days = _order(call)
    partition = str(order["partition"])
    simulations = simulations_of(call)
    run = simulations.reserve(user_id)
    try:
        if days or call.record().get("on_cluster"):
            order |= await _machine(call, partition)
            if SITE in call.words_in("policies"):
                conf: RenderConfigReply = await call.call("RenderConfig", RenderConfigRequest())
                order["conf"] = conf.text
        if days:
            log = await _last_days(call, days, partition)
        simulations.start(run, order, log)
    except BaseException:
        simulations.drop(run)
        raise
    return document(run)


async def show(call: RestCall) -> Json:
    """The state of a simulation, and its result when it is done."""
    run = simulations_of(call).find(await call.user_id(), call.path["simulation_id"])
    call.tag.vary(f"{run.id} {run.state}")
    call.check_modified()
    return document(run)


async def cancel(call: RestCall) -> Json:
    """Ends a simulation, or forgets its result."""
    return document(simulations_of(call).cancel(await call.user_id(), call.path["simulation_id"]))


def simulations_of(call: RestCall) -> Simulations:
    """Those of this daemon."""
    assert call.simulations is not None
    return call.simulations


def document(run: SimulationRun) -> Json:
    """A run as answers have it."""
    return {"simulation_id": run.id, "state": run.state, "error": run.error} | _EMPTY | run.answer


# ---- what is asked


def _order(call: RestCall) -> tuple[Json, bytes, int]:
    """The order to the simulator, the log, and the days instead of one. Raises RestError."""
    given = call.record()
    log, days, processors = (given.get(name) for name in ("log", "days", "processors"))
    if (log is None) == (days is None):
        raise _refused(NO_MEMBER, "give a log, or the number of last days", "log")
    if isinstance(days, int) and not 1 <= days <= SIMULATED_DAYS_MAX:
        raise _refused(CONVERSION, f"days is a number from 1 to {SIMULATED_DAYS_MAX}", "days")
    if isinstance(processors, int) and processors < 0:
        raise _refused(CONVERSION, "processors is a positive number, or 0", "processors")
    policies = list(dict.fromkeys(call.words_in("policies"))) or list(DEFAULT_POLICIES)
    if len(policies) > SIMULATED_POLICIES_MAX:
        raise _refused(CONVERSION, f"at most {SIMULATED_POLICIES_MAX} policies", "policies")
    if any(len(one) > POLICY_CHARS_MAX for one in policies):
        raise _refused(CONVERSION, f"a policy has at most {POLICY_CHARS_MAX} characters", "policies")
    if SITE in policies and days is None and not given.get("on_cluster"):
        raise _refused(CONVERSION, "policy site is that of the cluster's nodes: give on_cluster, or days", "policies")
    name = call.text_in("name", NAME_CHARS_MAX) or (f"last-{days}-days" if days else "log")
    order = {
        "name": name.replace("/", "_").replace("\0", "_"), "policies": policies, "processors": processors or 0,
        "nodes": [], "is_memory_allocated": False, "partition": call.text_in("partition", NAME_CHARS_MAX),
    }  # fmt: skip
    return (
        order,
        log.encode("utf-8", "surrogatepass") if isinstance(log, str) else b"",
        days if isinstance(days, int) else 0,
    )


def _refused(number: int, text: str, member: str) -> RestError:
    return RestError(422, number, text, source=f"#/{member}")


# ---- the cluster


async def _machine(call: RestCall, partition: str) -> Json:
    """The cluster's nodes, or those of a partition, as an order has them. Raises RestError, PenstockError."""
    nodes = (await call.call("ListNodes", ListNodesRequest())).nodes
    found = Counter(_kind(node) for node in nodes if not partition or partition in node.partitions)
    if not found:
        raise _refused(
            CONVERSION, "there are no nodes" + (f" in partition {partition}" if partition else ""), "partition"
        )
    lines = (await call.call("ShowConfig", ShowConfigRequest())).lines
    words = " ".join(one.value for one in lines if one.key == "SelectTypeParameters").upper()
    kinds = [
        {"count": count, "cpus": cpus, "memory_mb": memory_mb, "gpus": gpus, "weight": weight}
        for (weight, cpus, memory_mb, gpus), count in sorted(found.items())
    ]
    return {"nodes": kinds, "is_memory_allocated": "MEMORY" in words}


def _kind(node: NodeInfo) -> tuple[int, int, int, int]:
    gpus = sum(one.count for one in node.gres if one.name == "gpu")
    return node.weight, node.effective_cpus or node.cpus, node.real_memory_mb - node.mem_spec_limit_mb, gpus


async def _last_days(call: RestCall, days: int, partition: str) -> bytes:
    """A log of the jobs that were submitted in the last days, and that accounting shows the caller. Raises RestError."""
    since_us = call.now_us - days * _DAY_US
    request = ListRecordsRequest(start_at_us=since_us, no_steps=True, partitions=[partition] if partition else [])
    lines = [_HEADER]
    async for page in call.pages("ListRecords", request):
        lines += _rows(page.records, since_us)
        if len(lines) > SIMULATED_JOBS_MAX:
            raise _refused(CONVERSION, f"more than {SIMULATED_JOBS_MAX} jobs in {days} days: take fewer", "days")
    if len(lines) == 1:
        raise _refused(CONVERSION, f"no job that you may see was submitted in the last {days} days", "days")
    return "\n".join(lines).encode("utf-8", "replace")


def _rows(records: Iterable[JobRecord], since_us: int) -> Iterator[str]:
    return (_row(one) for one in records if one.submit_at_us >= since_us)


def _row(one: JobRecord) -> str:
    ran_us = max(one.end_at_us - one.start_at_us, 0) if one.start_at_us else 0
    limit_min = math.ceil(one.time_limit_s / 60) if one.time_limit_s > 0 else ""
    values = (
        one.job_id, one.user_name, one.account or one.request.account, one.submit_at_us // _US, one.start_at_us // _US or "",
        one.end_at_us // _US or "", ran_us // _US, limit_min, one.nodes_alloc or one.nodes_req, one.cpus_alloc, one.cpus_req,
        one.tres_alloc, one.tres_req, one.state,
    )  # fmt: skip
    return "|".join(str(value).replace("|", "_").replace("\n", "_") for value in values)
