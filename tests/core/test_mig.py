"""When GPUs are divided again: for which jobs, which GPUs, and what never happens."""

from ctld.core.passes.mig_division import FAILURE_PAUSES
from ctld.core.records.events import CancelJobs, JobFilter, LoadConfig, SubmitJob
from penstock.values.config import Config
from penstock.values.mig import parse_layouts
from penstock.values.states import JobState
from tests.core.migworld import MIXED, SEVEN, MigWorld, job, mig_config, reread
from tests.core.world import SPEC

US = 1_000_000
PAUSE_S = Config().mig_pause_s
FAILURE_PAUSE_S = FAILURE_PAUSES * PAUSE_S


def cancel(world: MigWorld, job_id: int) -> None:
    world.do(CancelJobs(world.actor("ann"), JobFilter(ids=(str(job_id),)), reply_to=world.reply_to()))


def test_a_job_that_wants_a_part_gets_a_gpu_divided() -> None:
    world = MigWorld(mig_config())
    out = world.submit(job("1g.18gb"))
    assert [line for line in out if line.startswith("divide")] == ["divide GPU-n1-0 into " + ",".join(SEVEN)]
    assert world.detail(1) == "waits for GPU 0 of n1 to be divided into 1g.18gb*7"
    assert world.gpu(0).is_closed()
    world.submit(job("2*h200"))
    world.submit(job("h200"))
    assert world.of_job(3) == ["GPU-n1-1"]  # the one that is left
    world.finish()
    assert world.of_job(1) == ["MIG-GPU-n1-0-0-1g.18gb"]
    assert world.detail(1) == ""
    assert world.orders == {}
    world.check()


def test_jobs_that_fit_the_same_division_wait_for_it_together() -> None:
    world = MigWorld(mig_config())
    for _ in range(7):
        world.submit(job("1g.18gb"))
    assert len(world.orders) == 1
    assert {world.detail(i) for i in range(1, 8)} == {"waits for GPU 0 of n1 to be divided into 1g.18gb*7"}
    world.finish()
    assert all(world.state_of(i) is JobState.RUNNING for i in range(1, 8))
    assert world.orders == {}
    world.submit(job("1g.18gb"))
    assert [order.uuid for order in world.orders.values()] == ["GPU-n1-1"]


def test_the_tasks_of_an_array_get_as_many_gpus_as_they_need() -> None:
    world = MigWorld(mig_config())
    world.submit(job("1g.18gb", array="0-13"))
    assert len(world.orders) == 2
    while world.orders:
        world.finish()
    assert sum(len(pairs) for pairs in world.used().values()) == 14
    world.check()


def test_the_layout_that_has_what_is_asked_for() -> None:
    world = MigWorld(mig_config())
    world.submit(job("3g.71gb"))
    assert [order.layout for order in world.orders.values()] == [MIXED]
    world.finish()
    assert world.of_job(1) == ["MIG-GPU-n1-0-0-3g.71gb"]
    world.submit(job("1g.18gb", "2g.35gb"))
    assert len(world.of_job(2)) == 2
    assert world.orders == {}


def test_two_gpus_are_divided_for_one_job_and_on_several_nodes() -> None:
    world = MigWorld(mig_config(nodes=2))
    world.submit(job("2*3g.71gb", nodes_min=2, nodes_max=2))
    assert [order.uuid for order in world.orders.values()] == ["GPU-n1-0", "GPU-n1-1", "GPU-n2-0", "GPU-n2-1"]
    while world.orders:
        world.finish()
    assert len(world.of_job(1)) == 4
    world.check()


def test_it_is_put_together_again_when_it_has_rested() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("1g.18gb"))
    world.finish()
    world.submit(job("h200"))
    world.started(1)
    world.exited(1)
    assert world.orders == {}
    assert world.state_of(2) is JobState.PENDING
    world.advance(PAUSE_S)
    assert [order.layout for order in world.orders.values()] == [()]
    assert world.detail(2) == "waits for GPU 0 of n1 to be made whole"
    world.finish()
    assert world.of_job(2) == ["GPU-n1-0"]
    world.check()


def test_nothing_is_divided_for_whom_something_is_free_or_who_waits_for_other_things() -> None:
    world = MigWorld(mig_config())
    world.submit(job("h200"))
    world.submit(job("1g.18gb", cpus_per_task=33, ntasks=1))  # refused, or never: no node has so many
    world.submit(job("1g.18gb", begin_at_us=world.now_us + 3600 * US))
    assert world.orders == {}
    world.submit(job("2*"))  # any two: an order without a type divides nothing
    assert world.orders == {}


def test_not_what_one_in_front_needs_as_it_is() -> None:
    world = MigWorld(mig_config(count=2))
    world.submit(job("h200"))
    world.submit(job("2*h200"))  # waits for both
    world.submit(job("1g.18gb"))
    assert world.orders == {}
    world.exited(1)
    assert world.of_job(2) == ["GPU-n1-0", "GPU-n1-1"]
    world.exited(2)
    assert [order.uuid for order in world.orders.values()] == ["GPU-n1-0"]


def test_gpus_that_are_not_configured_so_are_left_alone() -> None:
    world = MigWorld(mig_config(count=1, plain=1))
    world.submit(job("h200"))
    world.submit(job("1g.18gb"))
    assert [order.uuid for order in world.orders.values()] == []  # the first one is in use
    world.exited(1)
    assert [order.uuid for order in world.orders.values()] == ["GPU-n1-0"]


def test_a_gpu_in_use_is_kept_for_the_first_who_waits_for_it() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("h200", limit_s=600))
    world.submit(job("1g.18gb"))
    world.submit(job("h200", limit_s=60))
    assert world.detail(2) == "waits for GPU 0 of n1 to be idle and then to be divided into 1g.18gb*7"
    assert world.gpu(0).kept_for == 2
    assert reread(world.gpu(0)) == world.gpu(0)
    world.exited(1)
    assert world.of_job(3) == []
    assert [order.uuid for order in world.orders.values()] == ["GPU-n1-0"]
    assert world.gpu(0).kept_for == 0
    world.finish()
    assert world.of_job(2) == ["MIG-GPU-n1-0-0-1g.18gb"]
    world.check()


def test_what_was_kept_is_given_to_others_when_nobody_waits_for_it() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("h200"))
    world.submit(job("1g.18gb"))
    world.submit(job("h200"))
    cancel(world, 2)
    world.exited(1)
    assert world.gpu(0).kept_for == 0
    assert world.of_job(3) == ["GPU-n1-0"]


def test_of_several_the_one_that_is_free_first_is_kept() -> None:
    world = MigWorld(mig_config(count=2))
    world.submit(job("h200", limit_s=6000))
    world.submit(job("h200", limit_s=600))
    world.submit(job("1g.18gb"))
    assert [world.gpu(i).kept_for for i in (0, 1)] == [0, 3]


def test_after_a_failure_it_rests_and_after_three_it_is_drained() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("1g.18gb"))
    for number in range(3):
        assert len(world.orders) == 1, number
        world.finish(ok=False, text="nvmlDeviceCreateGpuInstance: Insufficient Resources; it is whole again")
        assert world.orders == {}
        world.check()
        world.advance(FAILURE_PAUSE_S - 1)
        assert world.orders == {}
        world.advance(1)
    gpu = world.gpu(0)
    assert gpu.drained
    assert gpu.drain_reason == (
        "could not be divided, 3 times in 24 hours: nvmlDeviceCreateGpuInstance: Insufficient Resources; it is whole again"
    )
    assert world.orders == {}


def test_another_gpu_is_taken_when_one_cannot_be_divided() -> None:
    world = MigWorld(mig_config(count=2))
    world.submit(job("1g.18gb"))
    world.finish(ok=False)
    assert [order.uuid for order in world.orders.values()] == ["GPU-n1-1"]
    world.submit(job("h200"))
    assert world.of_job(2) == ["GPU-n1-0"]  # it is as good as before


def test_one_that_is_in_no_layout_of_its_own_any_more_is_drained() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("1g.18gb"))
    world.finish(ok=False, becomes=parse_layouts("2g.35gb")[0])
    assert world.gpu(0).drained
    assert world.gpu(0).drain_reason == "could not be divided: refused"
    world.check()


def test_a_controller_that_starts_anew_waits_for_the_division() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("1g.18gb"))
    work_id = next(iter(world.orders))
    world.restart()
    world.register("n1")
    assert list(world.orders) == [work_id]  # sent again, begun once
    assert world.gpu(0).is_closed()
    assert world.detail(1) == "waits for GPU 0 of n1 to be divided into 1g.18gb*7"
    world.finish()
    assert world.of_job(1) == ["MIG-GPU-n1-0-0-1g.18gb"]
    world.check()


def test_a_node_that_is_lost_meanwhile() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("1g.18gb"))
    work_id = next(iter(world.orders))
    world.disconnect("n1")
    world.finish()
    world.orders = {}
    world.register("n1")
    assert list(world.orders) == [work_id]
    world.finish()
    assert world.of_job(1) == ["MIG-GPU-n1-0-0-1g.18gb"]
    world.check()


def test_layouts_that_leave_the_configuration_are_forgotten() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("h200"))
    world.submit(job("1g.18gb"))
    assert world.gpu(0).kept_for == 2
    plain = mig_config(count=1, layouts="whole")
    cancel(world, 2)
    world.do(LoadConfig(plain, world.reply_to()))
    assert world.gpu(0).kept_for == 0
    world.exited(1)
    world.submit(job("h200"))
    assert world.of_job(3) == ["GPU-n1-0"]


def test_the_queue_is_looked_at_from_its_head_only() -> None:
    world = MigWorld(mig_config(count=1))
    for _ in range(80):
        world.submit(job("h200"))
    world.submit(job("1g.18gb"))
    assert world.orders == {}
    assert world.gpu(0).kept_for == 0


def test_cards_that_are_not_to_be_changed_are_not_divided() -> None:
    world = MigWorld(mig_config(gpu_settings="read-only"))
    world.submit(job("1g.18gb"))
    assert world.orders == {}


def test_while_it_rests_after_a_failure_others_have_it() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("1g.18gb"))
    world.finish(ok=False)
    world.submit(job("h200"))
    assert world.of_job(2) == ["GPU-n1-0"]
    assert world.gpu(0).kept_for == 0
    world.advance(FAILURE_PAUSE_S)
    assert world.gpu(0).kept_for == 1


def test_in_a_strict_queue_nothing_is_divided_for_those_behind_the_first() -> None:
    world = MigWorld(mig_config(count=2, penstock_backfill="fifo"))
    world.submit(job("h200"))
    world.submit(job("2*h200"))
    world.submit(job("3g.71gb"))
    assert world.orders == {}
    assert [world.gpu(i).kept_for for i in (0, 1)] == [0, 0]


def test_what_is_divided_when_layouts_leave_the_file_is_made_whole_again() -> None:
    world = MigWorld(mig_config(count=1))
    world.submit(job("1g.18gb"))
    world.finish()
    world.exited(1)
    world.do(LoadConfig(mig_config(count=1, layouts="whole"), world.reply_to()))
    world.submit(job("h200"))
    world.advance(PAUSE_S)
    assert [order.layout for order in world.orders.values()] == [()]
    world.finish()
    assert world.of_job(2) == ["GPU-n1-0"]


def test_components_of_a_heterogeneous_job_are_served_together() -> None:
    world = MigWorld(mig_config(count=2))
    parts = (job("1g.18gb"), job("3g.71gb"))
    submitted = SubmitJob(world.actor("ann"), "h", world.now_us, parts[0], SPEC, False, world.reply_to(), parts[1:])
    world.do(submitted)
    while world.orders:
        world.finish()
    assert len(world.of_job(1)) == 1
    assert len(world.of_job(2)) == 1
    world.check()
