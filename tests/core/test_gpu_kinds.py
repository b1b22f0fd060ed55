"""Types, memory, features and links that nodes say of their GPUs, and what jobs get by them."""

from dataclasses import replace
from typing import Any

import pytest

from ctld.core.diagnose.why import explain, inquire
from ctld.core.gpus.kinds import SIZES_MAX
from ctld.core.nodes import layout
from ctld.core.passes import queue_recovery
from ctld.core.records.events import JobSubmission
from ctld.core.records.gpu import GpuFacts, GpuOpinion
from ctld.core.records.violation import Violation
from ctld.core.state.state import ClusterState
from penstock.values.config import Config, DeviceConfig, NodeConfig, PartitionConfig
from penstock.values.gpustates import GpuState
from penstock.values.gres import Gres
from penstock.values.states import JobState, NodeFlag
from tests.core.test_gpus import gpu_jobs, ill, node_of, whose
from tests.core.world import World, make_config


def site(*lines: str, **more: Any) -> World:
    """A cluster of nodes n1.. with these GPUs in its file: `gpu:8`, `gpu:a100:2,gpu:4`; nobody has registered."""
    names = tuple(f"n{i}" for i in range(1, len(lines) + 1))
    nodes = []
    for name, line in zip(names, lines, strict=True):
        entries = [entry.split(":") for entry in line.split(",") if entry]
        gres = tuple(Gres(e[0], e[1] if len(e) > 2 else "", int(e[-1])) for e in entries)
        nodes.append(NodeConfig(name, name, name, 16, sockets=2, cores_per_socket=8, real_memory_mb=64_000, gres=gres))
    config = replace(
        make_config(**more), nodes=tuple(nodes), partitions=(PartitionConfig("debug", names, is_default=True),)
    )
    return World(config)


def cards(*types: str, **more: Any) -> tuple[GpuFacts, ...]:
    """GPUs of these types: `h200`, or `h200/143771` with memory."""
    found = []
    for index, text in enumerate(types):
        type_, _, memory = text.partition("/")
        found.append(GpuFacts(f"GPU-{'abcdefghijklmnopqrstuvw'[index]}", index, index, type_, int(memory or 0), **more))
    return tuple(found)


def ask(world: World, count: int, type_: str = "", gpu_mem_mb: int = 0, **more: Any) -> str:
    """sbatch; what came of it."""
    wanted = JobSubmission(
        name="j", work_dir=b"/", gres_per_node=(("gpu", type_, count),), time_limit_s=600, gpu_mem_mb=gpu_mem_mb, **more,
    )  # fmt: skip
    return world.submit(wanted)[0]


def state_of(world: World, job_id: int) -> str:
    return world.core.state.jobs[job_id].state.name


# ---- types ------------------------------------------------------------------------------------------------------------


def test_a_type_that_the_file_leaves_open_is_the_one_that_was_found() -> None:
    world = site("gpu:4")
    assert "Invalid generic resource" in ask(world, 1, "h200")
    world.register("n1", gpus=cards("h200", "h200", "h200", "h200"))
    assert node_of(world).config.gres == (Gres("gpu", "h200", 4),)
    assert ask(world, 1, "h200") == "submitted 1"
    world.restart()  # from the database, before the node is back
    assert node_of(world).config.gres == (Gres("gpu", "h200", 4),)
    assert ask(world, 2, "h200") == "submitted 2" and whose(world, 1) == ("GPU-a",)
    assert "gpu:h200:4" in ask(world, 5)


def test_a_long_queue_is_not_laid_out_anew_for_each_of_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that register while it is being laid out have their turn afterwards, all together, and before any job starts there."""
    monkeypatch.setattr(queue_recovery, "AT_ONCE", 5)
    monkeypatch.setattr(queue_recovery, "SLICE", 1)
    laid_out: list[int] = []
    take_config = layout.take_config

    def counted(state: ClusterState, config: Config, now_us: int) -> None:
        laid_out.append(now_us)
        take_config(state, config, now_us)

    monkeypatch.setattr(layout, "take_config", counted)
    types = ("h200", "h100", "a100", "b200", "l40s", "v100")
    world = site(*("gpu:1" for _ in types))
    for _ in range(25):
        ask(world, 1)
    for index, type_ in enumerate(types, 1):
        world.register(f"n{index}", gpus=(GpuFacts(f"GPU-{index}", 0, 0, type_, 80_000),))
    assert len(laid_out) == 1 and [state_of(world, job) for job in range(1, 26)] == ["PENDING"] * 25
    world.advance(10)
    assert len(laid_out) == 2
    assert [node.config.gres[0].type for node in world.core.state.node_list] == list(types)
    assert [state_of(world, job) for job in range(1, 26)].count("RUNNING") == len(types)


def test_a_configured_type_keeps_its_name() -> None:
    world = site("gpu:a100:2,gpu:2")
    world.register("n1", gpus=cards("nvidia_a100_80gb", "h100", "nvidia_a100_80gb", "h100"))
    assert node_of(world).config.gres == (Gres("gpu", "a100", 2), Gres("gpu", "h100", 2))
    assert node_of(world).gpu_slots == ("GPU-a", "GPU-c", "GPU-b", "GPU-d")
    ask(world, 2, "h100")
    assert whose(world, 1) == ("GPU-b", "GPU-d")


def test_missing_gpus_are_closed_and_count_as_those_that_were_there() -> None:
    world = site("gpu:4")
    world.register("n1", gpus=cards("a100", "a100", "h100", "h100"))
    world.register("n1", gpus=cards("a100", "a100", "h100"))
    node = node_of(world)
    assert node.config.gres == (Gres("gpu", "a100", 2), Gres("gpu", "h100", 2))
    assert node.gpu_closed == 0b1000 and not node.flags & NodeFlag.DRAIN
    assert ask(world, 2, "h100") == "submitted 1"
    assert state_of(world, 1) == "PENDING"
    world.register("n1", gpus=cards("a100", "a100", "h100", "h100"))
    assert whose(world, 1) == ("GPU-c", "GPU-d")


def test_a_node_that_has_fewer_than_the_file_says_from_the_start() -> None:
    world = site("gpu:8")
    world.register("n1", gpus=cards("h200", "h200", "h200"))
    node = node_of(world)
    assert node.config.gres == (Gres("gpu", "h200", 8),) and node.gpu_closed == 0b11111000
    assert not node.flags & NodeFlag.DRAIN
    gpu_jobs(world, 3)
    assert whose(world, 1) == ("GPU-a", "GPU-b", "GPU-c")


@pytest.mark.parametrize(
    ("line", "found", "why", "reason"),
    [
        ("gpu:2", (), "", "Low gres/gpu (reported:0 < configured:2)"),
        ("gpu:2", (), "NVML: driver not loaded", "Low gres/gpu (reported:0 < configured:2): NVML: driver not loaded"),
        ("gpu:a100:2", cards("h200"), "", "Low gres/gpu (reported:0 < configured:2): the node has h200"),
    ],
)  # fmt: skip
def test_a_node_without_any_is_drained(line: str, found: tuple[GpuFacts, ...], why: str, reason: str) -> None:
    world = site(line)
    world.register("n1", gpus=found, gres=(), gpu_why=why)
    assert node_of(world).flags & NodeFlag.DRAIN and node_of(world).reason == reason
    world.register("n1", gpus=cards("a100", "a100"), gres=())
    assert not node_of(world).flags & NodeFlag.DRAIN


def test_a_node_whose_gpus_are_files_needs_nobody_to_find_them() -> None:
    world = site("gpu:mi300:2")
    files = (("gpu", 0, "/dev/dri/renderD128"), ("gpu", 1, "/dev/dri/renderD129"))
    world.config = replace(world.config, nodes=(replace(world.config.nodes[0], device_files=files),))
    world.restart()
    world.register("n1", gres=())
    assert not node_of(world).flags & NodeFlag.DRAIN and not node_of(world).gpu_closed
    gpu_jobs(world, 2)
    assert state_of(world, 1) == "RUNNING"


def test_types_wait_for_the_jobs_that_hold_gpus() -> None:
    """The daemon is replaced by one that names types, while a job runs."""
    world = site("gpu:2")
    world.register("n1", gpus=cards("", ""))
    gpu_jobs(world, 1)
    world.register("n1", gpus=cards("h200", "h200"))
    assert node_of(world).config.gres == (Gres("gpu", "", 2),) and whose(world, 1) == ("GPU-a",)
    world.restart()
    world.register("n1", gpus=cards("h200", "h200"))
    assert node_of(world).config.gres == (Gres("gpu", "", 2),)
    world.exited(1)
    assert node_of(world).config.gres == (Gres("gpu", "h200", 2),)


def test_many_nodes_make_one_layout() -> None:
    world = site("gpu:2", "gpu:2", "gpu:2")
    world.busy = True
    for number, name in enumerate(("n1", "n2", "n3")):
        world.register(name, gpus=tuple(replace_uuid(card, f"{number}") for card in cards("h200/1000", "h200/1000")))
    world.busy = False
    before = world.core.state.layout.masks
    world.settle()
    after = world.core.state.layout.masks
    assert after is not before
    world.register("n1", gpus=tuple(replace_uuid(card, "0") for card in cards("h200/1000", "h200/1000")))
    assert world.core.state.layout.masks is after  # nothing new


def replace_uuid(card: GpuFacts, more: str) -> GpuFacts:
    return GpuFacts(card.uuid + more, card.index, card.minor, card.type, card.memory_mb, capability=card.capability)


# ---- memory -----------------------------------------------------------------------------------------------------------


def test_gpus_with_at_least_so_much_memory() -> None:
    world = site("gpu:4", "gpu:2")
    world.register("n1", gpus=cards("a100/40960", "a100/81920", "a100/40960", "h100/81559"))
    world.register("n2", gpus=tuple(replace_uuid(c, "2") for c in cards("h200/143771", "h200/143771")))
    assert ask(world, 2, gpu_mem_mb=60_000) == "submitted 1"
    assert whose(world, 1) == ("GPU-b", "GPU-d")
    assert ask(world, 1, "a100", gpu_mem_mb=60_000) == "submitted 2"
    assert state_of(world, 2) == "PENDING"  # the other a100 have 40 GB, n2 has no a100
    assert ask(world, 1, gpu_mem_mb=60_000) == "submitted 3"
    assert world.core.state.jobs[3].alloc[0].node == "n2"
    assert ask(world, 2, nodes_min=2, gpu_mem_mb=40_000) == "submitted 4"
    refused = ask(world, 2, "a100", gpu_mem_mb=60_000)
    assert refused.startswith("refused: Requested node configuration is not available")
    assert "GPUs with at most 143771 MB" in refused
    assert "not available" in ask(world, 1, gpu_mem_mb=200_000)
    assert "--gpu-mem needs whole GPUs" in world.submit(JobSubmission(name="j", work_dir=b"/", gpu_mem_mb=1))[0]


def test_type_and_memory_are_of_the_same_gpu() -> None:
    world = site("gpu:2", "gpu:2")
    world.register("n1", gpus=cards("a100/40960", "h100/81559"))
    assert "not available" in ask(world, 1, "a100", gpu_mem_mb=60_000)
    assert ("gpu", "a100>=81559") not in world.core.state.layout.gres_kinds  # nobody has one, nothing to count
    world.register("n2", gpus=tuple(replace_uuid(c, "2") for c in cards("a100/81559", "a100/81559")))
    assert ask(world, 1, "a100", gpu_mem_mb=60_000) == "submitted 1"
    assert world.core.state.jobs[1].alloc[0].node == "n2"
    world.exited(1)
    world.disconnect("n2")
    world.core.state.nodes["n2"].flags |= NodeFlag.DRAIN
    world.core.state.touch_node(world.core.state.nodes["n2"])
    ask(world, 1, "a100", gpu_mem_mb=60_000)
    assert state_of(world, 2) == "PENDING"


def test_a_gpu_of_unknown_memory_is_never_large_enough() -> None:
    world = site("gpu:2", "gpu:2")
    world.register("n1", gpus=cards("h200", "h200"))
    assert "not available" in ask(world, 1, gpu_mem_mb=1)
    world.register("n2", gpus=tuple(replace_uuid(c, "2") for c in cards("h200/1000", "h200/1000")))
    ask(world, 1, gpu_mem_mb=1)
    assert world.core.state.jobs[1].alloc[0].node == "n2"


def test_a_cluster_of_alike_gpus_counts_nothing_apart() -> None:
    world = site("gpu:2")
    assert set(world.core.state.layout.gres_kinds) == {("gpu", "")}
    world.register("n1", gpus=cards("h200/1000", "h200/1000"))
    assert set(world.core.state.layout.gres_kinds) == {("gpu", ""), ("gpu", "h200")}
    ask(world, 2, gpu_mem_mb=1_000)
    assert state_of(world, 1) == "RUNNING"
    assert "not available" in ask(world, 1, gpu_mem_mb=1_001)


def test_nobody_can_ask_for_a_kind_of_ours() -> None:
    world = site("gpu:2")
    world.register("n1", gpus=cards("h200/1000", "h200/2000"))
    assert ("gpu", ">=2000") in world.core.state.layout.gres_kinds
    assert "Invalid generic resource" in ask(world, 1, ">=2000")


def test_more_sizes_than_are_told_apart() -> None:
    world = site("gpu:20")
    world.register("n1", gpus=cards(*(f"x/{1000 + i}" for i in range(20))))
    assert len(world.core.state.gpus.sizes) == SIZES_MAX
    ask(world, 1, gpu_mem_mb=1_019)
    ask(world, 1, gpu_mem_mb=1_000)
    assert [state_of(world, job_id) for job_id in (1, 2)] == ["RUNNING"] * 2


# ---- health in the columns --------------------------------------------------------------------------------------------


def test_a_gpu_for_one_is_not_given_to_jobs_with_several() -> None:
    world = site("gpu:a100:2,gpu:h100:2")
    world.register("n1", gpus=cards("a100", "a100", "h100", "h100"))
    assert ("gpus", "") not in world.core.state.layout.gres_kinds
    world.report_gpus("n1", ill("a", many_only=True))
    assert ("gpus", "") in world.core.state.layout.gres_kinds
    ask(world, 2, "a100")
    assert state_of(world, 1) == "PENDING"
    ask(world, 2)
    assert whose(world, 2) == ("GPU-b", "GPU-c")
    ask(world, 1)
    assert whose(world, 3) == ("GPU-a",)
    world.exited(3)
    world.exited(2)
    world.report_gpus("n1", GpuOpinion("GPU-a"))
    assert whose(world, 1) == ("GPU-a", "GPU-b")
    world.restart()
    assert ("gpus", "") not in world.core.state.layout.gres_kinds


def test_suspects_come_last() -> None:
    world = site("gpu:4")
    links = lambda i: tuple(-1 if i == j else 4 if {i, j} == {0, 1} else 1 for j in range(4))  # noqa: E731
    found = tuple(
        GpuFacts(c.uuid, c.index, c.minor, "h200", links=links(i)) for i, c in enumerate(cards(*["h200"] * 4))
    )
    world.register("n1", gpus=found)
    world.report_gpus("n1", ill("a", GpuState.SUSPECT))
    ask(world, 2)
    assert whose(world, 1) == ("GPU-b", "GPU-c")
    world.exited(1)
    world.report_gpus("n1", GpuOpinion("GPU-a"))
    ask(world, 2)
    assert whose(world, 2) == ("GPU-a", "GPU-b")  # joined by more links
    ask(world, 1)
    assert whose(world, 3) == ("GPU-c",)


def test_gpus_are_near_the_cores_that_the_node_says() -> None:
    world = site("gpu:2")
    first, second = cards("h200", "h200")
    near = (
        GpuFacts(first.uuid, 0, 0, "h200", near_cpus=tuple(range(8, 16))),
        GpuFacts(second.uuid, 1, 1, "h200", near_cpus=tuple(range(8))),
    )
    world.register("n1", gpus=near)
    ask(world, 1, cpus_per_task=4)
    assert world.core.state.jobs[1].alloc[0].cpu_ids == 0b1111 << 8
    devices = (DeviceConfig("gpu", tuple(range(8))), DeviceConfig("gpu", tuple(range(8, 16))))
    world.exited(1)
    world.config = replace(world.config, nodes=(replace(world.config.nodes[0], devices=devices),))
    world.reload(["n1"])
    ask(world, 1, cpus_per_task=4)
    assert world.core.state.jobs[2].alloc[0].cpu_ids == 0b1111  # gres.conf knows better


# ---- features ---------------------------------------------------------------------------------------------------------


def test_features_that_nodes_have_by_themselves() -> None:
    world = site("gpu:2", "gpu:2")
    assert "gpu_h200" in ask(world, 1, features="gpu_h200")  # Invalid feature: nobody has said so
    world.register("n1", gpus=cards("h200/143771", "h200/143771", capability="9.0"))
    world.register("n2", gpus=tuple(replace_uuid(c, "2") for c in cards("a100/40960", "a100/40960", capability="8.0")))
    assert node_of(world).features == ("gpu_h200", "gpu_cc_9.0", "gpu_mem_140g")
    assert world.core.state.nodes["n2"].features == ("gpu_a100", "gpu_cc_8.0", "gpu_mem_40g")
    ask(world, 1, features="gpu_cc_8.0&gpu_mem_40g")
    assert world.core.state.jobs[1].alloc[0].node == "n2"
    world.disconnect("n2")
    ask(world, 2, features="gpu_a100")
    world.register("n2", gpus=tuple(replace_uuid(c, "3") for c in cards("h200/143771", "h200/143771")))
    world.exited(1)
    assert world.core.state.nodes["n2"].features == ("gpu_h200", "gpu_mem_140g")  # other cards, when nobody has them
    assert world.core.state.jobs[2].state is JobState.PENDING


def test_the_check_sees_a_wrong_count_of_large_gpus() -> None:
    world = site("gpu:2")
    world.register("n1", gpus=cards("h200/1000", "h200/2000"))
    world.core.state.node_columns.free_gres[0, world.core.state.layout.gres_kinds["gpu", ">=2000"]] = 2
    with pytest.raises(Violation, match="free, counted 1"):
        world.core.check()


def test_why_says_how_many_gpus_are_out_of_service() -> None:
    world = site("gpu:4")
    world.register("n1", gpus=cards("h200/1000", "h200/1000", "h200/2000", "h200/2000"))
    world.report_gpus("n1", ill("c"), ill("d"))
    ask(world, 3)
    ask(world, 1, gpu_mem_mb=2_000)
    state = world.core.state
    names = [
        [r.name for r in explain(inquire(state, world.now_us, state.jobs[i], world.actor("ann"))).needs[0].resources]
        for i in (1, 2)
    ]
    assert "gres/gpu (2 out of service)" in names[0] and "gres/gpu with 2000 MB (2 out of service)" in names[1]
