"""Plans a step: the nodes of its job that it runs on, the tasks on each, their ranks, and the resources they may use
there.

Pure: computes parts from the job's allocation, what other steps hold of it, and the request. Rules (man srun;
docs/steps.md has the choices where it is ambiguous):

    - Without --exact a step has all cpus of the job on its nodes, and needs them free; with it (or -c, or
      --threads-per-core, which imply it) as many as its tasks ask for.
    - No -n: --ntasks-per-node times nodes, or by --ntasks-per-gpu, or as many as -c leaves room for, else one task a
      node. No -N: as many nodes as tasks, for an exact step or with Pack as few as suffice. Fewer tasks than nodes:
      as many nodes as tasks, and a warning.
    - The number of tasks on each node is distributed cyclically as far as there is room (one each, then another), also
      for block; with Pack each node is filled. The distribution determines the ranks of these tasks.
    - Memory is kept from other steps only on request. Otherwise a step may use all that the job has there.
    - Without a GRES request: all that the job requested on the step's nodes, but not those that it has only because it
      is exclusive. --gres=none: none of them.

A step that does not fit now may fit later: the caller distinguishes that from never by planning again with nothing
used.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ctld.core.demand.task_distribution import distribute_cyclically
from ctld.core.records.inside import Layout
from ctld.core.records.request import NodeAlloc
from ctld.core.records.step import Kinds, StepPart, StepRequest, Unfit, UsedResources
from ctld.core.state.devices import choose_cpus, choose_devices
from penstock.values.gres import GPU, SHARED_NAMES
from penstock.values.refusals import Code


class Plan(NamedTuple):
    """The layout of a step. `parts` are in the order of the job's nodes."""

    parts: tuple[StepPart, ...]
    warnings: tuple[str, ...]


class _Room(NamedTuple):
    """The resources free for the step on one node."""

    position: int  # in the job's allocation
    part: NodeAlloc
    cpus: int
    cpu_ids: int
    mem_mb: int
    gres: dict[tuple[str, str], int]
    tasks: int  # maximum number of tasks
    implied: Kinds = ()  # GRES of a step without a GRES request: masks, as in `part`


def plan_step(
    alloc: tuple[NodeAlloc, ...],
    request: StepRequest,
    used: Mapping[str, UsedResources],
    inside: Callable[[str], Layout],
    tasks_per_node_max: int,
    implied: Sequence[Kinds] = (),
) -> Plan:
    """Plans a step. `implied`: by node, the GRES of a step that requests none; () = all that the job has. Raises Unfit."""
    candidates = _candidates(alloc, request)
    _check_kinds(alloc, request)
    asked = _with_gpus(request)
    nodes_min, nodes_max, ntasks, warnings = _counts(asked, candidates, alloc)
    per_task = max(1, asked.cpus_per_task)
    have = sum(sorted((alloc[position].cpus for position in candidates), reverse=True)[:nodes_max])
    if not asked.overcommit and ntasks * per_task > have:
        raise Unfit(Code.TOO_MANY_REQUESTED_CPUS, f"{ntasks} tasks need {ntasks * per_task} CPUs, the job has {have}")
    kept = implied or [part.gres for part in alloc]
    if request.mem_per_node_mb and all(request.mem_per_node_mb > alloc[position].mem_mb for position in candidates):
        raise Unfit(Code.INVALID_TASK_MEMORY, f"{request.mem_per_node_mb} MB of a node")
    if request.mem_per_cpu_mb and all(request.mem_per_cpu_mb > alloc[position].mem_mb for position in candidates):
        raise Unfit(Code.INVALID_TASK_MEMORY, f"{request.mem_per_cpu_mb} MB for a CPU")
    rooms = [
        _room(position, alloc[position], asked, used, tasks_per_node_max, kept[position]) for position in candidates
    ]
    if _first_level(request.distribution)[0] == "arbitrary" and request.nodes_required:
        return _arbitrary(asked, rooms, ntasks, inside)
    chosen = _choose(rooms, asked, nodes_min, nodes_max, ntasks)
    counts = _counts_of(asked, chosen, ntasks)
    ranks = rank_lists(counts, request.distribution)
    return Plan(_parts(asked, chosen, counts, ranks, inside), warnings)


# ---- nodes
# ------------------------------------------------------------------------------------------------------------


def _candidates(alloc: tuple[NodeAlloc, ...], request: StepRequest) -> list[int]:
    """Returns the positions in the job of the nodes that the step may run on: one at least. Raises Unfit."""
    names, excluded = frozenset(part.node for part in alloc), frozenset(request.nodes_excluded)
    for name in request.nodes_required:
        if name not in names or name in excluded:
            raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"{name} is not a node of the job")
    first = request.relative or 0
    if first >= len(alloc):
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"--relative={first}, the job has {len(alloc)} nodes")
    found = [position for position in range(first, len(alloc)) if alloc[position].node not in excluded]
    if not found:
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, "every node of the job is excluded")
    return found


def _check_kinds(alloc: tuple[NodeAlloc, ...], request: StepRequest) -> None:
    known = {name for part in alloc for name, _, _ in part.gres} | {s.name for part in alloc for s in part.shares}
    for name, type_, _ in (*request.gres_per_node, *request.gres_per_step, *request.gres_per_task):
        if name not in known:
            what = f"{name}:{type_}" if type_ else name
            raise Unfit(Code.INVALID_GRES, f"Step requested GRES but job doesn't have GRES: the job has no {what}")
    of_job = [{(name, type_): mask for name, type_, mask in part.gres} for part in alloc]
    for kinds, total in ((request.gres_per_node, max), (request.gres_per_step, sum)):
        for name, type_, count in (kind for kind in kinds if kind[0] not in SHARED_NAMES):
            most = total(count_of(gres, name, type_) for gres in of_job)
            if count > most:
                raise Unfit(Code.INVALID_GRES, f"{name}:{count} is more than the job's {most}")


def _with_gpus(request: StepRequest) -> StepRequest:
    """Applies --ntasks-per-gpu as a number of tasks, or of GPUs, whichever is missing."""
    per_gpu = request.ntasks_per_gpu
    if not per_gpu:
        return request
    if request.ntasks and not _gpus(request.gres_per_step) and not _gpus(request.gres_per_node):
        gpus = -(-request.ntasks // per_gpu)
        return msgspec.structs.replace(request, gres_per_step=(*request.gres_per_step, (GPU, "", gpus)))
    if not request.ntasks and _gpus(request.gres_per_step):
        return msgspec.structs.replace(request, ntasks=per_gpu * _gpus(request.gres_per_step))
    if not request.ntasks and not request.ntasks_per_node and _gpus(request.gres_per_node):
        return msgspec.structs.replace(request, ntasks_per_node=per_gpu * _gpus(request.gres_per_node))
    return request


def _gpus(kinds: Kinds) -> int:
    return sum(count for name, _, count in kinds if name == GPU)


def _counts(
    request: StepRequest, candidates: list[int], alloc: tuple[NodeAlloc, ...]
) -> tuple[int, int, int, tuple[str, ...]]:
    """Returns (fewest nodes, most nodes, tasks, warnings)."""
    required = len(dict.fromkeys(request.nodes_required))
    ntasks, per_node = request.ntasks, request.ntasks_per_node
    if not ntasks and _first_level(request.distribution)[0] == "arbitrary":
        ntasks = len(request.nodes_required)
    if not ntasks and not per_node:
        ntasks = _tasks_of_gres(request)
    least = max(request.nodes_min, required)
    most = max(request.nodes_max, least) if least else 0
    if ntasks and per_node and not least and not is_packed(request):
        least = most = -(-ntasks // per_node)
    if not ntasks and not per_node and request.cpus_per_task:
        ntasks = sum(alloc[position].cpus // request.cpus_per_task for position in candidates[: least or None])
        least = least or sum(alloc[position].cpus >= request.cpus_per_task for position in candidates)
    if not ntasks:
        least = least or len(candidates)
        ntasks = least * per_node if per_node else max(least, min(most, len(candidates)))
    warnings: tuple[str, ...] = ()
    if ntasks < least and not required:
        warnings = (f"can't run {ntasks} processes on {least} nodes, setting nnodes to {ntasks}",)
        least = most = ntasks
    elif ntasks < least:
        ntasks = least  # a task on each named node
    for name, type_, count in request.gres_per_step:
        if count < least and not required:
            what = f"{name}:{type_}:{count}" if type_ else f"{name}:{count}"
            raise Unfit(Code.INVALID_GRES, f"Step requested gres={what} is less than the requested min nodes={least}")
    if least > len(candidates):
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"{least} nodes, the job has {len(candidates)} for it")
    if not least:
        fewest = 1 if is_exact(request) or is_packed(request) else min(len(candidates), ntasks)
        return fewest, min(len(candidates), ntasks), ntasks, warnings
    return least, min(max(most, least), len(candidates)), ntasks, warnings


def _tasks_of_gres(request: StepRequest) -> int:
    """Computes the number of tasks from --gpus-per-task with --gpus."""
    for name, type_, each in request.gres_per_task:
        total = sum(count for n, t, count in request.gres_per_step if (n, t) == (name, type_))
        if each and total:
            return max(1, total // each)
    return 0


def is_exact(request: StepRequest) -> bool:
    """Whether the step gets only the cpus that its tasks request."""
    return (request.exact or bool(request.cpus_per_task or request.threads_per_core)) and not request.whole


def is_packed(request: StepRequest) -> bool:
    """Whether the step takes as few nodes as suffice, and fills them."""
    return "PACK" in _first_level(request.distribution)[2]


def _room(
    position: int,
    part: NodeAlloc,
    request: StepRequest,
    used: Mapping[str, UsedResources],
    tasks_per_node_max: int,
    implied: Kinds,
) -> _Room:
    other = used.get(part.node, UsedResources()) if not request.shares_everything() else UsedResources()
    gres = {(name, type_): mask for name, type_, mask in part.gres}
    for name, type_, mask in other.gres:
        gres[name, type_] &= ~mask
    cpus, mem_mb = part.cpus - other.cpus, part.mem_mb - other.mem_mb
    room = _Room(position, part, cpus, part.cpu_ids & ~other.cpu_ids, mem_mb, gres, 0, implied)
    return room._replace(tasks=_most_tasks(room, request, tasks_per_node_max))


def _most_tasks(room: _Room, request: StepRequest, tasks_per_node_max: int) -> int:
    """Returns the most tasks on the node; 0 = it cannot be used."""
    part = room.part
    if not is_exact(request) and room.cpus < part.cpus:
        return 0
    per_task = max(1, request.cpus_per_task)
    most = tasks_per_node_max if request.overcommit and room.cpus else min(tasks_per_node_max, room.cpus // per_task)
    if request.ntasks_per_node:
        most = min(most, request.ntasks_per_node)
    if request.mem_per_node_mb and request.mem_per_node_mb > room.mem_mb:
        return 0
    if request.mem_per_cpu_mb:
        cpus = room.mem_mb // request.mem_per_cpu_mb
        fitting = (most if cpus >= room.cpus else cpus) if request.overcommit else cpus // per_task
        most = min(most, fitting) if is_exact(request) else (most if cpus >= part.cpus else 0)
    for name, type_, count in request.gres_per_node:
        if _free(room, name, type_) < count:
            return 0
    for name, type_, count in request.gres_per_task:
        if count:
            most = min(most, _free(room, name, type_) // count)
    return most if _has_implied(room, request) else 0


def _has_implied(room: _Room, request: StepRequest) -> bool:
    """Whether the job's GRES are free for a step without a GRES request, which gets all of them."""
    if asks_gres(request):
        return True
    return all(room.gres[name, type_] & mask == mask for name, type_, mask in room.implied)


def asks_gres(request: StepRequest) -> bool:
    """Whether the request names GRES, or `none` explicitly."""
    return request.no_gres or bool(request.gres_per_node or request.gres_per_step or request.gres_per_task)


def count_of(gres: Mapping[tuple[str, str], int], name: str, type_: str) -> int:
    """Counts devices of a kind; without a type those of all types of the name."""
    return sum(mask.bit_count() for (n, t), mask in gres.items() if n == name and (not type_ or t == type_))


def _free(room: _Room, name: str, type_: str) -> int:
    """Counts free ones; of shares of GPUs those of the job, since its steps share them."""
    if name in SHARED_NAMES:
        return sum(share.units for share in room.part.shares if share.name == name)
    return count_of(room.gres, name, type_)


def _choose(rooms: list[_Room], request: StepRequest, nodes_min: int, nodes_max: int, ntasks: int) -> list[_Room]:
    """Chooses nodes with room for all tasks: the first ones, else those with most room; of a range the most."""
    wanted = set(request.nodes_required)
    must = [room for room in rooms if room.part.node in wanted]
    others = [room for room in rooms if room.part.node not in wanted and room.tasks]
    if any(not room.tasks for room in must):
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, "a node that was named has no room")
    for order in (others, sorted(others, key=lambda room: (-room.tasks, room.position))):
        numbers = range(max(nodes_min, len(must)), max(nodes_max, len(must)) + 1)
        for number in reversed(numbers) if request.nodes_min else numbers:
            found = must + order[: number - len(must)]
            if len(found) == number and _is_enough(found, request, ntasks):
                return sorted(found, key=lambda room: room.position)
    raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE)


def _is_enough(rooms: list[_Room], request: StepRequest, ntasks: int) -> bool:
    if sum(room.tasks for room in rooms) < ntasks or ntasks < len(rooms):
        return False
    return all(sum(_free(room, name, type_) for room in rooms) >= count for name, type_, count in request.gres_per_step)


# ---- tasks and ranks --------------------------------------------------------------------------------------------------


def _counts_of(request: StepRequest, rooms: list[_Room], ntasks: int) -> list[int]:
    """Returns tasks by node. An overcommitted step fills the CPUs as any other, and only the rest exceeds them."""
    pack = is_packed(request)
    if not request.overcommit:
        return _deal([room.tasks for room in rooms], ntasks, pack)
    fitting = [max(1, min(room.tasks, room.cpus)) for room in rooms]
    inside = _deal(fitting, min(ntasks, sum(fitting)), pack)
    more = _deal([room.tasks for room in rooms], ntasks - sum(inside) + len(rooms), pack)
    return [count + beyond - 1 for count, beyond in zip(inside, more, strict=True)]


def _deal(most: list[int], ntasks: int, pack: bool) -> list[int]:
    """Distributes the tasks to nodes: at least one each, then cyclically while there is room."""
    if not pack:
        return distribute_cyclically(most, ntasks)
    counts = [1] * len(most)
    left = ntasks - len(most)
    for i, room in enumerate(most):
        more = min(left, room - 1)
        counts[i] += more
        left -= more
    return counts


def _first_level(distribution: str) -> tuple[str, int, tuple[str, ...]]:
    """Returns (order of ranks over nodes, size of a plane, keywords such as PACK)."""
    text, *words = distribution.split(",")
    if text.strip().lower() in ("pack", "nopack"):  # alone: the levels as by default
        text, words = "*", [text, *words]
    first = text.split(":")[0].strip().lower()
    word, _, size = first.partition("=")
    plane = int(size) if word == "plane" and size.isdigit() and int(size) else 1
    return ("block" if word in ("", "*") else word), plane, tuple(w.strip().upper() for w in words)


def rank_lists(counts: Sequence[int], distribution: str) -> list[tuple[int, ...]]:
    """Returns the global ranks by node. block: one node after the other; cyclic: round robin; plane=N: round robin, N
    at a time."""
    how, plane, _ = _first_level(distribution)
    ranks: list[list[int]] = [[] for _ in counts]
    if how not in ("cyclic", "plane"):
        first = 0
        for i, count in enumerate(counts):
            ranks[i] = list(range(first, first + count))
            first += count
        return [tuple(r) for r in ranks]
    at, total = 0, sum(counts)
    while at < total:
        for i, count in enumerate(counts):
            more = min(plane, count - len(ranks[i]))
            ranks[i] += range(at, at + more)
            at += more
    return [tuple(r) for r in ranks]


def _arbitrary(request: StepRequest, rooms: list[_Room], ntasks: int, inside: Callable[[str], Layout]) -> Plan:
    """Assigns rank i to the i-th node of the list."""
    names = request.nodes_required[:ntasks]
    if len(names) < ntasks:
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"{ntasks} tasks, the list has {len(names)} nodes")
    ranks: dict[str, list[int]] = {}
    for rank, name in enumerate(names):
        ranks.setdefault(name, []).append(rank)
    chosen = [room for room in rooms if room.part.node in ranks]
    if len(chosen) < len(ranks) or any(room.tasks < len(ranks[room.part.node]) for room in chosen):
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE)
    lists = [tuple(ranks[room.part.node]) for room in chosen]
    return Plan(_parts(request, chosen, [len(r) for r in lists], lists, inside), ())


# ---- resources
# --------------------------------------------------------------------------------------------------------


def _parts(
    request: StepRequest,
    rooms: list[_Room],
    counts: list[int],
    ranks: list[tuple[int, ...]],
    inside: Callable[[str], Layout],
) -> tuple[StepPart, ...]:
    shared_out = _of_step(request, rooms)
    parts = []
    for i, room in enumerate(rooms):
        layout = inside(room.part.node)
        gres = _gres(request, room, counts[i], shared_out[i], layout)
        cpus = room.part.cpus
        if is_exact(request):
            cpus = min(room.cpus, counts[i] * max(1, request.cpus_per_task))
        cpu_ids = room.cpu_ids
        if cpu_ids and cpus < cpu_ids.bit_count():
            cpu_ids = choose_cpus(layout, cpu_ids, cpus, gres)
        shares = () if request.no_gres else room.part.shares
        parts.append(StepPart(room.part.node, cpus, _memory(request, room.part, cpus), gres, shares, cpu_ids, ranks[i]))
    return tuple(parts)


def _memory(request: StepRequest, part: NodeAlloc, cpus: int) -> int:
    if request.mem_per_node_mb:
        return request.mem_per_node_mb
    return request.mem_per_cpu_mb * cpus if request.mem_per_cpu_mb else part.mem_mb


def _of_step(request: StepRequest, rooms: list[_Room]) -> list[list[tuple[str, str, int]]]:
    """Distributes devices requested for the whole step: each node gives as many as it may, leaving one for each
    following node."""
    found: list[list[tuple[str, str, int]]] = [[] for _ in rooms]
    for name, type_, count in (kind for kind in request.gres_per_step if kind[0] not in SHARED_NAMES):
        free = [count_of(room.gres, name, type_) for room in rooms]
        left = count
        for i, most in enumerate(free):
            number = max(0, min(most, left - sum(other > 0 for other in free[i + 1 :])))
            left -= number
            if number:
                found[i].append((name, type_, number))
    return found


def _gres(
    request: StepRequest, room: _Room, tasks: int, of_step: list[tuple[str, str, int]], layout: Layout
) -> tuple[tuple[str, str, int], ...]:
    if request.no_gres:
        return ()
    if not asks_gres(request):
        return room.implied
    wanted: dict[tuple[str, str], int] = {}
    for name, type_, count in request.gres_per_node:
        wanted[name, type_] = max(wanted.get((name, type_), 0), count)
    for name, type_, count in of_step:
        wanted[name, type_] = max(wanted.get((name, type_), 0), count)
    for name, type_, count in request.gres_per_task:
        wanted[name, type_] = max(wanted.get((name, type_), 0), count * tasks)
    found = choose_devices(layout, room.gres, tuple((n, t, count) for (n, t), count in wanted.items() if count))
    if found is None:
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE)
    return found
