"""A SLUID selects the one job with its id and time of submission: no other part of an array, no job of another cluster."""

from penstock.values.jobid import format_sluid
from penstock.values.states import JobState
from tests.core.test_scripts import Script


def made(**fields: str) -> Script:
    """A cluster of one CPU with job 1."""
    script = Script()
    script.cluster([], {"nodes": "1", "cpus": "1"})
    script.submit([], fields)
    return script


def sluid(script: Script, job_id: int, later_s: int = 0) -> str:
    return format_sluid(script.world.core.state.jobs[job_id].submit_at_us + later_s * 1_000_000, job_id)


def states(script: Script) -> dict[int, JobState]:
    return {job_id: job.end_state or job.state for job_id, job in script.world.core.state.jobs.items()}


def test_it_selects_for_requests() -> None:
    script = made()
    script.submit([], {})
    other = sluid(script, 2, later_s=-1)
    assert script.hold([other], {}) == [f"{other}: Invalid job id specified"]
    assert not script.world.core.state.jobs[2].hold
    script.hold([sluid(script, 2)], {})
    assert script.world.core.state.jobs[2].hold
    script.cancel([sluid(script, 1, later_s=1)], {})
    assert states(script) == {1: JobState.RUNNING, 2: JobState.PENDING}
    script.cancel([sluid(script, 1)], {})
    assert states(script) == {1: JobState.CANCELLED, 2: JobState.PENDING}


def test_a_dependency_names_a_job_by_it() -> None:
    script = made()
    named = sluid(script, 1)
    script.submit([], {"dependency": f"afterok:{named}"})
    jobs = script.world.core.state.jobs
    assert jobs[2].dependency == "afterok:1(unfulfilled)"
    wrong = sluid(script, 1, later_s=1)
    refused = script.submit([], {"dependency": f"afterok:{wrong}"})
    assert len(jobs) == 2 and "no job with the id 1 has this SLUID" in " ".join(refused)


def test_a_dependency_on_one_task_of_an_array_by_it() -> None:
    script = made(array="0-3")
    (running,) = [job_id for job_id, state in states(script).items() if state is JobState.RUNNING]
    script.submit([], {"dependency": f"afterany:{sluid(script, running)}"})
    jobs = script.world.core.state.jobs
    task = jobs[running]
    assert jobs[max(jobs)].dependency == f"afterany:{task.array_job_id}_{task.array_task_id}(unfulfilled)"


def test_it_selects_one_record_of_an_array() -> None:
    script = made(array="0-3")
    running = [job_id for job_id, state in states(script).items() if state is JobState.RUNNING]
    assert len(running) == 1 and len(states(script)) == 2
    script.cancel([sluid(script, running[0])], {})
    left = states(script)
    assert left.pop(running[0]) is JobState.CANCELLED
    assert set(left.values()) <= {JobState.PENDING, JobState.RUNNING} and left
