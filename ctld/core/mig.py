"""When a GPU is divided anew (MIG on demand): for jobs that wait for a kind which no GPU is now, but an idle one could be.

Looked at after a pass that saw something new, and only at the head of the queue:

1. The planner is asked about the first rows, as if divisions that are under way were done. Who starts then is served.
2. Of the others in order: with a request for a type, on nodes that it may have, the divisions that it would need
   (mig_plan.py) are shown to the planner as done. If that starts the job, those on the nodes that it gets are begun.
3. Otherwise GPUs are kept for the first such job: no other job gets them, and when the last that is on them has ended,
   they are divided. Without that, smaller jobs that fit as things are would pass it for ever.

What is never divided: a GPU with anything allocated on it or its instances; one that a higher-ranked waiting job needs
as it is; one that was divided less than PenstockMigPauseSeconds ago; one that may not be given to anybody, or is on a node
that is not up. A request for any gpu, without a type, divides nothing.

The doing is gpu_work.py's: the GPU is closed, the node does it, verifies, or puts back what was. After a failure there is
a pause; FAILURES_MAX failures within FAILURES_US drain the GPU, in words, for an administrator to look at.
"""

from typing import Any, Final

from ctld.core import gpu_work, gpus, het
from ctld.core.explain import tell_divisions
from ctld.core.gpu_model import Gpu, WorkKind
from ctld.core.mig_model import GPU, Kind, choices_of, counts, instances_of, layout_now, places_of
from ctld.core.mig_plan import Candidate, Division, Wish, change, lack, plan, wish_of
from ctld.core.model import Job, Node
from ctld.core.planning import Answer, Rows, Start, ask, present
from ctld.core.shares import MILLI, WHOLE_MILLI, whole_gpus
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.mig import Layout, format_layout

US: Final = 1_000_000
#: Rows of the queue that are looked at.
HEAD_MAX: Final = 64
#: Jobs for which the planner is asked about divisions, in one look.
JOBS_ASKED_MAX: Final = 8
#: Copies of one row (tasks of an array) that are counted as starting.
STARTS_MAX: Final = 512
#: Divisible nodes that are searched for one job.
NODES_MAX: Final = 256
#: After a failure a GPU rests so many times PenstockMigPauseSeconds.
FAILURE_PAUSES: Final = 5
FAILURES_MAX: Final = 3
FAILURES_US: Final = 24 * 3600 * US
#: What the node has for it; the core gives up somewhat later (gpu_work.py).
TIMEOUT_S: Final = 60
REASON_MAX: Final = 256

Columns = Any


def look(state: ClusterState, now_us: int) -> None:
    """After a pass: begin divisions that the head of the queue waits for."""
    if not state.divisible:
        return
    rows = state.pending.first(HEAD_MAX)
    if state.hets:
        rows = het.whole(state, rows)
    _Look(state, now_us, rows).run()


class _Look:
    """One look. `free` is by node and kind, as it would be when divisions under way are done."""

    def __init__(self, state: ClusterState, now_us: int, rows: Rows) -> None:
        self.state, self.now_us, self.rows = state, now_us, rows
        self.nodes = [state.nodes[name] for name in state.divisible[:NODES_MAX] if name in state.nodes]
        self.jobs = self._jobs()
        self.needs: list[tuple[int, Wish]] = []  # (nodes as bits, wish) of those who wait, so far
        self.waits: dict[int, str] = {}
        self.keeps: dict[tuple[str, str], int] = {}
        self.due_us = 0  # when something that must rest now may be divided; 0 = nothing must
        self.free: Columns = None
        self.asked = 0

    def _jobs(self) -> list[tuple[Job, list[int]]]:
        """Those of the head that want GPUs, with the positions of their rows; one with copies once."""
        found: dict[int, list[int]] = {}
        for position, job_id in enumerate(self.state.pending.table.job[self.rows].tolist()):
            found.setdefault(job_id, []).append(position)
        jobs = ((self.state.jobs[job_id], at) for job_id, at in found.items() if job_id in self.state.jobs)
        return [(job, at) for job, at in jobs if wish_of(job.request.gres_per_node)]

    def run(self) -> None:
        """Serve the jobs in order; then keep what is to be kept."""
        if any(self._is_typed(job) for job, _ in self.jobs):
            self._count_under_way()
            served = self._ask(self.rows, self.free)
            for job, positions in self.jobs:
                if self._serve(job, positions, served):
                    served = self._ask(self.rows, self.free)
                if self.state.policy.strict:
                    break  # nobody passes the first
        self._keep()
        if self.due_us and self.due_us != self.state.mig_due_us:
            self.state.mig_due_us = self.due_us
            self.state.timers.set(self.due_us, Timer.MIG)
        tell_divisions(self.state, self.waits)

    def _is_typed(self, job: Job) -> bool:
        """Does it ask for a type that a divisible node may have?"""
        typed = [kind for kind in wish_of(job.request.gres_per_node) if kind[1]]
        return any(kind in node.inside.kinds for kind in typed for node in self.nodes)

    # ---- the planner -------------------------------------------------------------------------------------------------

    def _count_under_way(self) -> None:
        """What is being divided counts as if it were done."""
        self.state.settle_shares()
        self.free = self.state.node_columns.free_gres.copy()
        for node in self.nodes:
            for gpu in under_way(node):
                self._add(self.free, node, counts(node, gpu.layout or (), gpu.facts.type))

    def _add(self, free: Columns, node: Node, more: dict[Kind, int]) -> None:
        kinds = self.state.gres_kinds
        for kind, count in more.items():
            free[node.index, kinds[kind]] += count
        if MILLI in kinds:
            free[node.index, kinds[MILLI]] += more.get((GPU, ""), 0) * WHOLE_MILLI

    def _ask(self, rows: Rows, free: Columns) -> Answer:
        question = present(self.state, self.now_us, rows, STARTS_MAX)
        given = question.given
        return ask(question._replace(given=given._replace(nodes=given.nodes._replace(free_gres=free))))

    def _left(self, answer: Answer, before: int) -> Columns:
        """What is free after the starts of the rows in front have taken theirs."""
        free = self.free.copy()
        for start in answer.starts:
            if start.position < before:
                for index, _, _, _ in start.placement:
                    free[index] -= self.state.pending.table.gres[self.rows[start.position]]
        return free

    # ---- one job -----------------------------------------------------------------------------------------------------

    def _serve(self, job: Job, positions: list[int], served: Answer) -> bool:
        """Look what a job needs. True when divisions have been begun for it."""
        wish, table = wish_of(job.request.gres_per_node), self.state.pending.table
        copies = max(int(table.count[self.rows[at]]) for at in positions)
        mine = [start for start in served.starts if start.job_id == job.job_id]
        bits, begun = 0, list[Division]()
        for at in positions:
            bits |= self.state.masks.bits[int(table.mask[self.rows[at]])]
        self._tell_under_way(job, wish, mine)
        if len(mine) < copies and self._is_typed(job) and self.asked < JOBS_ASKED_MAX:
            self.asked += 1
            begun = self._divide_for(job, wish, bits, positions, served)
            if not begun and not self.keeps:
                self._keep_for(job, wish, bits, self._left(served, positions[0]))
        self.needs.append((bits, wish))  # also of one who waits only for what is under way
        return bool(begun)

    def _divide_for(self, job: Job, wish: Wish, bits: int, positions: list[int], served: Answer) -> list[Division]:
        """Begin what makes the job start, unless it keeps one in front from starting."""
        left = self._left(served, positions[-1] + 1)
        plans: dict[int, list[Division]] = {}
        shown = self.free.copy()
        for node in self._among(bits):
            plans[node.index] = plan(node, wish, self._free(left, node), self._candidates(node))
            self._apply(shown, node, plans[node.index])
        if not any(plans.values()):
            return []
        if job.request.het_job_id:
            fitting = [i for i in plans if not lack(wish, self._free(left, self.state.node_list[i]))]
            used = [i for i, found in plans.items() if found][: max(0, max(1, job.request.nodes_min) - len(fitting))]
        else:
            used = self._starts_on(job, positions, served, shown)
        begun = [division for index in used for division in plans.get(index, ())]
        for division in begun:
            node = self.state.nodes[division.node]
            self._apply(self.free, node, [division])
            self._begin(node, division)
        if begun:
            self.waits[job.job_id] = words(begun)
        return begun

    def _starts_on(self, job: Job, positions: list[int], served: Answer, shown: Columns) -> list[int]:
        """Nodes on which the planner starts it with what it is shown; none when it keeps one in front from starting.

        The components of a heterogeneous job start together or not at all, so nobody asks for one of them.
        """
        rows = self.rows if self.state.hets else self.rows[: positions[-1] + 1]
        answer = self._ask(rows, shown)
        before = [start.job_id for start in served.starts if start.position < positions[0]]
        after = [start.job_id for start in answer.starts if start.position < positions[0]]
        mine = [start for start in answer.starts if start.job_id == job.job_id]
        if sorted(before) != sorted(after) or len(mine) <= sum(1 for s in served.starts if s.job_id == job.job_id):
            return []
        return list(dict.fromkeys(index for start in mine for index, _, _, _ in start.placement))

    def _apply(self, free: Columns, node: Node, divisions: list[Division]) -> None:
        for division in divisions:
            gpu = node.gpus[division.uuid]
            choice = next(choice for one, choice in choices_of(node) if one.uuid == gpu.uuid)
            self._add(free, node, change(node, Candidate(gpu, choice, free_places(node, gpu)), division.layout))

    def _tell_under_way(self, job: Job, wish: Wish, starts: list[Start]) -> None:
        """It will start when what is being divided is ready: say so."""
        waiting: list[Division] = []
        for index in dict.fromkeys(index for start in starts for index, _, _, _ in start.placement):
            node = self.state.node_list[index]
            if lack(wish, self._free(self.state.node_columns.free_gres, node)):
                waiting += [Division(node.name, g.uuid, g.facts.index, g.layout or ()) for g in under_way(node)]
        if waiting:
            self.waits[job.job_id] = words(waiting)

    def _among(self, bits: int) -> list[Node]:
        up = self.state.node_columns.up
        return [node for node in self.nodes if bits >> node.index & 1 and up[node.index] and node.connected]

    def _free(self, free: Columns, node: Node) -> dict[Kind, int]:
        kinds = self.state.gres_kinds
        return {kind: int(free[node.index, kinds[kind]]) for kind in node.inside.kinds if kind[0] == GPU}

    # ---- GPUs --------------------------------------------------------------------------------------------------------

    def _candidates(self, node: Node) -> list[Candidate]:
        """Idle ones that may be divided now."""
        found = []
        for gpu, choice in choices_of(node):
            if not self._may_be_divided(node, gpu) or not is_idle(node, gpu):
                continue
            rests_us = rest_until_us(gpu, self.state.config.mig_pause_s * US)
            if rests_us > self.now_us:
                self.due_us = min(self.due_us or rests_us, rests_us)
            else:
                found.append(Candidate(gpu, choice, free_places(node, gpu)))
        return found

    def _may_be_divided(self, node: Node, gpu: Gpu) -> bool:
        if any(one._replace(kept_for=0).is_closed() for one in (gpu, *instances_of(node, gpu.uuid))):
            return False
        now = layout_now(node, gpu)
        kinds = counts(node, now, gpu.facts.type) if now is not None else {}
        return not any(bits >> node.index & 1 and kind in kinds for bits, wish in self.needs for kind in wish)

    def _has_failed(self, gpu: Gpu) -> bool:
        """It rests after a failure: others may have it meanwhile."""
        return bool(gpu.failed_at_us) and rest_until_us(gpu, self.state.config.mig_pause_s * US) > self.now_us

    def _begin(self, node: Node, division: Division) -> None:
        gpu = node.gpus[division.uuid]._replace(kept_for=0)
        gpu_work.begin(self.state, self.now_us, node, gpu, WorkKind.DIVIDE, TIMEOUT_S, division.layout)

    def _keep_for(self, job: Job, wish: Wish, bits: int, left: Columns) -> None:
        """Keep GPUs that are in use for a job, on the nodes where they are free first."""
        choices: list[tuple[int, int, list[Division]]] = []
        fits = 0
        for node in self._among(bits):
            free = self._free(left, node)
            fits += not lack(wish, free)
            mine = [
                (free_at_s(self.state, node, gpu), Candidate(gpu, choice, free_places(node, gpu)))
                for gpu, choice in choices_of(node)
                if self._may_be_divided(node, gpu) and not self._has_failed(gpu)
            ]
            mine.sort(key=lambda pair: (pair[0], pair[1].gpu.facts.index, pair[1].gpu.uuid))
            for number in range(1, len(mine) + 1):
                if found := plan(node, wish, free, [candidate for _, candidate in mine[:number]]):
                    choices.append((mine[number - 1][0], node.index, found))
                    break
        choices.sort(key=lambda choice: choice[:2])
        wanted = max(1, job.request.nodes_min) - fits
        if not 0 < wanted <= len(choices):
            return
        divisions = [division for _, _, found in choices[:wanted] for division in found]
        for division in divisions:
            self.keeps[division.node, division.uuid] = job.job_id
        self.waits[job.job_id] = words(divisions, "to be idle and then ")

    def _keep(self) -> None:
        """Close what is kept now, open what is no more."""
        for node in self.nodes:
            changed = False
            for gpu in list(node.gpus.values()):
                kept_for = self.keeps.get((node.name, gpu.uuid), 0)
                if gpu.kept_for != kept_for:
                    gpus.put(self.state, node, gpu._replace(kept_for=kept_for))
                    changed = True
            if changed:
                gpus.settle(self.state, node)


def is_idle(node: Node, gpu: Gpu) -> bool:
    """Nothing is allocated on the GPU or on its instances."""
    used = whole_gpus(node)
    for slot in node.gpu_shares:
        used |= 1 << slot
    return not used & places_of(node, gpu)


def under_way(node: Node) -> list[Gpu]:
    """Its GPUs that are being divided now."""
    divided = (gpu for gpu in node.gpus.values() if gpu.work_id and gpu.work_kind == WorkKind.DIVIDE)
    return sorted(divided, key=lambda gpu: (gpu.facts.index, gpu.uuid))


def free_places(node: Node, gpu: Gpu) -> int:
    """Those of its places that can be given now, as a mask."""
    return places_of(node, gpu) & ~whole_gpus(node) & ~node.gpu_closed


def free_at_s(state: ClusterState, node: Node, gpu: Gpu) -> int:
    """When the last job on it is expected to end; 0 = it is idle."""
    mask = places_of(node, gpu)
    ends = [
        state.running.end_of(job_id)
        for job_id in node.jobs
        for part in state.jobs[job_id].alloc
        if part.node == node.name and any(name == GPU and held & mask for name, _, held in part.gres)
    ]
    return max(ends, default=0)


def rest_until_us(gpu: Gpu, pause_us: int) -> int:
    """Before then it is not divided again."""
    failed_at_us = max(gpu.failed_at_us, default=0)
    after_failure = failed_at_us + FAILURE_PAUSES * pause_us if failed_at_us else 0
    return max(gpu.divided_at_us + pause_us if gpu.divided_at_us else 0, after_failure)


def divided(state: ClusterState, now_us: int, gpu: Gpu, kind: WorkKind, ok: bool, text: str) -> Gpu:
    """What follows from the end of a division for the GPU's record; the caller puts it and settles.

    What there is now has been taken over. A GPU that is in no layout of its own any more helps nobody: it is drained.
    """
    node = state.nodes[gpu.node]
    now = layout_now(node, gpu)
    if ok and now == gpu.layout:
        return gpu._replace(divided_at_us=now_us, failed_at_us=())
    text = text or f"it is {'nothing' if now is None else format_layout(now)} afterwards"
    failures = (*(at_us for at_us in gpu.failed_at_us if at_us > now_us - FAILURES_US), now_us)
    gpu = gpu._replace(failed_at_us=failures, layout=now)
    known = [layout for one, choice in choices_of(node) if one.uuid == gpu.uuid for layout in ((), *choice.layouts)]
    if now not in known:
        return gpu_work.drained(gpu, now_us, f"could not be divided: {text}")
    if len(failures) < FAILURES_MAX:
        return gpu
    gpu = gpu._replace(failed_at_us=())
    return gpu_work.drained(gpu, now_us, f"could not be divided, {len(failures)} times in 24 hours: {text}")


def untried(gpu: Gpu, now_us: int) -> Gpu:
    """The node has not done anything: it rests, so that this is not asked again at once."""
    return gpu._replace(divided_at_us=now_us, layout=None)


def forget(state: ClusterState) -> None:
    """After a reload: nothing is kept on nodes whose GPUs are not divided any more. `settle` follows."""
    may_be = state.config.gpu_settings != "read-only"
    state.divisible = tuple(node.name for node in state.node_list if may_be and node.config.mig)
    for node in state.node_list:
        for gpu in list(node.gpus.values()) if not (may_be and node.config.mig) else ():
            if gpu.kept_for:
                gpus.put(state, node, gpu._replace(kept_for=0))


def rested(state: ClusterState, now_us: int, key: object, check: int) -> None:
    """The timer: a GPU that had to rest may be divided again."""
    state.mig_due_us = 0
    if state.divisible:
        state.changed()


def words(divisions: list[Division], first: str = "") -> str:
    """What a job waits for: "waits for GPU 0 of n1 to be divided into 1g.18gb*7"."""
    alike: dict[tuple[str, Layout], list[int]] = {}
    for division in divisions:
        alike.setdefault((division.node, division.layout), []).append(division.gpu_index)
    told = []
    for (node, layout), indices in alike.items():
        which = f"GPU{'s' if len(indices) > 1 else ''} {','.join(map(str, indices))} of {node}"
        what = f"divided into {format_layout(layout)}" if layout else "made whole"
        told.append(f"{which} {first}to be {what}")
    return f"waits for {'; '.join(told)}"[:REASON_MAX]
