"""Where a job may run is remembered by what it asks for: all that is looked at is in the key."""

from typing import Any

import pytest

from ctld.core.demand.node_kinds import LEAST_FIELDS
from ctld.core.queue.shapes import placements
from ctld.core.records.request import JobRequest
from tests.core.world import World, make_config

LEAST: dict[str, Any] = dict.fromkeys(LEAST_FIELDS, 1)
ASKING = (
    JobRequest(),
    JobRequest(features="fast", prefer="fast", nodes_required=("n1",), nodes_excluded=("n3",), batch_features="fast"),
    JobRequest(ntasks=4, ntasks_per_node=2, ntasks_per_core=1, ntasks_per_socket=2, cpus_per_task=2, **LEAST),
)  # fmt: skip


class Watched:
    """A request that remembers which of its fields were read."""

    def __init__(self, request: JobRequest) -> None:
        self.request, self.read = request, set[str]()

    def __getattr__(self, name: str) -> object:
        self.read.add(name)
        return getattr(self.request, name)


@pytest.mark.parametrize("request_", ASKING)
def test_all_that_is_looked_at_is_in_the_key(request_: JobRequest) -> None:
    state = World(make_config(nodes=3)).core.state
    found = []
    for _ in range(2):  # the second finds what the first has made, so it reads the key alone
        watched = Watched(request_)
        placements(state, state.partitions["debug"], watched, 1, 2)  # type: ignore[arg-type]  # it notes what is read of it
        found.append(watched.read)
    missing = found[0] - found[1]
    assert not missing, (
        f"add {sorted(missing)} to `_asked` in ctld/core/queue/shapes.py, or to AT_LEAST in demand/node_kinds.py"
    )
