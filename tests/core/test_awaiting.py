"""Callers that wait for jobs: the same as a list of pairs would do, and no walk over the others when one disconnects."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.effects import JobEnded
from ctld.core.records.events import AwaitJob, JobSubmission, StopWaiting
from ctld.core.state.awaiting import Awaiting
from tests.core.world import World, make_config


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "stop"]), st.integers(1, 3), st.integers(1, 6))))
def test_it_is_a_list_of_pairs(story: list[tuple[str, int, int]]) -> None:
    awaiting, pairs = Awaiting(), dict[int, int]()  # reply_to -> job id
    for what, job_id, reply_to in story:
        if what == "add" and reply_to not in pairs:
            awaiting.add(job_id, reply_to)
            pairs[reply_to] = job_id
        elif what == "take":
            assert awaiting.take(job_id) == [one for one, of in pairs.items() if of == job_id]
            pairs = {one: of for one, of in pairs.items() if of != job_id}
        elif what == "stop":
            awaiting.stop(reply_to)
            pairs.pop(reply_to, None)
        assert len(awaiting) == len(pairs)
    for job_id in (1, 2, 3):
        awaiting.take(job_id)
    assert not awaiting.callers and not awaiting.job_ids


class NeverWalked(dict[int, Any]):
    """A table whose entries are found by their keys alone."""

    def __iter__(self) -> Any:
        raise AssertionError("a walk over all jobs that are awaited")

    items = values = keys = __iter__


def test_a_disconnect_does_not_walk_over_the_others() -> None:
    world = World(make_config(nodes=1))
    world.register("n1")
    for _ in range(3):
        world.submit(JobSubmission(name="a", work_dir=b"/", hold=True))
    replies = [world.reply_to() for _ in range(6)]
    for number, reply_to in enumerate(replies):
        world.do(AwaitJob(world.actor("ann"), number % 3 + 1, reply_to))
    awaiting = world.core.state.awaiting
    awaiting.callers, awaiting.job_ids = NeverWalked(awaiting.callers), NeverWalked(awaiting.job_ids)
    world.do(StopWaiting(replies[0]))
    world.do(StopWaiting(replies[1]))
    world.do(StopWaiting(10_000))
    assert len(awaiting) == 4
    world.do(StopWaiting(replies[3]))
    assert [awaiting.take(job_id) for job_id in (1, 2, 3)] == [[], [replies[4]], [replies[2], replies[5]]]
    assert not any(isinstance(world.replies.get(reply_to), JobEnded) for reply_to in replies)
