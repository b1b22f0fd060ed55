"""A controller's core takes the configurations of public sites: their nodes register, and their default partition runs a job."""

from dataclasses import replace
from pathlib import Path

import pytest

from ctld.core.jobs.prolog_state import wants_extern_steps
from ctld.core.records.events import JobSubmission
from penstock.config import load
from penstock.values.states import JobState
from tests.core.world import World

SITES = Path(__file__).parents[1] / "config" / "sites"


@pytest.mark.parametrize("name", sorted(path.name for path in SITES.iterdir() if path.is_dir()))
def test_a_job_runs_in_the_default_partition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SITES / name)
    config = replace(load("slurm.conf").config, prolog_slurmctld=())  # a program is nothing for this world
    world = World(config)
    default = next((p for p in config.partitions if p.is_default), config.partitions[0])
    for node in default.nodes:
        world.register(node)
    said = world.submit(JobSubmission(name="a", work_dir=b"/", partitions=(default.name,)))
    if not config.nodes:
        assert any("Requested node configuration is not available" in line for line in said)
        return
    state = JobState.CONFIGURING if wants_extern_steps(config) else JobState.RUNNING
    assert [job.state for job in world.core.state.jobs.values()] == [state], said
