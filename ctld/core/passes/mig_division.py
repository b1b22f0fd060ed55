"""MIG on demand: divides an idle GPU for jobs that wait for a kind of device which no GPU has now.

Runs after a pass with new input, and only for the head of the queue:

1. The planner plans the first rows as if the divisions in progress were done. Jobs that start then need nothing more.
2. For each other job in order that requests a type: on nodes that it may have, the divisions that it would need
   (gpus/mig_plan.py) are planned as done. If the job starts then, the divisions on its nodes are begun.
3. Otherwise GPUs are reserved for the first such job: no other job gets them, and when the last job on them has ended,
   they are divided. Without that, smaller jobs that fit the present layout would overtake it forever.

Never divided are: a GPU with an allocation on it or its instances; one that a higher-ranked pending job needs as it is;
one that was divided less than PenstockMigPauseSeconds ago; one that may not be allocated, or is on a node that is not
up. A request for any gpu, without a type, divides nothing.

gpus/work.py carries it out: the GPU is closed, the node divides it and verifies the result, or restores the former
layout. After a failure there is a pause; FAILURES_MAX failures within FAILURES_US drain the GPU, with a reason for the
administrator.
"""

from typing import Final

from ctld.core.gpus import inventory
from ctld.core.gpus import work as gpu_work
from ctld.core.gpus.mig_plan import Candidate, Division, GpusWanted, change, gpus_wanted, lack, plan
from ctld.core.jobs import het
from ctld.core.passes.wait_reasons import set_division_reasons
from ctld.core.queue.planning import Answer, PlannedStart, Rows, ask, present
from ctld.core.records.gpu import Gpu, WorkKind
from ctld.core.records.job import Job
from ctld.core.records.mig import GPU, MigKind, choices_of, counts, instances_of, layout_now, places_of
from ctld.core.records.node import Node
from ctld.core.state.columns import I32
from ctld.core.state.shares import MILLI, WHOLE_MILLI, whole_gpus
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.mig import GpuLayout, format_layout

US: Final = 1_000_000
#: Rows of the queue that are examined.
HEAD_MAX: Final = 64
#: Jobs whose divisions are planned in one run.
JOBS_ASKED_MAX: Final = 8
#: Copies of one row (tasks of an array) that are counted as starting.
STARTS_MAX: Final = 512
#: Divisible nodes that are searched for one job.
NODES_MAX: Final = 256
#: After a failure a GPU is not divided for so many times PenstockMigPauseSeconds.
FAILURE_PAUSES: Final = 5
FAILURES_MAX: Final = 3
FAILURES_US: Final = 24 * 3600 * US
#: Time limit of the node; the core's is somewhat longer (gpus/work.py).
TIMEOUT_S: Final = 60
REASON_MAX: Final = 256


def begin_divisions(state: ClusterState, now_us: int) -> None:
    """Begins divisions that the head of the queue waits for, after a pass."""
    if not state.gpus.divisible:
        return
    rows = state.pending.first(HEAD_MAX)
    if state.hets:
        rows = het.whole(state, rows)
    _DivisionPass(state, now_us, rows).run()


class _DivisionPass:
    """One pass over the head of the queue. `free` is by node and kind, as it will be when divisions in progress are
    done."""

    def __init__(self, state: ClusterState, now_us: int, rows: Rows) -> None:
        self.state = state
        self.now_us = now_us
        self.rows = rows
        self.nodes = [state.nodes[name] for name in state.gpus.divisible[:NODES_MAX] if name in state.nodes]
        self.jobs = self._jobs()
        self.needs: list[tuple[int, GpusWanted]] = []  # (nodes as bits, wanted) of those that wait, so far
        self.waits: dict[int, str] = {}
        self.keeps: dict[tuple[str, str], int] = {}
        self.due_us = 0  # when a pausing GPU may be divided; 0 = none pauses
        self.free = state.node_columns.free_gres
        self.asked = 0

    def _jobs(self) -> list[tuple[Job, list[int]]]:
        """Returns the jobs of the head that want GPUs, with the positions of their rows; one with copies once."""
        found: dict[int, list[int]] = {}
        for position, job_id in enumerate(self.state.pending.table.job[self.rows].tolist()):
            found.setdefault(job_id, []).append(position)
        jobs = ((self.state.jobs[job_id], at) for job_id, at in found.items() if job_id in self.state.jobs)
        return [(job, at) for job, at in jobs if gpus_wanted(job.request.gres_per_node)]

    def run(self) -> None:
        """Serves the jobs in order; then updates the reserved GPUs."""
        if any(self._is_typed(job) for job, _ in self.jobs):
            self._count_under_way()
            served = self._planned(self.rows, self.free)
            for job, positions in self.jobs:
                if self._serve(job, positions, served):
                    served = self._planned(self.rows, self.free)
                if self.state.scheduling.policy.strict:
                    break  # no job overtakes the first
        self._keep()
        if self.due_us and self.due_us != self.state.gpus.mig_due_us:
            self.state.gpus.mig_due_us = self.due_us
            self.state.timers.set(self.due_us, Timer.MIG)
        set_division_reasons(self.state, self.waits)

    def _is_typed(self, job: Job) -> bool:
        """Whether the job requests a type that a divisible node may have."""
        typed = [kind for kind in gpus_wanted(job.request.gres_per_node) if kind[1]]
        return any(kind in node.inside.kinds for kind in typed for node in self.nodes)

    # ---- the planner -------------------------------------------------------------------------------------------------

    def _count_under_way(self) -> None:
        """Counts divisions in progress as if they were done."""
        self.state.settle_shares()
        self.free = self.state.node_columns.free_gres.copy()
        for node in self.nodes:
            for gpu in under_way(node):
                self._add(self.free, node, counts(node, gpu.layout or (), gpu.facts.type))

    def _add(self, free: I32, node: Node, more: dict[MigKind, int]) -> None:
        kinds = self.state.layout.gres_kinds
        for kind, count in more.items():
            free[node.index, kinds[kind]] += count
        if MILLI in kinds:
            free[node.index, kinds[MILLI]] += more.get((GPU, ""), 0) * WHOLE_MILLI

    def _planned(self, rows: Rows, free: I32) -> Answer:
        question = present(self.state, self.now_us, rows, STARTS_MAX)
        given = question.given
        return ask(question._replace(given=given._replace(nodes=given.nodes._replace(free_gres=free))))

    def _left(self, answer: Answer, before: int) -> I32:
        """Returns the free resources after the starts of the preceding rows."""
        free = self.free.copy()
        for start in answer.starts:
            if start.position < before:
                for index, _, _, _ in start.placement:
                    free[index] -= self.state.pending.table.gres[self.rows[start.position]]
        return free

    # ---- one job -----------------------------------------------------------------------------------------------------

    def _serve(self, job: Job, positions: list[int], served: Answer) -> bool:
        """Determines what a job needs. Returns whether divisions have been begun for it."""
        wanted, table = gpus_wanted(job.request.gres_per_node), self.state.pending.table
        copies = max(int(table.count[self.rows[at]]) for at in positions)
        mine = [start for start in served.starts if start.job_id == job.job_id]
        bits, begun = 0, list[Division]()
        for at in positions:
            bits |= self.state.layout.masks.bits[int(table.mask[self.rows[at]])]
        self._note_under_way(job, wanted, mine)
        if len(mine) < copies and self._is_typed(job) and self.asked < JOBS_ASKED_MAX:
            self.asked += 1
            begun = self._divide_for(job, wanted, bits, positions, served)
            if not begun and not self.keeps:
                self._keep_for(job, wanted, bits, self._left(served, positions[0]))
        self.needs.append((bits, wanted))  # also those of a job that waits only for divisions in progress
        return bool(begun)

    def _divide_for(
        self, job: Job, wanted: GpusWanted, bits: int, positions: list[int], served: Answer
    ) -> list[Division]:
        """Begins the divisions that make the job start, unless it would delay one before it."""
        left = self._left(served, positions[-1] + 1)
        plans: dict[int, list[Division]] = {}
        shown = self.free.copy()
        for node in self._among(bits):
            plans[node.index] = plan(node, wanted, self._free(left, node), self._candidates(node))
            self._apply(shown, node, plans[node.index])
        if not any(plans.values()):
            return []
        if job.request.het_job_id:
            fitting = [i for i in plans if not lack(wanted, self._free(left, self.state.node_list[i]))]
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

    def _starts_on(self, job: Job, positions: list[int], served: Answer, shown: I32) -> list[int]:
        """Returns the nodes on which the planner starts it with these resources; none when it would delay one before
        it.

        The components of a heterogeneous job only start together, so a single one is never tried.
        """
        rows = self.rows if self.state.hets else self.rows[: positions[-1] + 1]
        answer = self._planned(rows, shown)
        before = [start.job_id for start in served.starts if start.position < positions[0]]
        after = [start.job_id for start in answer.starts if start.position < positions[0]]
        mine = [start for start in answer.starts if start.job_id == job.job_id]
        if sorted(before) != sorted(after) or len(mine) <= sum(1 for s in served.starts if s.job_id == job.job_id):
            return []
        return list(dict.fromkeys(index for start in mine for index, _, _, _ in start.placement))

    def _apply(self, free: I32, node: Node, divisions: list[Division]) -> None:
        for division in divisions:
            gpu = node.gpus[division.uuid]
            choice = next(choice for one, choice in choices_of(node) if one.uuid == gpu.uuid)
            self._add(free, node, change(node, Candidate(gpu, choice, free_places(node, gpu)), division.layout))

    def _note_under_way(self, job: Job, wanted: GpusWanted, starts: list[PlannedStart]) -> None:
        """Notes in its reason that it will start when the divisions in progress are done."""
        waiting: list[Division] = []
        for index in dict.fromkeys(index for start in starts for index, _, _, _ in start.placement):
            node = self.state.node_list[index]
            if lack(wanted, self._free(self.state.node_columns.free_gres, node)):
                waiting += [Division(node.name, g.uuid, g.facts.index, g.layout or ()) for g in under_way(node)]
        if waiting:
            self.waits[job.job_id] = words(waiting)

    def _among(self, bits: int) -> list[Node]:
        up = self.state.node_columns.up
        return [node for node in self.nodes if bits >> node.index & 1 and up[node.index] and node.connected]

    def _free(self, free: I32, node: Node) -> dict[MigKind, int]:
        kinds = self.state.layout.gres_kinds
        return {kind: int(free[node.index, kinds[kind]]) for kind in node.inside.kinds if kind[0] == GPU}

    # ---- GPUs --------------------------------------------------------------------------------------------------------

    def _candidates(self, node: Node) -> list[Candidate]:
        """Returns idle GPUs that may be divided now."""
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
        return not any(bits >> node.index & 1 and kind in kinds for bits, wanted in self.needs for kind in wanted)

    def _has_failed(self, gpu: Gpu) -> bool:
        """Whether it pauses after a failure: others may use it meanwhile."""
        return bool(gpu.failed_at_us) and rest_until_us(gpu, self.state.config.mig_pause_s * US) > self.now_us

    def _begin(self, node: Node, division: Division) -> None:
        gpu = node.gpus[division.uuid]._replace(kept_for=0)
        gpu_work.begin(self.state, self.now_us, node, gpu, WorkKind.DIVIDE, TIMEOUT_S, division.layout)

    def _keep_for(self, job: Job, wanted: GpusWanted, bits: int, left: I32) -> None:
        """Reserves GPUs in use for a job, on the nodes where they become free first."""
        choices: list[tuple[int, int, list[Division]]] = []
        fits = 0
        for node in self._among(bits):
            free = self._free(left, node)
            fits += not lack(wanted, free)
            mine = [
                (free_at_s(self.state, node, gpu), Candidate(gpu, choice, free_places(node, gpu)))
                for gpu, choice in choices_of(node)
                if self._may_be_divided(node, gpu) and not self._has_failed(gpu)
            ]
            mine.sort(key=lambda pair: (pair[0], pair[1].gpu.facts.index, pair[1].gpu.uuid))
            for number in range(1, len(mine) + 1):
                if found := plan(node, wanted, free, [candidate for _, candidate in mine[:number]]):
                    choices.append((mine[number - 1][0], node.index, found))
                    break
        choices.sort(key=lambda choice: choice[:2])
        missing = max(1, job.request.nodes_min) - fits
        if not 0 < missing <= len(choices):
            return
        divisions = [division for _, _, found in choices[:missing] for division in found]
        for division in divisions:
            self.keeps[division.node, division.uuid] = job.job_id
        self.waits[job.job_id] = words(divisions, "to be idle and then ")

    def _keep(self) -> None:
        """Closes the GPUs that are reserved now, opens those that are not any more."""
        for node in self.nodes:
            changed = False
            for gpu in list(node.gpus.values()):
                kept_for = self.keeps.get((node.name, gpu.uuid), 0)
                if gpu.kept_for != kept_for:
                    inventory.put(self.state, node, gpu._replace(kept_for=kept_for))
                    changed = True
            if changed:
                inventory.settle(self.state, node)


def is_idle(node: Node, gpu: Gpu) -> bool:
    """Whether nothing is allocated on the GPU or its instances."""
    used = whole_gpus(node)
    for slot in node.gpu_shares:
        used |= 1 << slot
    return not used & places_of(node, gpu)


def under_way(node: Node) -> list[Gpu]:
    """Returns the node's GPUs that are being divided now."""
    divided = (gpu for gpu in node.gpus.values() if gpu.work_id and gpu.work_kind == WorkKind.DIVIDE)
    return sorted(divided, key=lambda gpu: (gpu.facts.index, gpu.uuid))


def free_places(node: Node, gpu: Gpu) -> int:
    """Returns the places of the GPU that can be allocated now, as a mask."""
    return places_of(node, gpu) & ~whole_gpus(node) & ~node.gpu_closed


def free_at_s(state: ClusterState, node: Node, gpu: Gpu) -> int:
    """Returns when the last job on it is expected to end; 0 = it is idle."""
    mask = places_of(node, gpu)
    ends = [
        state.running.end_of(job_id)
        for job_id in node.jobs
        for part in state.jobs[job_id].alloc
        if part.node == node.name and any(name == GPU and held & mask for name, _, held in part.gres)
    ]
    return max(ends, default=0)


def rest_until_us(gpu: Gpu, pause_us: int) -> int:
    """Returns the time before which the GPU is not divided again."""
    failed_at_us = max(gpu.failed_at_us, default=0)
    after_failure = failed_at_us + FAILURE_PAUSES * pause_us if failed_at_us else 0
    return max(gpu.divided_at_us + pause_us if gpu.divided_at_us else 0, after_failure)


def divided(state: ClusterState, now_us: int, gpu: Gpu, kind: WorkKind, ok: bool, text: str) -> Gpu:
    """Applies the end of a division to the GPU's record; the caller stores it and calls `settle`.

    The new layout is in the record already. A GPU that is not in any of its configured layouts any more is useless: it
    is drained.
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
    """Pauses a GPU on which the node has not worked, so that the order is not repeated at once."""
    return gpu._replace(divided_at_us=now_us, layout=None)


def forget(state: ClusterState) -> None:
    """Releases the reserved GPUs of nodes whose GPUs are not divided any more, after a reload. `settle` follows."""
    may_be = state.config.gpu_settings != "read-only"
    state.gpus.divisible = tuple(node.name for node in state.node_list if may_be and node.config.mig)
    for node in state.node_list:
        for gpu in list(node.gpus.values()) if not (may_be and node.config.mig) else ():
            if gpu.kept_for:
                inventory.put(state, node, gpu._replace(kept_for=0))


def rested(state: ClusterState, now_us: int, key: object, check: int) -> None:
    """Handles the timer: a pause has ended, and the GPU may be divided again."""
    state.gpus.mig_due_us = 0
    if state.gpus.divisible:
        state.changed()


def words(divisions: list[Division], first: str = "") -> str:
    """Describes what a job waits for: "waits for GPU 0 of n1 to be divided into 1g.18gb*7"."""
    alike: dict[tuple[str, GpuLayout], list[int]] = {}
    for division in divisions:
        alike.setdefault((division.node, division.layout), []).append(division.gpu_index)
    texts = []
    for (node, layout), indices in alike.items():
        which = f"GPU{'s' if len(indices) > 1 else ''} {','.join(map(str, indices))} of {node}"
        what = f"divided into {format_layout(layout)}" if layout else "made whole"
        texts.append(f"{which} {first}to be {what}")
    return f"waits for {'; '.join(texts)}"[:REASON_MAX]
