"""What must hold of every plan, found from the case and the result alone: no planner's code is used here.

Of a row that waits, the result names the nodes and the start but not the tasks on each node. What it holds is known where
it has one node or one task on each; else the checker counts what it holds at least (one task on each node).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from _fastsched.contract import FOREVER, PREEMPTING, STARTED, PlanResult
from tests.fastsched.planner_cases import Case, Row
from tests.fastsched.planner_input import HOUR_S, NOW_S, ROW, Resv, Start, plans, starts, victims


@dataclass(frozen=True)
class Held:
    """What a row has on one node, or, with node -1, of the licenses."""

    row: int
    node: int
    from_s: int
    to_s: int
    amounts: tuple[int, ...]  # cpu units, memory, GRES; or licenses
    exact: bool = True


def value(row: Row, name: str) -> Any:
    if name == "limit_min_s":
        return row.get("limit_min_s", row.get("limit_s", HOUR_S))
    return row.get(name, ROW.get(name))


def gres_of(row: Row) -> tuple[int, ...]:
    return (*row.get("gres", ()), 0, 0)[:2]


def mask_of(case: Case, row: Row) -> list[int]:
    nodes = row.get("nodes", range(len(case.nodes)))
    resv = case.resvs[value(row, "resv")] if value(row, "resv") >= 0 else None
    return [n for n in nodes if resv is None or resv.flex or resv.nodes is None or n in resv.nodes]


def takes(case: Case, row: Row, node: int, tasks: int) -> tuple[int, int, tuple[int, ...]]:
    """(cpus that the result names, memory, amounts held) of so many tasks on a node."""
    on = case.nodes[node]
    cpus = tasks * value(row, "cpus_per_task")
    while cpus % on.quantum:
        cpus += 1
    assert cpus <= on.cpus // case.limits.get("units_per_cpu", 1)
    whole = value(row, "exclusive") in (1, 5)
    if value(row, "mem_node_mb") >= 0:
        mem_mb = value(row, "mem_node_mb") or on.mem_mb
    elif value(row, "mem_cpu_mb") >= 0:
        mem_mb = (on.cpus // value(row, "cpu_units") if whole else cpus) * value(row, "mem_cpu_mb")
    else:
        mem_mb = on.mem_mb if whole else 0
    units = on.cpus if whole else cpus * value(row, "cpu_units")
    return on.cpus // value(row, "cpu_units") if whole else cpus, mem_mb, (units, mem_mb, *gres_of(row))


def check_nodes(case: Case, row: Row, nodes: list[int]) -> None:
    """Rule 3 as far as it says what a set of nodes must be."""
    assert len(set(nodes)) == len(nodes)
    assert value(row, "nodes_min") <= len(nodes) <= value(row, "nodes_max")
    assert len(nodes) <= value(row, "ntasks")
    assert all(case.nodes[n].up and n in mask_of(case, row) for n in nodes)
    order = case.order or list(range(len(case.nodes)))
    assert nodes == sorted(nodes, key=order.index)
    for mask, count in row.get("groups", ()):
        assert sum(n in mask for n in nodes) >= count
    leaves = [case.nodes[n].under[0] for n in nodes if case.nodes[n].under]
    if leaves and value(row, "switches_max"):
        assert len(set(leaves)) <= value(row, "switches_max")
    if leaves and value(row, "segment"):
        assert len(nodes) == value(row, "nodes_min")
        assert all(leaves.count(leaf) % value(row, "segment") == 0 for leaf in leaves)


def check_time(case: Case, row: Row, at_s: int, for_s: int) -> None:
    """Rules 0 and 5."""
    assert value(row, "earliest_s") <= at_s <= value(row, "latest_s")
    if value(row, "resv") >= 0 and not (resv := case.resvs[value(row, "resv")]).flex:
        assert resv.from_s <= at_s
        assert at_s + for_s <= resv.to_s


def check_start(case: Case, row: Row, start: Start) -> None:
    assert sum(start.on.values()) == value(row, "ntasks")
    assert min(start.on.values()) >= 1
    assert max(start.on.values()) <= (value(row, "ntasks_per_node") or value(row, "ntasks"))
    assert value(row, "limit_min_s") <= start.limit_s <= value(row, "limit_s")
    check_nodes(case, row, list(start.on))
    check_time(case, row, NOW_S, start.limit_s)
    for (node, tasks), cpus, mem_mb in zip(start.on.items(), start.cpus, start.mem_mb, strict=True):
        assert (cpus, mem_mb) == takes(case, row, node, tasks)[:2]


def units_of(case: Case) -> Iterator[list[int]]:
    """Positions that belong together."""
    unit: list[int] = []
    for at, row in enumerate(case.rows):
        before = case.rows[at - 1]
        het, job = value(row, "het"), row.get("job", at + 1)
        if at and (het == value(before, "het") if value(before, "het") else not het and job == before.get("job", at)):
            unit.append(at)
        else:
            if unit:
                yield unit
            unit = [at]
    if unit:
        yield unit


def holders(case: Case, result: PlanResult) -> Iterator[int]:
    """Positions of rows that hold something for a later time (or preempt)."""
    most, count = case.limits.get("reserve_max", -1), 0
    for unit in units_of(case):
        waits = [at for at in unit if result.start_s[at] >= 0 and result.reason[at] != STARTED]
        may = (most < 0 or count < most) and all(value(case.rows[at], "reserve") for at in waits)
        if waits and (may or result.reason[waits[0]] == PREEMPTING):
            yield from waits
            count += 1


def held_by(case: Case, result: PlanResult) -> list[Held]:
    answer = []
    for start in starts(result):
        row = case.rows[start.row]
        end_s = NOW_S + start.limit_s
        for node, tasks in start.on.items():
            answer.append(Held(start.row, node, NOW_S, end_s, takes(case, row, node, tasks)[2]))
        answer.append(Held(start.row, -1, NOW_S, end_s, (*row.get("licenses", ()), 0, 0)[: len(case.licenses)]))
    for at in holders(case, result):
        row, nodes, from_s = case.rows[at], plans(result)[at], int(result.start_s[at])
        end_s = from_s + value(row, "limit_min_s")
        known = len(nodes) in (1, value(row, "ntasks"))
        for node in nodes:
            tasks = value(row, "ntasks") if len(nodes) == 1 else 1
            answer.append(Held(at, node, from_s, end_s, takes(case, row, node, tasks)[2], known))
        answer.append(Held(at, -1, from_s, end_s, (*row.get("licenses", ()), 0, 0)[: len(case.licenses)]))
    return answer


def _kept(resv: Resv, node: int, kinds: int) -> tuple[int, ...]:
    """What a reservation keeps on a node, or with -1 of the licenses."""
    if node < 0:
        return tuple(resv.licenses.get(kind, 0) for kind in range(kinds))
    blocks = [(max(units, 0), *more, 0, 0, 0)[:4] for at, units, *more in resv.blocks if at == node]
    return tuple(map(sum, zip(*blocks, strict=True))) if blocks else (0,) * 4


def check_amounts(case: Case, result: PlanResult, node: int, held: list[Held], gone: list[int]) -> None:
    """No resource of this node (-1: no license) is given twice at any second; victims are gone a second from now."""
    kinds = len(case.licenses)
    if node < 0:
        total = list(case.licenses)
    else:
        on = case.nodes[node]
        lost = (on.lost_cpus, on.lost_mem_mb, *on.lost_gres)
        total = [a - b for a, b in zip((on.cpus, on.mem_mb, *on.gres), lost, strict=True)]
    preempting = {at for at, reason in enumerate(result.reason) if reason == PREEMPTING}
    uncertain = {h.row for h in held if not h.exact} | {
        at for at, row in enumerate(case.rows) if value(row, "count") > 1
    }
    turns = {x.from_s for x in held} | {resv.from_s for resv in case.resvs if resv.from_s > NOW_S}
    for second in sorted(turns):
        here = [h for h in held if h.from_s <= second < h.to_s and not (second == NOW_S and h.row in preempting)]
        free = list(total)
        for at, run in enumerate(case.running):
            if second < max(run.end_s, NOW_S + 1) and not (at in gone and second > NOW_S):
                has = (*run.licenses, 0, 0)[:kinds] if node < 0 else (*run.on.get(node, (0,)), 0, 0, 0)[:4]
                free = [a - b for a, b in zip(free, has, strict=True)]
        for other, resv in enumerate(case.resvs):
            members = [h for h in here if value(case.rows[h.row], "resv") == other]
            strangers = [h for h in here if h not in members and any(h.amounts)]
            if not resv.from_s <= second < resv.to_s or not strangers:
                continue
            if any(h.row in uncertain for h in held if value(case.rows[h.row], "resv") == other):
                continue
            keeps = _kept(resv, node, kinds)
            used = [sum(h.amounts[k] for h in members) for k in range(len(free))]
            for k, amount in enumerate(keeps):
                if any(h.amounts[k] for h in strangers):
                    free[k] -= max(0, amount - used[k])
            assert node < 0 or not any(b[0] == node and b[1] < 0 for b in resv.blocks), "a stranger on a whole block"
        for k, most in enumerate(free):
            taken = sum(h.amounts[k] for h in here)
            assert taken == 0 or taken <= most, (node, second, k, taken, most)


def check_company(case: Case, node: int, held: list[Held], gone: list[int], result: PlanResult) -> None:
    """Exclusive jobs and exclusive users, at any second."""
    there = [
        (h.from_s, h.to_s, value(case.rows[h.row], "exclusive"), value(case.rows[h.row], "user"),
         result.reason[h.row] == PREEMPTING) for h in held
    ]  # fmt: skip
    for at, run in enumerate(case.running):
        if node in run.on:
            end_s = NOW_S + 1 if at in gone else max(run.end_s, NOW_S + 1)
            there.append((NOW_S, end_s, run.exclusive, run.user, False))
    new = len(held)
    for a, (from_s, to_s, exclusive, user, preempts) in enumerate(there[:new]):
        for b, (other_from_s, other_to_s, other_exclusive, other_user, other_preempts) in enumerate(there):
            begin_s = max(from_s, other_from_s)
            if preempts or other_preempts:
                begin_s = max(begin_s, NOW_S + 1)
            if a == b or begin_s >= min(to_s, other_to_s):
                continue
            assert {exclusive, other_exclusive} <= {0, 2}
            assert user == other_user or 2 not in (exclusive, other_exclusive)


def check_leaves(case: Case, held: list[Held], gone: list[int], result: PlanResult) -> None:
    """Nobody else is on the leaf switches of a job that has them for itself alone."""
    preempting = {at for at, reason in enumerate(result.reason) if reason == PREEMPTING}
    there = [(f"row {h.row}", h.node, h.from_s + (h.row in preempting), h.to_s) for h in held if h.node >= 0]
    for at, run in enumerate(case.running):
        end_s = NOW_S + 1 if at in gone else max(run.end_s, NOW_S + 1)
        there += [(f"run {at}", node, NOW_S, end_s) for node in run.on]
    for one in held:
        if one.node < 0 or value(case.rows[one.row], "exclusive") not in (4, 5):
            continue
        begin_s = one.from_s + (one.row in preempting)
        for name, node, from_s, to_s in there:
            is_near = node == one.node or case.nodes[node].under[:1] == case.nodes[one.node].under[:1] != ()
            if name != f"row {one.row}" and is_near:
                assert to_s <= begin_s or one.to_s <= from_s, (one, name, node, from_s, to_s)


def check(case: Case, result: PlanResult) -> None:
    """All of it."""
    found, planned = starts(result), plans(result)
    for start in found:
        check_start(case, case.rows[start.row], start)
    now_s, limits = NOW_S, case.limits
    for at, row in enumerate(case.rows):
        copies = sum(start.row == at for start in found)
        start_s, reason = int(result.start_s[at]), int(result.reason[at])
        assert copies <= max(0, max(value(r, "count") for r in case.rows))
        assert (reason == STARTED) <= (copies > 0)
        if start_s < 0 or reason == STARTED:
            assert planned[at] == []
            assert start_s == (now_s if reason == STARTED else -1)
            continue
        check_nodes(case, row, planned[at])
        check_time(case, row, start_s, value(row, "limit_min_s"))
        if reason == PREEMPTING:
            assert start_s == now_s
        else:
            assert now_s < start_s < now_s + limits.get("window_s", FOREVER)
            assert start_s % limits.get("resolution_s", 1) == 0
    for unit in units_of(case):
        if value(case.rows[unit[0]], "het"):  # all at once or none
            assert len({int(result.start_s[at]) for at in unit}) == 1
            assert len({sum(start.row == at for start in found) for at in unit}) == 1
    gone = [run for _, run in victims(result)]
    assert len(set(gone)) == len(gone)
    held = held_by(case, result)
    check_leaves(case, held, gone, result)
    for node in range(-1, len(case.nodes)):
        here = [h for h in held if h.node == node]
        check_amounts(case, result, node, here, gone)
        if node >= 0:
            check_company(case, node, here, gone, result)
