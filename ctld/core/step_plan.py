"""Which nodes of its job a step runs on, how many tasks on each, which ranks these have, and what they may use there.

Pure: the job's allocation, what other steps hold of it and the request go in, parts come out. Rules (man srun; where it
leaves something open, docs/steps.md says what was chosen):

    - Without --exact a step has all cpus of the job on its nodes, and needs them free; with it (or -c, or
      --threads-per-core, which imply it) as many as its tasks ask for.
    - No -n: --ntasks-per-node times nodes, or what --ntasks-per-gpu says, else one task a node. No -N: as many nodes as
      there are tasks, of an exact step as few as will do. Fewer tasks than nodes: as many nodes as tasks, and a warning.
    - How many tasks a node gets is dealt out in turns as far as there is room (one each, then another), also for block;
      with Pack each node is filled. Which ranks these are is the distribution's matter.
    - Memory is kept from other steps only when it is asked for. Else a step may use all that the job has there.
    - GRES that are not asked for: all that the job has on the step's nodes. --gres=none: none of them.

A step that does not fit now may fit later: the caller plans again with nothing held to tell that from never.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ctld.core.devices import Layout, choose_cpus, choose_devices
from ctld.core.model import NodeAlloc
from ctld.core.step_model import Kinds, StepPart, StepRequest
from penstock.values.gres import GPU, SHARED_NAMES
from penstock.values.refusals import Code


class Unfit(Exception):
    """The step has no place. `code` is what a user is told when it can never have one."""

    def __init__(self, code: Code, text: str = "") -> None:
        super().__init__(text)
        self.code, self.text = code, text


class Held(NamedTuple):
    """What the other steps of the job keep on one node."""

    cpus: int = 0
    cpu_ids: int = 0
    mem_mb: int = 0
    gres: tuple[tuple[str, str, int], ...] = ()


class Plan(NamedTuple):
    """Where a step runs. `parts` are in the order of the job's nodes."""

    parts: tuple[StepPart, ...]
    warnings: tuple[str, ...]


class _Room(NamedTuple):
    """What is free for the step on one node."""

    place: int  # in the job
    part: NodeAlloc
    cpus: int
    cpu_ids: int
    mem_mb: int
    gres: dict[tuple[str, str], int]
    tasks: int  # most that it takes


def plan_step(
    alloc: tuple[NodeAlloc, ...],
    request: StepRequest,
    held: Mapping[str, Held],
    inside: Callable[[str], Layout],
    tasks_per_node_max: int,
) -> Plan:
    """Raises Unfit."""
    candidates = _candidates(alloc, request)
    _check_kinds(alloc, request)
    asked = _with_gpus(request)
    nodes_min, nodes_max, ntasks, warnings = _counts(asked, candidates, alloc)
    per_task = max(1, asked.cpus_per_task)
    have = sum(alloc[place].cpus for place in candidates)
    if not asked.overcommit and ntasks * per_task > have:
        raise Unfit(Code.TOO_MANY_REQUESTED_CPUS, f"{ntasks} tasks need {ntasks * per_task} CPUs, the job has {have}")
    rooms = [_room(place, alloc[place], asked, held, tasks_per_node_max) for place in candidates]
    if _first_level(request.distribution)[0] == "arbitrary" and request.nodes_required:
        return _arbitrary(asked, rooms, ntasks, inside)
    chosen = _choose(rooms, asked, nodes_min, nodes_max, ntasks)
    counts = _deal([room.tasks for room in chosen], ntasks, "PACK" in _first_level(request.distribution)[2])
    ranks = rank_lists(counts, request.distribution)
    return Plan(_parts(asked, chosen, counts, ranks, inside), warnings)


# ---- which nodes ------------------------------------------------------------------------------------------------------


def _candidates(alloc: tuple[NodeAlloc, ...], request: StepRequest) -> list[int]:
    """Places in the job of the nodes that the step may run on."""
    names = [part.node for part in alloc]
    for name in request.nodes_required:
        if name not in names or name in request.nodes_excluded:
            raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"{name} is not a node of the job")
    first = request.relative or 0
    if first >= len(alloc):
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"--relative={first}, the job has {len(alloc)} nodes")
    return [place for place in range(first, len(alloc)) if names[place] not in request.nodes_excluded]


def _check_kinds(alloc: tuple[NodeAlloc, ...], request: StepRequest) -> None:
    known = {name for part in alloc for name, _, _ in part.gres} | {s.name for part in alloc for s in part.shares}
    for name, type_, _ in (*request.gres_per_node, *request.gres_per_step, *request.gres_per_task):
        if name not in known:
            raise Unfit(Code.INVALID_GRES, f"the job has no {name}:{type_}" if type_ else f"the job has no {name}")


def _with_gpus(request: StepRequest) -> StepRequest:
    """--ntasks-per-gpu as a number of tasks, or of GPUs, whichever is missing."""
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
    """(fewest nodes, most nodes, tasks, warnings)."""
    required = len(dict.fromkeys(request.nodes_required))
    ntasks, per_node = request.ntasks, request.ntasks_per_node
    if not ntasks and _first_level(request.distribution)[0] == "arbitrary":
        ntasks = len(request.nodes_required)
    if not ntasks and not per_node:
        ntasks = _tasks_of_gres(request)
    least = max(request.nodes_min, required)
    most = max(request.nodes_max, least) if least else 0
    if ntasks and per_node and not least:
        least = most = -(-ntasks // per_node)
    if not ntasks:
        ntasks = (least or len(candidates)) * (per_node or 1)
        least = least or len(candidates)
    warnings: tuple[str, ...] = ()
    if ntasks < least and not required:
        warnings = (f"can't run {ntasks} processes on {least} nodes, setting nnodes to {ntasks}",)
        least = most = ntasks
    elif ntasks < least:
        ntasks = least  # a task on each node that was named
    if least > len(candidates):
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"{least} nodes, the job has {len(candidates)} for it")
    if not least:
        fewest = 1 if is_exact(request) else min(len(candidates), ntasks)
        return fewest, min(len(candidates), ntasks), ntasks, warnings
    return least, min(max(most, least), len(candidates)), ntasks, warnings


def _tasks_of_gres(request: StepRequest) -> int:
    """--gpus-per-task with --gpus says how many tasks there are."""
    for name, type_, each in request.gres_per_task:
        total = sum(count for n, t, count in request.gres_per_step if (n, t) == (name, type_))
        if each and total:
            return max(1, total // each)
    return 0


def is_exact(request: StepRequest) -> bool:
    """True when the step has only the cpus that its tasks ask for."""
    return (request.exact or bool(request.cpus_per_task or request.threads_per_core)) and not request.whole


def _room(
    place: int, part: NodeAlloc, request: StepRequest, held: Mapping[str, Held], tasks_per_node_max: int
) -> _Room:
    other = held.get(part.node, Held()) if not request.holds_nothing() else Held()
    gres = {(name, type_): mask for name, type_, mask in part.gres}
    for name, type_, mask in other.gres:
        gres[name, type_] &= ~mask
    cpus, mem_mb = part.cpus - other.cpus, part.mem_mb - other.mem_mb
    room = _Room(place, part, cpus, part.cpu_ids & ~other.cpu_ids, mem_mb, gres, 0)
    return room._replace(tasks=_most_tasks(room, request, tasks_per_node_max))


def _most_tasks(room: _Room, request: StepRequest, tasks_per_node_max: int) -> int:
    """How many tasks the node takes; 0 = it is of no use."""
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
        most = min(most, cpus // per_task) if is_exact(request) else (most if cpus >= part.cpus else 0)
    for name, type_, count in request.gres_per_node:
        if _free(room, name, type_) < count:
            return 0
    for name, type_, count in request.gres_per_task:
        if count:
            most = min(most, _free(room, name, type_) // count)
    return most if _has_implied(room, request) else 0


def _has_implied(room: _Room, request: StepRequest) -> bool:
    """A step that says nothing of GRES has all of the job's, so none of them may be in use."""
    if asks_gres(request):
        return True
    return all(room.gres[name, type_] == mask for name, type_, mask in room.part.gres)


def asks_gres(request: StepRequest) -> bool:
    """True when the request says what GRES it wants, or that it wants none."""
    return request.no_gres or bool(request.gres_per_node or request.gres_per_step or request.gres_per_task)


def count_of(gres: Mapping[tuple[str, str], int], name: str, type_: str) -> int:
    """Devices of a kind; without a type those of all types of the name."""
    return sum(mask.bit_count() for (n, t), mask in gres.items() if n == name and (not type_ or t == type_))


def _free(room: _Room, name: str, type_: str) -> int:
    """The same, of shares of GPUs those that the job has: its steps share them."""
    if name in SHARED_NAMES:
        return sum(share.units for share in room.part.shares if share.name == name)
    return count_of(room.gres, name, type_)


def _choose(rooms: list[_Room], request: StepRequest, nodes_min: int, nodes_max: int, ntasks: int) -> list[_Room]:
    """So many nodes with room for all tasks: the first ones, else those with most room."""
    wanted = set(request.nodes_required)
    must = [room for room in rooms if room.part.node in wanted]
    others = [room for room in rooms if room.part.node not in wanted and room.tasks]
    if any(not room.tasks for room in must):
        raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, "a node that was named has no room")
    for order in (others, sorted(others, key=lambda room: (-room.tasks, room.place))):
        for number in range(max(nodes_min, len(must)), max(nodes_max, len(must)) + 1):
            found = must + order[: number - len(must)]
            if len(found) == number and _is_enough(found, request, ntasks):
                return sorted(found, key=lambda room: room.place)
    raise Unfit(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE)


def _is_enough(rooms: list[_Room], request: StepRequest, ntasks: int) -> bool:
    if sum(room.tasks for room in rooms) < ntasks or ntasks < len(rooms):
        return False
    return all(sum(_free(room, name, type_) for room in rooms) >= count for name, type_, count in request.gres_per_step)


# ---- tasks and ranks --------------------------------------------------------------------------------------------------


def _deal(most: list[int], ntasks: int, pack: bool) -> list[int]:
    """How many tasks each node gets: at least one, and in turns as far as there is room."""
    counts = [1] * len(most)
    left = ntasks - len(most)
    if pack:
        for i, room in enumerate(most):
            more = min(left, room - 1)
            counts[i] += more
            left -= more
        return counts
    while left > 0:
        open_ = [i for i, room in enumerate(most) if counts[i] < room]
        turns = max(1, min(min(most[i] - counts[i] for i in open_), left // len(open_)))
        for i in open_:
            more = min(turns, left)
            counts[i] += more
            left -= more
    return counts


def _first_level(distribution: str) -> tuple[str, int, tuple[str, ...]]:
    """(how ranks go over nodes, size of a plane, words such as PACK)."""
    text, *words = distribution.split(",")
    first = text.split(":")[0].strip().lower()
    word, _, size = first.partition("=")
    plane = int(size) if word == "plane" and size.isdigit() and int(size) else 1
    return ("block" if word in ("", "*") else word), plane, tuple(w.strip().upper() for w in words)


def rank_lists(counts: Sequence[int], distribution: str) -> list[tuple[int, ...]]:
    """Global ranks by node. block: one node after the other; cyclic: in turns; plane=N: in turns, N at a time."""
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
    """Rank i runs on the i-th node of the list."""
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


# ---- what it may use --------------------------------------------------------------------------------------------------


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
    """What is asked for of the whole step, dealt out to its nodes in turns."""
    found: list[list[tuple[str, str, int]]] = [[] for _ in rooms]
    for name, type_, count in (kind for kind in request.gres_per_step if kind[0] not in SHARED_NAMES):
        free = [count_of(room.gres, name, type_) for room in rooms]
        given = [0] * len(rooms)
        left = count
        while left:
            for i in range(len(rooms)):
                if left and given[i] < free[i]:
                    given[i] += 1
                    left -= 1
        for i, number in enumerate(given):
            if number:
                found[i].append((name, type_, number))
    return found


def _gres(
    request: StepRequest, room: _Room, tasks: int, of_step: list[tuple[str, str, int]], layout: Layout
) -> tuple[tuple[str, str, int], ...]:
    if request.no_gres:
        return ()
    if not asks_gres(request):
        return room.part.gres
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
