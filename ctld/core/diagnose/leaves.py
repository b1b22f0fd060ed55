"""The leaf switches, or blocks, that keep a job waiting, because of --exclusive=topo: its own, or that of a running job."""

from typing import NamedTuple

from ctld.core.jobs.sharing import units_in_use
from ctld.core.records.job import Job
from ctld.core.state.leaves import leaf_mates
from ctld.core.state.state import ClusterState

#: Leaves that are named, and jobs of each.
LEAVES_SHOWN = 8
JOBS_SHOWN = 8


class UsedLeaf(NamedTuple):
    """A leaf with nodes that the job could use otherwise."""

    name: str  # of the switch or block; of the node where there is no topology
    nodes: int  # those that qualify
    jobs: tuple[int, ...]  # the first few of those on it
    more: int  # others
    is_owned: bool  # one of them has it for itself alone


def used_leaves(state: ClusterState, job: Job, bits: int) -> tuple[UsedLeaf, ...]:
    """Returns the leaves of these nodes (a bit map) on which the job may have no node now."""
    wants_alone = job.request.exclusive_topo
    found = list[UsedLeaf]()
    seen: dict[int, None] = {}
    for node in state.node_list if wants_alone or state.leaf_owners.of_node else ():
        if not bits >> node.index & 1 or node.index in seen:
            continue
        if not wants_alone and node.index not in state.leaf_owners.of_node:
            continue
        mates = (node.index, *leaf_mates(state.node_columns, [node.index]))
        seen |= dict.fromkeys(mates)
        holders = state.leaf_owners.of_node.get(node.index, {})
        jobs = dict.fromkeys(i for index in mates for i in state.node_list[index].jobs) if wants_alone else holders
        jobs = {i: None for i in jobs if i != job.job_id and units_in_use(state, state.jobs[i])}
        if jobs:
            above = state.layout.switches_above.get(node.name)
            name, shown = above[0] if above else node.name, tuple(jobs)[:JOBS_SHOWN]
            usable = sum(bits >> index & 1 for index in mates)
            found.append(UsedLeaf(name, usable, shown, len(jobs) - len(shown), bool(holders)))
        if len(found) == LEAVES_SHOWN:
            break
    return tuple(found)
