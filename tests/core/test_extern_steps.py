"""What surrounds a job: the order of its beginning and its end, and what failures lead to. Each test reads as a story."""

from typing import Any

import pytest

from ctld.core.records.effects import LaunchStep, RunScript, TerminateStep
from ctld.core.records.events import (
    AwaitAllocation,
    CancelJobs,
    ControlAction,
    ControlJobs,
    CreateStep,
    EndAllocation,
    HeldStep,
    JobFilter,
    JobSubmission,
    LaunchRefused,
    NodeRegistered,
    ScriptEnded,
    StepExited,
    StepStarted,
)
from ctld.core.records.job import SpecRow
from ctld.core.records.step import StepRequest
from penstock.values.config import PartitionConfig
from penstock.values.jobkind import JobKind
from penstock.values.states import JobState
from tests.core.world import US, World, make_config

EXTERN = -4


class Site(World):
    """A world whose nodes have extern steps: `held[node]` -> (job id, attempt)."""

    def __init__(self, **config: Any) -> None:
        nodes, cpus = config.pop("nodes", 1), config.pop("cpus", 2)
        self.held: dict[str, dict[tuple[int, int], None]] = {f"n{i}": {} for i in range(1, nodes + 1)}
        super().__init__(make_config(nodes=nodes, cpus=cpus, **config))
        for node in self.config.nodes:
            self.register(node.name)

    def _deliver(self, effect: object) -> list[str]:
        if isinstance(effect, RunScript):
            return [f"{effect.context} {effect.job.job_id}.{effect.job.attempt}"]
        if isinstance(effect, LaunchStep | TerminateStep) and effect.step_id == EXTERN:
            if effect.node not in self.links:
                return [f"lost on the way to {effect.node}"]
            key = (effect.job_id, effect.attempt)
            if isinstance(effect, TerminateStep):
                return [f"release {effect.job_id} on {effect.node}"]
            if key in self.held[effect.node]:
                return []
            self.held[effect.node][key] = None
            return [f"hold {effect.job_id}.{effect.attempt} on {effect.node}"]
        return super()._deliver(effect)

    def batch(self, **fields: Any) -> list[str]:
        return self.submit(JobSubmission(**{"name": "job", "work_dir": b"/tmp", **fields}))

    def up(self, job_id: int, node: str = "n1") -> list[str]:
        """An extern step's prolog is done."""
        self.sequence += 1
        job = self.core.state.jobs[job_id]
        spool = (f"spool-{node}", self.sequence, self.links[node])
        return self.do(StepStarted(node, job_id, job.attempt, EXTERN, self.now_us, *spool))

    def down(self, job_id: int, node: str = "n1", failure: str = "", stage: str = "", **more: Any) -> list[str]:
        """An extern step has gone."""
        self.sequence += 1
        key = next(key for key in self.held[node] if key[0] == job_id)
        del self.held[node][key]
        spool: tuple[Any, ...] = (f"spool-{node}", self.sequence, self.links[node])
        start_us = 0 if stage == "prolog" else self.now_us
        times: tuple[Any, ...] = (start_us, self.now_us, 1 if stage else 0, more.pop("signal", 0), failure)
        return self.do(StepExited(node, *key, EXTERN, *spool, *times, holder_stage=stage, **more))  # type: ignore[misc]  # in their order

    def register(self, name: str, **changes: object) -> list[str]:
        self.streams += 1
        self.links[name] = self.streams + 1000 * self.epoch
        held = tuple(HeldStep(*key, -5, "RUNNING", 1) for key in self.running[name])
        held += tuple(HeldStep(*key, -5, "TOMBSTONE", 0) for key in self.tombstones[name])
        held += tuple(HeldStep(*key, EXTERN, "RUNNING", 1) for key in self.held[name])
        node = next(n for n in self.config.nodes if n.name == name)
        return self.do(
            NodeRegistered(
                name, self.links[name], self.boots[name], f"spool-{name}", "1", node.cpus, 1, node.cpus, 1,
                node.real_memory_mb, 0, (), held,
            )
        )  # fmt: skip

    def state(self, job_id: int) -> str:
        job = self.core.state.jobs[job_id]
        return f"{job.state.name} {job.reason} {job.reason_detail}".rstrip()

    def node(self, name: str = "n1") -> str:
        node = self.core.state.nodes[name]
        return f"{node.flags.name if node.flags else 'up'} {node.reason}".rstrip()


def test_the_script_starts_when_all_holders_are_up_and_they_go_last() -> None:
    site = Site(nodes=2, prolog=("/p",))
    assert site.batch(nodes_min=2) == ["submitted 1", "hold 1.0 on n1", "hold 1.0 on n2"]
    assert site.up(1, "n1") == []
    assert site.state(1) == "CONFIGURING None"
    assert site.up(1, "n2") == ["launch 1.0 on n1 [n1:1cpu/1task n2:1cpu/1task]"]
    site.started(1)
    assert site.exited(1, code=3) == ["release 1 on n1", "release 1 on n2"]
    assert site.state(1) == "COMPLETING NonZeroExitCode"
    site.now_us += 60_000_000
    assert site.down(1, "n2") == []
    site.down(1, "n1")
    assert site.state(1) == "FAILED NonZeroExitCode"
    job = site.core.state.jobs[1]
    assert (job.exit_code, job.end_at_us) == (3, site.now_us - 60_000_000)
    assert site.steps[1, 0, EXTERN].state is JobState.COMPLETED
    assert site.node() == "up"


@pytest.mark.parametrize("config", [{"epilog": ("/e",)}, {"private_tmp": "/x"}, {"prolog_flags": ("Contain",)}])
def test_what_asks_for_holders(config: dict[str, Any]) -> None:
    assert Site(**config).batch() == ["submitted 1", "hold 1.0 on n1"]


def test_nothing_asks_for_holders() -> None:
    site = Site()
    assert site.batch() == ["submitted 1", "launch 1.0 on n1 [n1:1cpu/1task]"]
    site.started(1)
    assert site.exited(1) == []
    assert EXTERN not in site.core.state.jobs[1].steps


def test_a_cancel_during_the_prolog() -> None:
    site = Site(prolog=("/p",))
    site.batch()
    which = JobFilter(ids=("1",))
    assert site.do(CancelJobs(site.actor("ann"), which, reply_to=9)) == ["terminate 1 on n1 (CANCELLED)", "1: ok"]
    assert site.report_exit("n1", 1, 0, failure="ended before it was started") == ["release 1 on n1"]
    assert site.up(1) == []  # the prolog ends while the order to end is on its way
    site.down(1)
    assert site.state(1).startswith("CANCELLED")
    assert (1, 0) not in site.launches


def fail_prolog(site: Site, **more: Any) -> list[str]:
    """The prolog fails, the script that was never launched is buried."""
    attempt = site.core.state.jobs[1].attempt
    lines = site.down(1, failure="/p: exit status 1", stage="prolog", **more)
    return lines + site.report_exit("n1", 1, attempt, failure="ended before it was started")


def test_a_failed_prolog_drains_the_node_and_holds_the_job() -> None:
    site = Site(prolog=("/p",))
    site.batch()
    assert fail_prolog(site) == ["terminate 1 on n1 (PROLOG)"]
    assert site.node() == "DRAIN Prolog error"
    assert site.state(1) == "PENDING launch failed requeued held launch failed requeued held"
    released = ControlJobs(site.actor("opa"), ("1",), ControlAction.RELEASE, 9)
    site.do(released)
    site.advance(5)
    assert site.state(1).startswith("PENDING")  # there is no other node


def test_a_prolog_that_hung_is_named() -> None:
    site = Site(prolog=("/p",))
    site.batch()
    site.down(1, failure="/p: killed, it did not end within 5 s", stage="prolog", signal=9)
    assert site.node() == "DRAIN Prolog error: /p: killed, it did not end within 5 s"


def test_no_hold() -> None:
    for config in ({"prolog_flags": ("NoHold",)}, {"scheduler_parameters": (("nohold_on_prolog_fail", ""),)}):
        site = Site(nodes=2, prolog=("/p",), **config)
        site.batch()
        fail_prolog(site)
        assert site.state(1) == "PENDING BeginTime"
        assert "hold 1.1 on n2" in site.advance(5)


def test_without_a_drain_the_job_is_held_after_its_third_prolog() -> None:
    site = Site(prolog=("/p",), prolog_fail_drains=False)
    site.batch()
    for attempt in range(3):
        assert (1, attempt) in site.held["n1"]
        fail_prolog(site)
        assert site.node() == "up"
        site.advance(5)
    assert site.state(1) == "PENDING launch failed requeued held launch failed requeued held"


def test_no_requeue_ends_the_job_unless_the_flag_says_so() -> None:
    site = Site(prolog=("/p",))
    site.batch(requeue=False)
    fail_prolog(site)
    assert site.state(1) == "FAILED JobLaunchFailure /p: exit status 1"
    site = Site(prolog=("/p",), prolog_flags=("ForceRequeueOnFail",))
    site.batch(requeue=False)
    fail_prolog(site)
    assert site.state(1).startswith("PENDING launch failed requeued held")


def test_of_two_nodes_one_prolog_fails() -> None:
    site = Site(nodes=2, prolog=("/p",))
    site.batch(nodes_min=2)
    site.up(1, "n1")
    lines = site.down(1, "n2", failure="/p: exit status 1", stage="prolog")
    assert lines == ["terminate 1 on n1 (PROLOG)"]
    assert site.report_exit("n1", 1, 0, failure="ended before it was started") == ["release 1 on n1"]
    assert site.node("n2") == "DRAIN Prolog error"
    site.down(1, "n1")
    assert site.state(1).startswith("PENDING launch failed requeued held")
    assert site.node("n1") == "up"


def test_a_failed_epilog_drains_the_node_and_the_job_ends_well() -> None:
    site = Site(epilog=("/e",))
    site.batch()
    site.up(1)
    site.started(1)
    site.exited(1)
    site.down(1, failure="/e: exit status 2", stage="epilog")
    assert site.state(1) == "COMPLETED None"
    assert site.node() == "DRAIN Epilog error"


def test_processes_that_cannot_be_killed_drain_the_node() -> None:
    site = Site(epilog=("/e",))
    site.batch()
    site.up(1)
    site.started(1)
    site.exited(1)
    site.down(1, failure="processes are left", stage="kill")
    assert site.node() == "DRAIN Kill task failed"


def test_a_holder_that_is_lost_ends_its_job() -> None:
    site = Site(epilog=("/e",))
    site.batch()
    site.up(1)
    site.started(1)
    assert site.down(1, failure="supervisor lost", signal=9) == ["terminate 1 on n1"]
    site.exited(1, signal=9)
    assert site.state(1) == "FAILED SystemFailure supervisor lost"
    assert site.node() == "DRAIN Epilog error: supervisor lost"


def test_a_holder_that_could_not_be_started_is_nobodys_fault() -> None:
    site = Site(prolog=("/p",))
    site.batch(requeue=False)
    site.down(1, failure="no process", stage="", untried=True, signal=0)
    site.report_exit("n1", 1, 0, failure="ended before it was started")
    assert site.state(1) == "PENDING BeginTime"


def test_the_node_refuses_the_holder() -> None:
    site = Site(prolog=("/p",))
    site.batch()
    site.held["n1"].clear()
    site.do(LaunchRefused("n1", 1, 0, EXTERN, "no room"))
    site.report_exit("n1", 1, 0, failure="ended before it was started")
    assert site.state(1).startswith("PENDING launch failed requeued held")


def test_the_node_refuses_the_script_when_its_holder_is_up() -> None:
    site = Site(prolog=("/p",))
    site.batch()
    site.up(1)
    del site.running["n1"][1, 0]
    assert site.do(LaunchRefused("n1", 1, 0, -5, "no room")) == ["release 1 on n1"]
    assert site.state(1).startswith("COMPLETING")
    site.down(1)
    assert site.state(1).startswith("PENDING launch failed requeued held")


def test_the_controller_is_restarted_at_each_stage() -> None:
    site = Site(prolog=("/p",))
    site.batch()
    site.restart()
    assert site.register("n1") == []  # its extern step is there, its prolog not done: the script waits
    site.restart()
    site.held["n1"].clear()  # the launch was never heard
    assert site.register("n1") == ["hold 1.0 on n1"]
    assert site.up(1) == ["launch 1.0 on n1 [n1:1cpu/1task]"]
    site.started(1)
    site.exited(1)
    site.restart()
    assert site.register("n1") == ["release 1 on n1"]
    site.down(1)
    assert site.state(1) == "COMPLETED None"


def test_the_node_is_rebooted_under_a_holder() -> None:
    site = Site(prolog=("/p",))
    site.batch()
    site.up(1)
    site.started(1)
    site.disconnect("n1")
    site.reboot("n1")
    site.held["n1"].clear()
    site.register("n1")
    assert site.state(1) == "PENDING BeginTime"
    assert site.node() == "up"


def test_the_controllers_own_prolog_comes_first_and_its_epilog_is_nobodys_wait() -> None:
    site = Site(prolog_slurmctld=("/p",), epilog_slurmctld=("/e",), prolog_flags=("Alloc",))
    assert site.batch() == ["submitted 1", "prolog_slurmctld 1.0"]
    assert site.do(ScriptEnded(1, 0)) == ["hold 1.0 on n1"]
    assert site.up(1) == ["launch 1.0 on n1 [n1:1cpu/1task]"]
    site.started(1)
    site.exited(1)
    assert site.down(1) == ["epilog_slurmctld 1.0"]
    assert site.state(1) == "COMPLETED None"


def test_the_controllers_prolog_fails_or_is_late() -> None:
    site = Site(nodes=2, prolog_slurmctld=("/p",))
    site.batch()
    assert site.do(ScriptEnded(1, 0, "/p: exit status 1")) == ["terminate 1 on n1 (PROLOG)"]
    site.report_exit("n1", 1, 0, failure="ended before it was started")
    assert site.state(1).startswith("PENDING launch failed requeued held")
    assert site.node() == "up"
    assert site.do(ScriptEnded(1, 0)) == []  # a word about an attempt that is over


def test_the_controllers_prolog_is_run_again_after_a_restart() -> None:
    site = Site(prolog_slurmctld=("/p",))
    site.batch()
    site.restart()
    assert site.settle() == ["prolog_slurmctld 1.0"]
    assert site.register("n1") == []
    assert site.do(ScriptEnded(1, 0)) == ["launch 1.0 on n1 [n1:1cpu/1task]"]
    site.started(1)
    assert site.state(1) == "RUNNING None"


def test_a_job_that_waits_for_its_turn_begins_with_its_holder() -> None:
    """Time slices: the second job has its nodes, and nothing of it is there before its turn comes."""
    partition = PartitionConfig("debug", ("n1",), is_default=True, over_subscribe="FORCE:2")
    site = Site(cpus=1, prolog=("/p",), preempt_mode=("GANG",), sched_time_slice_s=30, partitions=(partition,))
    assert site.batch() == ["submitted 1", "hold 1.0 on n1"]
    site.up(1)
    site.started(1)
    assert site.batch() == ["submitted 2"]
    assert site.state(2).startswith("SUSPENDED")
    assert "hold 2.0 on n1" in site.advance(31)
    assert site.state(2).startswith("CONFIGURING")
    assert "launch 2.0 on n1 [n1:1cpu/1task]" in site.up(2)
    site.started(2)
    assert (site.state(1), site.state(2)) == ("SUSPENDED None", "RUNNING None")
    site.advance(31)
    assert (site.state(1), site.state(2)) == ("RUNNING None", "SUSPENDED None")


def test_a_turn_ends_during_a_prolog() -> None:
    partition = PartitionConfig("debug", ("n1",), is_default=True, over_subscribe="FORCE:2")
    site = Site(cpus=1, prolog=("/p",), preempt_mode=("GANG",), sched_time_slice_s=30, partitions=(partition,))
    site.batch()
    site.batch()
    site.advance(31)  # the first one's prolog has not ended
    assert site.up(1) == []
    assert (1, 0) not in site.launches
    site.up(2)
    site.started(2)
    assert "launch 1.0 on n1 [n1:1cpu/1task]" in site.advance(31)


def allocation(site: Site, **fields: Any) -> list[str]:
    """salloc: its owner is there and waits."""
    lines = site.batch(kind=JobKind.SALLOC, **fields)
    site.do(AwaitAllocation(site.actor("ann"), 1, True, site.reply_to()))
    return lines


def test_an_allocation_begins_with_its_holders_and_ends_with_them() -> None:
    site = Site(nodes=2, prolog=("/p",))
    assert allocation(site, nodes_min=2) == ["submitted 1", "hold 1.0 on n1", "hold 1.0 on n2"]
    site.up(1, "n1")
    assert site.state(1) == "CONFIGURING None"
    site.up(1, "n2")
    assert site.state(1) == "RUNNING None"
    end = EndAllocation(site.actor("ann"), 1, 2, 0, site.reply_to())
    assert site.do(end) == ["done", "release 1 on n1", "release 1 on n2"]
    site.down(1, "n1")
    site.down(1, "n2")
    assert site.state(1) == "FAILED NonZeroExitCode"


def test_an_allocation_that_ran_no_step_at_last_ends_when_its_owner_says_so() -> None:
    site = Site(prolog=("/p",))
    allocation(site)
    site.up(1)
    site.do(CreateStep(site.actor("ann"), 1, "k" * 32, StepRequest(), SpecRow(b"s", b"", (b"a",), ()), True, 99))
    site.step_started(1, 0)
    site.step_exited(1, 0)
    site.advance(3_600)
    site.do(EndAllocation(site.actor("ann"), 1, 0, 0, site.reply_to()))
    site.down(1)
    row = site.jobs[1, 0]
    assert row.state is JobState.COMPLETED
    assert row.end_at_us - row.start_at_us >= 3_600 * US


def test_an_allocation_whose_prolog_fails_is_cancelled() -> None:
    site = Site(prolog=("/p",))
    allocation(site)
    site.down(1, failure="/p: exit status 1", stage="prolog")
    assert site.state(1) == "CANCELLED JobLaunchFailure /p: exit status 1"


def test_an_allocation_goes_on_without_a_node_when_it_said_so() -> None:
    site = Site(nodes=2, prolog=("/p",))
    allocation(site, nodes_min=2, no_kill=True)
    site.up(1, "n1")
    site.up(1, "n2")
    site.disconnect("n2")
    site.reboot("n2")
    site.held["n2"].clear()
    assert "release 1 on n1" not in site.register("n2")
    assert site.state(1) == "RUNNING None"


@pytest.mark.parametrize("kind", [JobKind.SALLOC, JobKind.BATCH])
@pytest.mark.parametrize("n1_is_up", [True, False])
def test_a_job_begins_without_a_node_that_went_down_in_its_prolog(kind: JobKind, n1_is_up: bool) -> None:
    """With --no-kill; it stayed CONFIGURING (fault world 483)."""
    site = Site(nodes=2, prolog=("/p",), slurmd_timeout_s=300)
    site.batch(nodes_min=2, no_kill=True, kind=int(kind))
    if n1_is_up:
        site.up(1, "n1")
    site.disconnect("n2")
    lines = site.advance(300)
    assert site.node("n2").startswith("DOWN")
    if not n1_is_up:
        assert site.state(1) == "CONFIGURING None" and not [line for line in lines if "launch" in line]
        lines = site.up(1, "n1")
    assert site.state(1) == "RUNNING None"
    assert [line for line in lines if "launch" in line] == (
        [] if kind else ["launch 1.0 on n1 [n1:1cpu/1task n2:1cpu/1task]"]
    )


def test_an_allocation_begins_when_its_only_node_went_down_in_the_prolog() -> None:
    """Its owner decides, as with a node that goes down later; nodes that return run nothing of it."""
    site = Site(prolog=("/p",), slurmd_timeout_s=300)
    allocation(site, no_kill=True)
    site.disconnect("n1")
    site.advance(300)
    assert site.state(1) == "RUNNING None"
    site.reboot("n1")
    site.held["n1"].clear()
    assert site.register("n1") == []
    site.do(EndAllocation(site.actor("ann"), 1, 0, 0, site.reply_to()))
    assert site.state(1) == "COMPLETED None"


def test_a_script_whose_own_node_went_down_in_the_prolog_is_launched_once_on_another_run() -> None:
    site = Site(nodes=2, prolog=("/p",), slurmd_timeout_s=300)
    site.batch(nodes_min=2, no_kill=True)
    site.up(1, "n2")
    site.disconnect("n1")
    site.reboot("n1")
    site.held["n1"].clear()
    assert not [line for line in site.register("n1") if line.startswith("launch")]
    assert site.state(1).startswith(("COMPLETING", "PENDING"))


def test_prologs_that_fail_and_nodes_that_fall_silent_count_for_max_batch_requeue() -> None:
    """What its owner does in between does not."""
    site = Site(
        nodes=4, prolog=("/p",), prolog_flags=("NoHold",), max_batch_requeue=2, return_to_service=1,
        scheduler_parameters=(("requeue_delay", "0"),),
    )  # fmt: skip
    site.batch()
    site.up(1, "n1")
    site.started(1)
    site.do(ControlJobs(site.actor("ann"), ("1",), ControlAction.REQUEUE, 9))
    site.exited(1)
    site.down(1, "n1")
    counts = []
    for node in ("n1", "n2"):
        site.advance(5)
        site.down(1, node, failure="/p: exit status 1", stage="prolog")
        site.report_exit(node, 1, site.core.state.jobs[1].attempt, failure="ended before it was started")
        counts.append(site.core.state.jobs[1].failed_attempts)
    assert counts == [1, 2] and "Hold" not in site.state(1)
    site.advance(5)
    site.up(1, "n3")
    site.started(1)
    site.disconnect("n3")
    site.advance(3600)
    assert site.state(1) == "PENDING JobHoldMaxRequeue JobHoldMaxRequeue"
