"""Who may use a partition: RootOnly, DisableRootJobs, AllowGroups, and Slurm's words for each refusal."""

import pytest

from ctld.core.records.events import JobSubmission
from penstock.values.config import PartitionConfig
from tests.core.world import World, make_config

PARTITIONS = (
    PartitionConfig("admins", ("n1",), root_only=True),
    PartitionConfig("people", ("n1",), disable_root_jobs=True),
    PartitionConfig("staff", ("n1",), allow_groups=("no-group-of-anybody",)),
)
DENIED = "Access/permission denied: partition "
GROUP = "User's group not permitted to use this partition: partition "


@pytest.mark.parametrize(
    ("user", "partition", "said"),
    [
        ("ann", "admins", DENIED),
        ("ann", "people", None),
        ("ann", "staff", GROUP),
        ("root", "admins", None),
        ("root", "people", DENIED),
        ("root", "staff", None),
    ],
)
def test_who_may_use_a_partition(user: str, partition: str, said: str | None) -> None:
    world = World(make_config(partitions=PARTITIONS))
    answer = world.submit(JobSubmission(partitions=(partition,)), user)
    assert answer[0].startswith("refused: ") is (said is not None)
    if said:
        assert answer == [f"refused: {said}{partition}"]
