"""Whatever happens to heterogeneous jobs: their components start together or not at all.

The core's own check (het_life.check) runs after every deed; here is what it cannot see, the order of starts.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from ctld.core.records.events import CancelJobs, ControlAction, ControlJobs, JobFilter, JobSubmission, UpdateJobs
from ctld.core.records.job import Job
from penstock.values.states import ALLOCATED_STATES, END_STATES, JobState
from tests.core.hetscript import het_event
from tests.core.world import World, make_config

DEEDS = (
    "het", "het", "het", "plain", "start", "start", "exit", "exit", "cancel", "hold", "release", "requeue", "restart",
    "drop", "back", "advance", "advance", "nice", "suspend",
)  # fmt: skip
PRIORITIES = ("priority/basic", "priority/multifactor")


class Play:
    """A world with two partitions, and what is done to it."""

    def __init__(self, priority_type: str, depth: int) -> None:
        parameters = (("default_queue_depth", str(depth)), ("bf_max_job_user", "7"))
        self.world = World(make_config(nodes=3, cpus=4, priority_type=priority_type, scheduler_parameters=parameters))
        for node in self.world.config.nodes:
            self.world.register(node.name)

    def jobs(self, *states: JobState) -> list[Job]:
        found = self.world.core.state.jobs.values()
        return sorted((job for job in found if job.state in states), key=lambda job: job.job_id)

    def het(self, a: int, b: int) -> None:
        sizes = [1 + a % 5, 1 + b % 9, 1 + (a + b) % 4][: 2 + a % 2]
        fields = [{"ntasks": str(n), "nodes_min": str(1 + n // 5), "time_limit_s": str(30 * n)} for n in sizes]
        if b % 4 == 0:
            fields[-1]["hold"] = "true"
        self.world.do(het_event(self.world, fields))

    def plain(self, a: int, b: int) -> None:
        self.world.submit(JobSubmission(name="p", work_dir=b"/tmp", ntasks=1 + a % 4, time_limit_s=60))

    def _step(self, a: int) -> int:
        found = sorted(job_id for steps in self.world.running.values() for job_id, _ in steps)
        return found[a % len(found)] if found else 0

    def start(self, a: int, b: int) -> None:
        job_id = self._step(a)
        if job_id and self.world.links.get(self.world.where(job_id)[0]):
            self.world.started(job_id)

    def exit(self, a: int, b: int) -> None:
        job_id = self._step(a)
        if job_id and self.world.links.get(self.world.where(job_id)[0]):
            self.world.exited(job_id, b % 3)

    def _one(self, a: int) -> str:
        found = [job for job in self.world.core.state.jobs.values() if job.state not in END_STATES]
        job = found[a % len(found)] if found else None
        if job is None:
            return "1"
        request = job.request
        return f"{request.het_job_id}+{request.het_offset}" if request.het_job_id and a % 2 else str(job.job_id)

    def cancel(self, a: int, b: int) -> None:
        which = JobFilter(ids=(self._one(a),))
        self.world.do(CancelJobs(self.world.actor("ann"), which, reply_to=self.world.reply_to()))

    def _control(self, action: ControlAction, a: int, user: str = "ann") -> None:
        self.world.do(ControlJobs(self.world.actor(user), (self._one(a),), action, self.world.reply_to()))

    def hold(self, a: int, b: int) -> None:
        self._control(ControlAction.HOLD, a)

    def release(self, a: int, b: int) -> None:
        self._control(ControlAction.RELEASE, a)

    def requeue(self, a: int, b: int) -> None:
        self._control(ControlAction.REQUEUE, a)

    def suspend(self, a: int, b: int) -> None:
        self._control(ControlAction.SUSPEND if b % 2 else ControlAction.RESUME, a, "opa")

    def nice(self, a: int, b: int) -> None:
        event = UpdateJobs(self.world.actor("root"), (self._one(a),), {"nice": str(b % 100)}, {}, self.world.reply_to())
        self.world.do(event)

    def restart(self, a: int, b: int) -> None:
        self.world.restart()
        self.world.settle()
        for node in self.world.config.nodes:
            self.world.register(node.name)

    def drop(self, a: int, b: int) -> None:
        name = f"n{1 + a % 3}"
        if self.world.links.get(name):
            self.world.disconnect(name)

    def back(self, a: int, b: int) -> None:
        for node in self.world.config.nodes:
            if not self.world.links.get(node.name):
                self.world.register(node.name)

    def advance(self, a: int, b: int) -> None:
        self.world.advance(1 + a % 40)


@given(
    st.sampled_from(PRIORITIES),
    st.sampled_from([1, 2, 3, 100]),
    st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 30), st.integers(0, 30)), max_size=40),
)
@example("priority/basic", 1, [("het", 17, 5)])  # a pass that would see the leader alone
def test_components_start_together(priority_type: str, depth: int, deeds: list[tuple[str, int, int]]) -> None:
    play = Play(priority_type, depth)
    for name, a, b in deeds:
        getattr(play, name)(a, b)
        _check(play)
    play.back(0, 0)
    for _ in range(6):
        play.advance(39, 0)
        _check(play)


def _check(play: Play) -> None:
    starts: dict[tuple[int, int], dict[int, None]] = {}
    for job in play.world.core.state.jobs.values():
        if job.request.het_job_id and job.state in ALLOCATED_STATES - {JobState.COMPLETING}:
            starts.setdefault((job.request.het_job_id, job.attempt), {})[job.start_at_us] = None
    assert all(len(times) == 1 for times in starts.values()), starts
