"""Each node's time is in one class at each moment, however events and maintenances lie over each other."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert

from accounting.clusterhours import count_hours
from accounting.rollup import HOUR_US, ClusterHour, Span, cluster_hour
from accounting.tables import NODE_EVENT, RESERVATION_SPAN
from ctld.store.dialect import write_engine
from penstock.values.reservations import ResvFlag
from tests.store.making import leading

MINUTE_US = 60_000_000
#: What nodes have; of each TRES.
NODES: dict[str, Mapping[str, int]] = {
    "n1": {"cpu": 4, "gres/gpu": 2}, "n2": {"cpu": 16, "gres/gpu": 8}, "n3": {"cpu": 4, "gres/gpu": 2},
}  # fmt: skip
TOTAL = {"cpu": 24, "gres/gpu": 12}

times = st.tuples(st.integers(-5, 65), st.integers(-5, 65)).map(sorted).map(tuple)
whole = st.tuples(st.sampled_from(sorted(NODES)), times)
parts = st.tuples(st.sampled_from(sorted(NODES)), times, st.integers(1, 4))


def spans(found: list[Any], amounts: Any) -> dict[str, list[Span]]:
    by_node: dict[str, list[Span]] = {}
    for name, (since, until), *more in found:
        kept = amounts(name, *more)
        by_node.setdefault(name, []).append(Span(HOUR_US + since * MINUTE_US, HOUR_US + until * MINUTE_US, kept))
    return by_node


def part_of(name: str, cpus: int = 99) -> dict[str, int]:
    return {"cpu": min(cpus, NODES[name]["cpu"]), "gres/gpu": NODES[name]["gres/gpu"] if cpus == 99 else 0}


@given(
    st.lists(whole, max_size=5), st.lists(whole, max_size=4), st.lists(parts, max_size=3), st.lists(times, max_size=2)
)
def test_the_hour_is_what_each_minute_of_each_node_is(down: Any, maint: Any, partly: Any, away: Any) -> None:
    had = [Span(MINUTE_US, 0, TOTAL)]
    gone = [(HOUR_US + a * MINUTE_US, HOUR_US + b * MINUTE_US) for a, b in away]
    found = cluster_hour(HOUR_US, had, spans(down, part_of), gone, spans(maint + partly, part_of))
    for tres, total in TOTAL.items():
        lost = planned = 0
        for minute in range(60):
            is_gone = any(a <= minute < b for a, b in away)
            for name, has in NODES.items():
                kept = [part_of(n, *more)[tres] for n, (a, b), *more in maint + partly if n == name and a <= minute < b]
                broken = any(n == name and a <= minute < b for n, (a, b) in down)
                if is_gone:
                    lost += has[tres]
                    continue
                planned += max(kept, default=0)
                lost += has[tres] - max(kept, default=0) if broken else 0
        expected = ClusterHour(total, total * HOUR_US, lost * MINUTE_US, planned * MINUTE_US)
        assert found[tres] == expected
        assert lost + planned <= total * 60


def test_maintenances_that_overlap_and_those_that_let_jobs_run(tmp_path: Path) -> None:
    """n1 and n2 of 4 and 16 CPUs for all the hour, n2 and n3 for its second half; one with IGNORE_JOBS of all; an old row."""
    place = tmp_path / "penstock.db"
    leading(place).close()
    engine = write_engine(str(place))
    both = {"name": "x", "flags": int(ResvFlag.MAINT), "who": "root"}
    rows = [
        dict(resv_id=1, start_at_us=0, end_at_us=HOUR_US, nodes="n[1-2]", tres="cpu=20,node=2",
             node_tres="n1 cpu=4,node=1\nn2 cpu=16,node=1", **both),
        dict(resv_id=2, start_at_us=HOUR_US // 2, end_at_us=HOUR_US, nodes="n[2-3]", tres="cpu=20,node=2",
             node_tres="n2 cpu=16,node=1\nn3 cpu=4,node=1", **both),
        dict(both, resv_id=3, start_at_us=0, end_at_us=HOUR_US, nodes="n[1-3]", tres="cpu=24,node=3",
             node_tres="n2 cpu=16,node=1\nn[1,3] cpu=4,node=1", flags=int(ResvFlag.MAINT | ResvFlag.IGNORE_JOBS)),
        dict(resv_id=4, start_at_us=HOUR_US, end_at_us=2 * HOUR_US, nodes="n[1-3]", tres="cpu=25,node=3", node_tres="", **both),
    ]  # fmt: skip
    with engine.begin() as connection:
        connection.execute(
            insert(NODE_EVENT),
            {
                "node": "",
                "start_at_us": 0,
                "end_at_us": 0,
                "state": "",
                "reason": "",
                "reason_uid": 0,
                "tres": "cpu=24,node=3",
            },
        )
        connection.execute(insert(RESERVATION_SPAN), rows)
        hours, _ = count_hours(connection, 0, 2 * HOUR_US, 24)
    engine.dispose()
    assert hours[0][1]["cpu"] == ClusterHour(24, 24 * HOUR_US, 0, 20 * HOUR_US + 4 * HOUR_US // 2)
    assert hours[0][1]["node"] == ClusterHour(3, 3 * HOUR_US, 0, 2 * HOUR_US + HOUR_US // 2)
    assert hours[1][1]["cpu"].planned_down_us == 25 * HOUR_US
