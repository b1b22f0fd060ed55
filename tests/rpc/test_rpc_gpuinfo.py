"""What the controller shows of GPUs: state that counts, who has each, numbers that people know."""

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from ctld.agents.gpumessages import NOTE_MAX, NOTES_MAX, XIDS_MAX, opinion_of
from ctld.core.gpus import inventory as gpus
from ctld.core.gpus.inventory import constraint
from ctld.core.records.events import GpuIdle, JobSubmission
from ctld.core.records.gpu import GpuFacts, GpuOpinion
from ctld.rpc.cluster.gpuinfo import GpuInfos, drain_uids
from ctld.rpc.gate.visibility import ALL_JOBS, JobVisibility
from ctld.rpc.jobs.jobinfo import details, job_info
from penstock.v1 import common_pb2, node_pb2
from penstock.v1.controller_pb2 import JobInfo
from penstock.values.gpustates import GpuState
from penstock.values.gres import Gres
from tests.core.world import World, make_config

GIB = 1024


def uuid(number: int) -> str:
    return f"GPU-{number:08d}-0000-4000-8000-000000000000"


def card(number: int, index: int, type_: str = "a100", **more: Any) -> GpuFacts:
    return GpuFacts(uuid(number), index, index, type_, 80 * GIB, bus_id=f"00000000:{index:02X}:00.0", **more)


def world(*found: GpuFacts, gpus: int = 2, opinions: tuple[GpuOpinion, ...] = (), **more: int) -> World:
    made = World(make_config(nodes=1, cpus=8, gpus=gpus, **more))
    made.register("n1", gpus=found, gpu_opinions=opinions)
    return made


KEPT: WeakKeyDictionary[World, GpuInfos] = WeakKeyDictionary()


def with_gres(*gres: Gres) -> World:
    config = make_config(nodes=1, cpus=8)
    return World(replace(config, nodes=(replace(config.nodes[0], gres=gres),)))


def take(made: World, kind: str = "gpu", type_: str = "", count: int = 1) -> None:
    made.submit(JobSubmission(name="j", work_dir=b"/tmp", gres_per_node=((kind, type_, count),), time_limit_s=60))


def infos(made: World, visibility: JobVisibility = ALL_JOBS) -> Any:
    """As one says who has kept what it said before, which must be what another says who has said nothing yet."""
    state = made.core.state
    asked = (state, state.node_list, {0: "root"}, visibility)
    found = KEPT.setdefault(made, GpuInfos()).of_nodes(*asked)
    assert found == GpuInfos().of_nodes(*asked)
    return found.get("n1", [])


def report_idle(made: World, job_id: int, *uuids: str, over: bool = False) -> None:
    made.sequence += 1
    job = made.core.state.jobs[job_id]
    head = ("n1", "spool-n1", made.sequence, made.links["n1"])
    made.do(GpuIdle(*head, job_id, job.attempt, uuids, made.now_us - 600_000_000, over))


def change(made: World, number: int, **fields: Any) -> None:
    state = made.core.state
    node = state.node_list[0]
    gpus.put(state, node, node.gpus[uuid(number)]._replace(**fields))
    gpus.settle(state, node)


def test_a_gpu_with_its_jobs() -> None:
    made = world(card(1, 0), card(2, 1))
    take(made)
    first, second = infos(made)
    assert (first.uuid, first.index, first.type, first.memory_mb, first.state) == (
        uuid(1), 0, "a100", 80 * GIB, "HEALTHY",
    )  # fmt: skip
    assert (list(first.job_ids), list(second.job_ids)) == ([1], [])
    assert not first.reason and not first.work and first.slot == 0


def test_what_is_told_of_a_node_is_made_again_when_it_is_another() -> None:
    made = world(card(1, 0), card(2, 1))
    before = infos(made)
    assert infos(made) is before
    take(made)
    now = infos(made)
    assert now is not before and infos(made) is now
    hidden = infos(made, JobVisibility(uid=4242))  # for whom there is no job
    assert hidden == before and infos(made) == now


def test_parts_of_a_gpu_have_jobs_too() -> None:
    made = world(card(1, 0), card(2, 1), shards=8)
    for _ in range(2):
        take(made, "shard")
    assert [list(gpu.job_ids) for gpu in infos(made)] == [[1, 2], []]


def test_the_job_that_leaves_a_gpu_idle_is_told() -> None:
    made = world(card(1, 0), card(2, 1), gpu_idle_warn_s=600)
    take(made)
    made.started(1)
    idle = [(1, made.now_us - 600_000_000), (0, 0)]
    report_idle(made, 1, uuid(1))
    assert [(gpu.idle_job_id, gpu.idle_since_us) for gpu in infos(made)] == idle
    hidden = infos(made, JobVisibility(uid=4242))  # to whom the job is not named, what it does is not told either
    assert [(list(gpu.job_ids), gpu.idle_job_id, gpu.idle_since_us) for gpu in hidden] == [([], 0, 0)] * 2
    report_idle(made, 1, uuid(1), over=True)
    assert [gpu.idle_job_id for gpu in infos(made)] == [0, 0]


def test_what_an_ended_job_left_idle_is_told_no_more() -> None:
    made = world(card(1, 0), card(2, 1), gpu_idle_warn_s=600)
    take(made)
    made.started(1)
    report_idle(made, 1, uuid(1))
    made.exited(1)
    take(made)  # the next one has not left it idle
    first = infos(made)[0]
    assert (list(first.job_ids), first.idle_job_id, first.idle_since_us) == ([2], 0, 0)


def test_xids_are_told_as_the_node_counts_them() -> None:
    made = world(card(1, 0), card(2, 1), opinions=(GpuOpinion(uuid(2), xids=((13, 4, 7_000_000), (63, 1, 0))),))
    first, second = infos(made)
    assert not first.xids
    made.report_gpus("n1", GpuOpinion(uuid(1), notes=("ecc_pending",)))
    assert list(infos(made)[0].notes) == ["ecc_pending"] and not second.notes
    assert [(one.xid, one.times, one.last_us) for one in second.xids] == [(13, 4, 7_000_000), (63, 1, 0)]
    made.report_gpus("n1", GpuOpinion(uuid(2), xids=((13, 5, 9_000_000),)))
    assert [(one.xid, one.times) for one in infos(made)[1].xids] == [(13, 5)]


def test_of_what_a_node_says_of_xids_only_so_much_is_kept() -> None:
    said = node_pb2.GpuHealth(
        uuid=uuid(1), xids=[common_pb2.GpuXid(xid=n, times=1) for n in range(99)], notes=["a\n" * 99] * 99
    )
    assert opinion_of(said).notes == ("a?" * (NOTE_MAX // 2),) * NOTES_MAX
    assert opinion_of(said).xids == tuple((n, 1, 0) for n in range(XIDS_MAX))


def test_the_worse_opinion_is_told_with_who_has_it() -> None:
    made = world(card(1, 0), card(2, 1), opinions=(GpuOpinion(uuid(2), GpuState.FAILED, "XID 79", 5_000_000),))
    change(made, 1, drained=True, drain_reason="loud fan", drain_uid=0, drain_at_us=9_000_000)
    change(made, 2, drained=True, drain_reason="to be sent back", drain_uid=0, drain_at_us=9_000_000)
    first, second = infos(made)
    assert (first.state, first.reason, first.reason_user, first.since_us) == ("DRAINED", "loud fan", "root", 9_000_000)
    assert (second.state, second.reason, second.reason_user, second.since_us) == ("FAILED", "XID 79", "", 5_000_000)
    assert drain_uids(made.core.state.node_list) == [0]


def test_an_instance_comes_below_its_gpu_which_has_its_jobs() -> None:
    parent = card(1, 0, mig_enabled=True)
    instances = [
        GpuFacts(f"MIG-{n}", 0, 0, "1g.10gb", 10 * GIB, parent=uuid(1), profile="1g.10gb", slices=1) for n in (1, 2)
    ]
    made = with_gres(Gres("gpu", "1g.10gb", 2))
    made.register("n1", gpus=(parent, *instances))
    take(made)
    found = infos(made)
    assert [(gpu.uuid, gpu.parent_uuid, list(gpu.job_ids), gpu.slot) for gpu in found] == [
        (uuid(1), "", [1], -1),
        ("MIG-1", uuid(1), [1], 0),
        ("MIG-2", uuid(1), [], 1),
    ]


def test_a_gpu_that_is_gone_comes_last() -> None:
    made = world(card(1, 0), card(2, 1))
    made.register("n1", gpus=(card(2, 0),))
    assert [(gpu.uuid, gpu.state) for gpu in infos(made)] == [(uuid(2), "HEALTHY"), (uuid(1), "FAILED")]


def test_numbers_are_those_that_people_know() -> None:
    """Places go by type, as the configuration numbers them; nvidia-smi goes by the bus."""
    made = with_gres(Gres("gpu", "a100", 2), Gres("gpu", "h200", 1))
    made.register("n1", gpus=(card(1, 0), card(2, 1, "h200"), card(3, 2)))
    take(made, "gpu", "a100", 2)
    take(made, "gpu", "h200", 1)
    state = made.core.state
    shown = [job_info(made.jobs[job, 0], True, state.nodes).allocation[0].gres[0] for job in (1, 2)]
    assert [list(held.index) for held in shown] == [[0, 2], [1]]
    assert [list(held.uuid) for held in shown] == [[uuid(1), uuid(3)], [uuid(2)]]
    row = made.jobs[1, 0]
    joined = job_info(row, False).SerializeToString() + details(row, state.nodes).SerializeToString()
    assert JobInfo.FromString(joined) == job_info(row, True, state.nodes)


def test_a_node_without_gpus_says_nothing() -> None:
    made = world(gpus=0)
    assert infos(made) == []


def test_the_means_against_other_jobs_is_told_where_it_is_in_use() -> None:
    config = make_config(nodes=1)
    node = World(config).core.state.node_list[0]
    node.gpu_constraint = "cgroup/v2"
    off, on = (replace(config, cgroup=replace(config.cgroup, constrain_devices=said)) for said in (False, True))
    assert [constraint(one, node) for one in (config, on, off)] == ["cgroup/v2", "cgroup/v2", "env"]
    node.gpu_constraint = ""
    assert (constraint(config, node), constraint(on, node)) == ("", "")
