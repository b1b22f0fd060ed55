"""Random inputs that use all that the planner knows, made by any chooser: hypothesis, or random.Random.

`pick(options)` chooses one; the plainest option stands first, so that hypothesis shrinks towards it. Numbers are small, so
that things meet: times lie within a minute or two of NOW_S.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from _fastsched.contract import FOREVER, PlanInput
from tests.fastsched.planner_input import NOW_S, Node, Resv, Run, planner_input

Pick = Callable[[Sequence[Any]], Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    nodes: list[Node]
    rows: list[Row]
    running: list[Run] = field(default_factory=list)
    resvs: list[Resv] = field(default_factory=list)
    licenses: list[int] = field(default_factory=list)
    order: list[int] | None = None
    limits: dict[str, Any] = field(default_factory=dict)

    def build(self) -> PlanInput:
        return planner_input(
            self.nodes,
            *self.rows,
            running=self.running,
            resvs=self.resvs,
            licenses=self.licenses,
            order=self.order,
            **self.limits,
        )

    def but(self, **changes: Any) -> "Case":
        return replace(self, **changes)


def _some(pick: Pick, n: int) -> list[int]:
    """A few of n nodes."""
    return [node for node in range(n) if pick((True, True, False))]


def _nodes(pick: Pick, n: int, levels: int) -> list[Node]:
    made = []
    for _ in range(n):
        leaf = pick((0, 1, 2)) % n if levels else 0
        node = Node(
            cpus=pick((4, 8, 4, 8, 2)),
            mem_mb=pick((16, 8, 16)),
            gres=pick(((2, 1), (2, 1), (2, 0), (0, 0))),
            under=(leaf, leaf // 2)[:levels],
        )
        if pick((False, False, False, True)):
            odd = pick(("weight", "weight", "quantum", "lost_cpus", "lost_mem_mb", "up", "lost_gres"))
            value: Any = {"weight": 1, "quantum": 2, "lost_cpus": pick((1, 9)), "lost_mem_mb": 3, "up": False}.get(odd)
            change: dict[str, Any] = {odd: (1, 0) if odd == "lost_gres" else value}
            node = replace(node, **change)
        made.append(node)
    return made


def _running(pick: Pick, n: int) -> list[Run]:
    made = []
    for _ in range(pick((0, 2, 4, 6, 8)) if n else 0):
        first = pick(range(n))
        on = dict.fromkeys([first, pick(range(n))] if pick((False, True)) else [first])
        holds = {node: (pick((2, 4, 1)), pick((0, 4)), pick((0, 0, 1))) for node in on}
        exclusive = pick((0, 0, 0, 0, 0, 1, 2))
        if exclusive == 1 and pick((False, True)):  # as one that has leaf switches for itself
            holds = dict.fromkeys(_some(pick, n), (0, 0, 0)) | holds
        made.append(
            Run(
                holds,
                end_s=NOW_S + pick((10, 20, 7, 35, -5)),
                user=pick((0, 1)),
                exclusive=exclusive,
                kind=pick((0, 1, 0, -1)),
                cost=pick((0, 1, 2)),
                licenses=(pick((0, 0, 1)),),
            )
        )
    return made


def _resvs(pick: Pick, n: int) -> list[Resv]:
    made = []
    for _ in range(pick((0, 0, 1, 2)) if n else 0):
        from_s = NOW_S + pick((-50, 15, 5, 40))
        blocks = [
            (pick(range(n)), pick((1, 2, -1, 0)), pick((0, 2)), pick((0, 0, 1))) for _ in range(pick((1, 2, 0, 3)))
        ]
        made.append(
            Resv(
                from_s,
                from_s + pick((30, 100, 10, FOREVER)),
                nodes=pick((None, list(range((n + 1) // 2)))),
                flex=pick((False, False, True)),
                blocks=blocks,
                licenses=pick(({}, {0: 1})),
            )
        )
    return made


def _feature(pick: Pick, what: str, row: Row, n: int, resvs: int) -> Row:
    """What one feature adds to a row."""
    simple: dict[str, dict[str, Sequence[Any]]] = {
        "mem_node": {"mem_node_mb": (4, 1, 0, 8)},
        "mem_cpu": {"mem_cpu_mb": (1, 2, 8, 0)},
        "gres": {"gres": ((1,), (2,), (0, 1), (1, 1))},
        "exclusive": {"exclusive": (1, 2, 2, 4, 4, 5)},
        "copies": {"count": (2, 3, 5, 0)},
        "units": {"cpu_units": (2,)},
        "spread": {"spread": (1,), "nodes_max": (3, 9)},
        "begin": {"earliest_s": (NOW_S + 5, NOW_S + 20, NOW_S - 3)},
        "deadline": {"latest_s": (NOW_S + 10, NOW_S + 30, NOW_S, NOW_S - 1)},
        "no_reserve": {"reserve": (0,)},
        "preempts": {"preempts": (3, 1, 2)},
        "switches": {"switches_max": (1, 2)},
        "order": {"order_kind": (1, 2)},
        "licenses": {"licenses": ((1,), (2,), (0, 1))},
        "per_node": {"ntasks_per_node": (1, 2)},
    }
    if what in simple:
        return {name: pick(options) for name, options in simple[what].items()}
    if what == "time_min":
        return {"limit_s": pick((30, 60, FOREVER)), "limit_min_s": pick((10, 5))}
    if what == "mask":
        return {"nodes": _some(pick, n)}
    if what == "groups":
        return {"groups": [(_some(pick, n), pick((1, 1, 2))) for _ in range(pick((1, 2)))]}
    if what == "resv":
        return {"resv": pick(range(resvs))} if resvs else {}
    if what == "segment":
        segment, times = pick((1, 2)), pick((1, 2))
        return {"segment": segment, "nodes_min": segment * times, "nodes_max": segment * times, "ntasks": segment * 3}
    name, value = pick(
        (
            ("count", 1),
            ("nodes_max", 9),
            ("user", 2),
            ("count", 2),
            ("nodes_min", 0),
            ("ntasks", 99),
            ("cpus_per_task", 0),
            ("limit_s", 0),
            ("exclusive", 3),
        )
    )
    return {name: value}


FEATURES = (
    "mem_node", "mem_cpu", "gres", "exclusive", "copies", "units", "spread", "begin", "deadline", "no_reserve",
    "preempts", "preempts", "switches", "order", "licenses", "per_node", "time_min", "mask", "groups", "resv", "segment", "odd",
)  # fmt: skip
#: Without these a row fits the better the more is free, and it takes the same nodes if nothing better came free.
PLAIN = tuple(x for x in FEATURES if x not in ("switches", "groups", "segment", "spread", "order", "odd", "time_min"))


def a_row(pick: Pick, n: int, resvs: int, features: Sequence[str]) -> Row:
    nodes = min(pick((1, 1, 1, 2, 2, 3)), n)
    row: Row = {
        "nodes_min": nodes,
        "nodes_max": nodes + pick((0, 0, 1)),
        "ntasks": nodes * pick((1, 2, 1, 1, 3)),
        "cpus_per_task": pick((1, 2, 1, 3)),
        "limit_s": pick((10, 20, 5, 30, 100)),
        "user": pick((0, 1)),
    }
    for _ in range(pick((0, 1, 2, 3))):
        row.update(_feature(pick, pick(features), row, n, resvs))
    return row


def a_case(pick: Pick, features: Sequence[str] = FEATURES, rows: Sequence[int] = (1, 2, 3, 4, 6)) -> Case:
    n = pick((2, 1, 3, 4, 6))
    levels = pick((0, 1, 2)) if "switches" in features else 0
    nodes, running, resvs = _nodes(pick, n, levels), _running(pick, n), _resvs(pick, n)
    made = [a_row(pick, n, len(resvs), features) for _ in range(pick(rows))]
    if "odd" in features:
        for at in range(1, len(made)):
            tie = pick(("", "", "", "", "", "job", "again", "het"))
            if tie == "job":
                made[at]["job"] = made[at - 1].get("job", at)
            elif tie == "again":
                made[at]["job"] = pick(range(1, at + 1))
            elif tie == "het":
                made[at]["het"] = made[at - 1]["het"] = made[at - 1].get("het", at)
    limits = {
        "resolution_s": pick((1, 1, 1, 7)),
        "units_per_cpu": pick((1, 1, 1, 2)),
        "window_s": pick((FOREVER, FOREVER, FOREVER, 30, 0)),
        "reserve_max": pick((-1, -1, 1, 0, 2)),
        "estimate": pick((True, True, False)),
        "copies_max": pick((20, 2, 1)),
        "starts_max": pick((9999, 9999, 9999, 9999, 2)),
        "rows_max": pick((9999, 9999, 9999, 9999, 3)),
    }
    order = pick((list(range(n)), list(range(n - 1, -1, -1)), [*range(1, n), 0]))
    return Case(nodes, made, running, resvs, [2, 1], order, limits)


@st.composite
def cases(draw: st.DrawFn, features: Sequence[str] = FEATURES, rows: Sequence[int] = (1, 2, 3, 4, 6)) -> Case:
    return a_case(lambda options: draw(st.sampled_from(options)), features, rows)
