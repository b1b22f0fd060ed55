"""The oracle's choice of nodes: rules 1, 2 and 3 of contract.py, given the free resources of each node (`rooms`)."""

from collections.abc import Mapping, Sequence

from _fastsched.reference_world import ReferenceJob, Room, Share, World

Chosen = list[tuple[int, int]]  # (node, tasks), in `order`; empty: no fit


def _cpus(job: ReferenceJob, quantum: int, tasks: int) -> int:
    """Computes k of rule 1."""
    return -(-tasks * job.cpus_per_task // quantum) * quantum


def _tasks_with(job: ReferenceJob, quantum: int, cpus: int) -> int:
    """Returns the largest number of tasks whose k is at most `cpus`."""
    return max(cpus, 0) // quantum * quantum // job.cpus_per_task


def cpus_named(job: ReferenceJob, world: World, node: int, tasks: int) -> int:
    """Returns the number of cpus in the result."""
    if job.is_whole():
        return world.total[node].cpu_units // job.cpu_units
    return _cpus(job, world.cpu_quantum[node], tasks)


def takes(job: ReferenceJob, world: World, node: int, tasks: int) -> Share:
    """Returns what the job takes on the node with so many tasks; rules 1 and 2."""
    total = world.total[node]
    cpus = _cpus(job, world.cpu_quantum[node], tasks)
    if job.mem_node_mb >= 0:
        mem_mb = job.mem_node_mb or total.mem_mb
    elif job.mem_cpu_mb >= 0:
        mem_mb = job.mem_cpu_mb * cpus_named(job, world, node, tasks)
    else:
        mem_mb = total.mem_mb if job.is_whole() else 0
    return Share(total.cpu_units if job.is_whole() else cpus * job.cpu_units, mem_mb, job.gres)


def tasks_on(job: ReferenceJob, world: World, node: int, room: Room) -> int:
    """Computes t of rule 1."""
    quantum = world.cpu_quantum[node]
    cpus = min(room.free.cpu_units // job.cpu_units, world.total[node].cpu_units // world.units_per_cpu)
    tasks = min(_tasks_with(job, quantum, cpus), job.ntasks - job.nodes_min + 1)
    if job.ntasks_per_node:
        tasks = min(tasks, job.ntasks_per_node)
    if job.mem_node_mb < 0 < job.mem_cpu_mb and not job.is_whole():
        tasks = min(tasks, _tasks_with(job, quantum, room.free.mem_mb // job.mem_cpu_mb))
    if not room.open or tasks < 1 or not room.free.covers(takes(job, world, node, tasks)):
        return 0
    return tasks if job.nodes_most() > 1 or tasks == job.ntasks else 0


def _node_order(job: ReferenceJob, world: World, node: int, room: Room) -> tuple[int, ...]:
    """Returns the sort key of rule 3."""
    place = world.place[node]
    if job.order_kind == 0:
        return (place,)
    if job.order_kind == 1:
        return (world.weight_class[node], -room.free.cpu_units, place)
    asked = [free for free, want in zip(room.free.gres, job.gres, strict=True) if want > 0]
    return (world.weight_class[node], sum(asked) if asked else room.free.cpu_units, place)


def _groups(job: ReferenceJob, world: World, candidates: Sequence[int]) -> list[int] | None:
    """Applies rule 3a: returns the nodes taken, or None."""
    taken: list[int] = []
    for mask, count in world.groups[job.group] if job.group >= 0 else ():
        for node in candidates:
            if sum(n in mask for n in taken) >= count:
                break
            if node in mask and node not in taken:
                taken.append(node)
        if sum(n in mask for n in taken) < count:
            return None
    return taken


def _fewest(job: ReferenceJob, taken: list[int], rest: Sequence[int], most: Mapping[int, int]) -> list[int]:
    """Returns `taken` with the shortest sufficient prefix of `rest`; empty when there is none."""
    for used in range(min(len(rest), job.nodes_most() - len(taken)) + 1):
        chosen = taken + list(rest[:used])
        if len(chosen) >= job.nodes_min and sum(most[n] for n in chosen) >= job.ntasks:
            return chosen
    return []


def _run(job: ReferenceJob, taken: list[int], rest: Sequence[int], most: Mapping[int, int]) -> list[int]:
    """Applies rule 3c."""
    chosen = _fewest(job, taken, rest, most)
    if not chosen:
        rest = sorted(rest, key=lambda n: -most[n])
        chosen = _fewest(job, taken, rest, most)
    if chosen and job.spread:
        chosen += rest[len(chosen) - len(taken) : job.nodes_most() - len(taken)]
    return chosen


def _by_switch(world: World, level: int, candidates: Sequence[int]) -> dict[int, list[int]]:
    under: dict[int, list[int]] = {}
    for node in candidates:
        under.setdefault(world.switches[level][node], []).append(node)
    return under


def _near(job: ReferenceJob, world: World, taken: list[int], rest: list[int], most: Mapping[int, int]) -> list[int]:
    """Applies rule 3b without segments: returns the remaining candidates, in their order."""
    for level in range(len(world.switches)):
        under = _by_switch(world, level, rest)
        enough = [(len(nodes), switch) for switch, nodes in under.items() if _run(job, taken, nodes, most)]
        if enough:
            rest = under[min(enough)[1]]
            break
    leaves = _by_switch(world, 0, rest)
    return [n for leaf in sorted(leaves, key=lambda leaf: (-len(leaves[leaf]), leaf)) for n in leaves[leaf]]


def _segments(job: ReferenceJob, world: World, candidates: Sequence[int], most: Mapping[int, int]) -> list[int]:
    """Applies rule 3b with segments."""
    leaves = _by_switch(world, 0, candidates)
    gives = {leaf: len(nodes) // job.segment for leaf, nodes in leaves.items()}
    need = job.nodes_min // job.segment
    alone = [leaf for leaf in leaves if gives[leaf] >= need]
    if alone:
        order = [min(alone, key=lambda leaf: (gives[leaf], leaf))]
    else:
        order = sorted(leaves, key=lambda leaf: (-gives[leaf], leaf))
    chosen: list[int] = []
    for leaf in order:
        segments = min(gives[leaf], need)
        chosen += leaves[leaf][: segments * job.segment]
        need -= segments
    return chosen if need == 0 and sum(most[n] for n in chosen) >= job.ntasks else []


def choose(
    job: ReferenceJob, world: World, rooms: Mapping[int, Room], cost: Mapping[int, tuple[int, ...]] | None = None
) -> Chosen:
    """Applies rule 3 to the nodes of `rooms`; `cost` precedes the node order (rule 9)."""
    most = {node: tasks_on(job, world, node, room) for node, room in rooms.items()}
    candidates = sorted(
        (node for node in rooms if most[node]),
        key=lambda n: (cost[n] if cost else (), _node_order(job, world, n, rooms[n])),
    )
    topology = bool(world.switches) and job.nodes_most() > 1
    taken: list[int] = []
    if topology and job.segment:
        chosen = _segments(job, world, candidates, most)
    else:
        by_groups = _groups(job, world, candidates)
        if by_groups is None:
            return []
        taken = by_groups
        rest = [n for n in candidates if n not in taken]
        chosen = _run(job, taken, _near(job, world, taken, rest, most) if topology else rest, most)
    if topology and job.switches_max and len(_by_switch(world, 0, chosen)) > job.switches_max:
        return []
    return _fill(job, world, chosen, taken, most)


def _fill(
    job: ReferenceJob, world: World, chosen: Sequence[int], taken: Sequence[int], most: Mapping[int, int]
) -> Chosen:
    """Applies the last paragraph of rule 3c."""
    in_turn = sorted(chosen, key=lambda node: (node not in taken, world.place[node]))
    left_for = [min(most[node], max(1, world.cpu_quantum[node] // job.cpus_per_task)) for node in in_turn]
    answer: Chosen = []
    rest = job.ntasks
    for i, node in enumerate(in_turn):
        tasks = min(most[node], max(1, rest - sum(left_for[i + 1 :])))
        rest -= tasks
        answer.append((node, tasks))
    return sorted(answer, key=lambda part: world.place[part[0]])
