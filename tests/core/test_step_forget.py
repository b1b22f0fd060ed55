"""Nodes keep what they know of a part until they are ordered to forget it."""

from ctld.core.records.effects import ForgetStep
from ctld.core.records.events import CreateStep, JobSubmission
from ctld.core.records.job import SpecRow
from ctld.core.records.step import StepRequest
from penstock.values.jobkind import JobKind
from tests.core.world import World, make_config


class Forgetful(World):
    """A world that remembers what nodes were ordered to forget."""

    forgotten: list[tuple[str, int, int]]

    def _deliver(self, effect: object) -> list[str]:
        if isinstance(effect, ForgetStep):
            self.forgotten.append((effect.node, effect.job_id, effect.step_id))
        return super()._deliver(effect)


def test_a_part_that_a_reboot_ended_is_forgotten_too() -> None:
    world = Forgetful(make_config(nodes=2))
    world.forgotten = []
    world.register("n1")
    world.register("n2")
    world.submit(
        JobSubmission(name="a", work_dir=b"/tmp", nodes_min=2, ntasks=2, kind=int(JobKind.SALLOC), no_kill=True)
    )
    request = StepRequest(ntasks=2, no_kill=True)
    world.do(CreateStep(world.actor("ann"), 1, "k" * 32, request, SpecRow(b"s", b"", (b"a",), ()), True, 99))
    world.step_started(1, 0)
    world.step_exited(1, 0, "n2", failure="the node was rebooted", rebooted=True)
    assert world.forgotten == [("n2", 1, 0)]
    world.step_exited(1, 0, "n1")
    assert world.forgotten == [("n2", 1, 0), ("n1", 1, 0)]
