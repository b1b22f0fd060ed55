"""`penstock fits`: what it names would start now, and nothing larger would."""

from dataclasses import replace
from typing import Any

from ctld.core.diagnose.fits import Fit, find_fits, inquire_fits
from ctld.core.records.events import JobSubmission, UpdatePartition
from penstock.values.config import PartitionConfig
from penstock.values.states import JobState
from tests.core.test_why import FAST, HOUR_S, job, world
from tests.core.world import World, make_config


def fits(made: World, *names: str) -> dict[str, dict[tuple[str, int], Fit]]:
    """By partition, by (kind, GPUs a node)."""
    digest = made.core.digest()
    _, places = find_fits(inquire_fits(made.core.state, made.now_us, names))
    assert made.core.digest() == digest
    return {p.name: {(f.kind, f.gpus if f.kind == "gpu_nodes" else 0): f for f in p.fits} for p in places}


def wanted(fit: Fit, **more: Any) -> JobSubmission:
    """A job of that shape."""
    gres = (("gpu", "", fit.gpus),) if fit.gpus else ()
    fields: dict[str, Any] = {
        "nodes_min": fit.nodes, "ntasks": fit.nodes, "cpus_per_task": fit.cpus, "mem_per_node_mb": max(1, fit.mem_mb),
        "gres_per_node": gres, "time_limit_s": fit.limit_s if fit.limit_s > 0 else -1,
    }  # fmt: skip
    return job(**(fields | more))


def starts(queue: list[JobSubmission], config: dict[str, Any], last: JobSubmission) -> bool:
    made = world(*queue, last, **config)
    found = made.core.state.jobs.get(len(queue) + 1)  # None: it was refused, for no node is so large
    return found is not None and found.state is JobState.RUNNING


def test_an_empty_cluster_takes_whole_nodes() -> None:
    found = fits(world(**FAST))["debug"]
    assert found[("node", 0)] == Fit("node", 1, 8, 8000, 4, -1, ("n1",))
    assert found[("whole_nodes", 0)] == Fit("whole_nodes", 2, 8, 8000, 4, -1, ("n1", "n2"))
    assert {key[1]: fit.nodes for key, fit in found.items() if key[0] == "gpu_nodes"} == {1: 2, 2: 2, 4: 2}
    assert ("cpu_node", 0) not in found


QUEUE = [
    job(cpus_per_task=3, mem_per_node_mb=1000, gres_per_node=(("gpu", "", 1),), nodes_required="n1", time_limit_s=4 * HOUR_S),
    job(cpus_per_task=6, mem_per_node_mb=3000, gres_per_node=(("gpu", "", 2),), nodes_required="n2", time_limit_s=4 * HOUR_S),
    job(nodes_min=3, exclusive=True),
]  # fmt: skip
THREE = FAST | {"nodes": 3}


def test_what_is_named_starts_and_more_does_not() -> None:
    found = fits(world(*QUEUE, **THREE))["debug"]
    assert found[("node", 0)] == Fit("node", 1, 8, 8000, 4, 4 * HOUR_S, ("n3",))
    assert found[("whole_nodes", 0)].nodes == 1
    assert {key[1]: fit.nodes for key, fit in found.items() if key[0] == "gpu_nodes"} == {1: 3, 2: 3, 4: 1}
    for fit in found.values():
        assert fit.limit_s == 4 * HOUR_S  # then job 3 takes all
        assert starts(QUEUE, THREE, wanted(fit)), fit
        assert not starts(QUEUE, THREE, wanted(fit, time_limit_s=6 * HOUR_S)), fit
    for key, more in ((("node", 0), {"cpus_per_task": 9}), (("gpu_nodes", 4), {"nodes_min": 2, "ntasks": 2})):
        assert not starts(QUEUE, THREE, wanted(found[key], **more)), key


def test_a_node_with_more_cpus_and_no_free_gpu_is_told_too() -> None:
    queue = [
        job(gres_per_node=(("gpu", "", 4),), nodes_required="n1"),
        job(cpus_per_task=5, gres_per_node=(("gpu", "", 2),), nodes_required="n2"),
    ]
    found = fits(world(*queue, **FAST))["debug"]
    assert (found[("node", 0)].gpus, found[("node", 0)].cpus) == (2, 3)
    assert (found[("cpu_node", 0)].gpus, found[("cpu_node", 0)].cpus, found[("cpu_node", 0)].names) == (0, 7, ("n1",))


def test_nothing_fits_on_a_full_cluster() -> None:
    assert fits(world(job(nodes_min=2, exclusive=True), **FAST)) == {"debug": {}}


def test_partitions_have_their_limits() -> None:
    config = make_config(nodes=4, cpus=4)
    names = tuple(node.name for node in config.nodes)
    partitions = (
        PartitionConfig("debug", names, is_default=True), PartitionConfig("small", names, max_nodes=2, max_time_s=600),
        PartitionConfig("off", names),
    )  # fmt: skip
    made = World(replace(config, partitions=partitions))
    for name in names:
        made.register(name)
    made.do(UpdatePartition(made.actor("root"), "off", {"state": "down"}, made.reply_to()))
    found = fits(made)
    assert found["debug"][("whole_nodes", 0)].nodes == 4
    assert (found["small"][("whole_nodes", 0)].nodes, found["small"][("whole_nodes", 0)].limit_s) == (2, -1)
    assert found["off"] == {}
    assert list(fits(made, "small")) == ["small"]


def test_many_sizes_are_closed_in_on() -> None:
    """More nodes, cpus and MB than a round asks about."""
    queue = [job(cpus_per_task=1, mem_per_node_mb=1, nodes_required=f"n{i}") for i in range(1, 5)]
    found = fits(world(*queue, nodes=140, cpus=300, mem_mb=77_777))["debug"]
    assert found[("whole_nodes", 0)].nodes == 136
    assert (found[("cpu_node", 0)].cpus, found[("cpu_node", 0)].mem_mb) == (300, 77_777)
