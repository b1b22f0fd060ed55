"""penstock report: days, the numbers from the controller's answers, the page."""

import os
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.base.run import CommandError
from cli.listings.jobreports import Efficiency, Waits
from cli.subcommands.report import days_between, write
from cli.subcommands.reportdata import OTHERS, Day, Report, load
from cli.subcommands.reportpage import page
from penstock.v1.governance_pb2 import ReportReply, ReportRequest, ReportRow

Kind = ReportRequest.Kind
HOUR_US = 3_600_000_000
EVIL = "<script>alert(1)</script>$x^{"


@pytest.fixture
def berlin() -> Any:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    os.environ.pop("TZ") if before is None else os.environ.__setitem__("TZ", before)
    time.tzset()


def test_days_are_whole_also_when_clocks_change(berlin: None) -> None:
    start_s = int(time.mktime((2026, 10, 24, 15, 0, 0, 0, 0, -1)))
    end_s = int(time.mktime((2026, 10, 27, 0, 0, 0, 0, 0, -1)))
    days = days_between(start_s, end_s)
    assert [(end - begin) // HOUR_US for begin, end in days] == [24, 25, 24]
    assert all(one[1] == other[0] for one, other in pairwise(days))
    with pytest.raises(CommandError, match="more than 400 days"):
        days_between(0, end_s)


class Controller:
    """Answers as the RPC Report does."""

    cluster = SimpleNamespace(cluster_name="lab")

    def __init__(self, gpus: int) -> None:
        self.gpus = gpus

    def stream(self, method: str, request: ReportRequest, timeout_s: float | None = None) -> Any:
        assert method == "Report"
        yield ReportReply(rows=list(self.rows(request)))

    def rows(self, request: ReportRequest) -> Any:
        if request.kind == Kind.CLUSTER and request.tres == ["gres/gpu"] and self.gpus:
            yield ReportRow(tres="gres/gpu", values=[36_000, 3_600, 0, 7_200, 3_600, 50_400, 0, self.gpus])
        elif request.kind == Kind.CLUSTER and request.tres == ["cpu"]:
            yield ReportRow(tres="cpu", values=[3_600, 0, 0, 3_600, 0, 7_200, 0, 2])
        elif request.kind == Kind.USAGE:
            for number in range(12):
                yield ReportRow(keys=[f"a{number}" if number else EVIL], values=[3_600 * (12 - number)])
        elif request.kind == Kind.WAITS:
            yield ReportRow(keys=[EVIL], values=[10, 1_000, 60, 300, 400])
        elif request.kind == Kind.EFFICIENCY:
            yield ReportRow(keys=[EVIL], values=[10, 50, 100, 1, 4, -1, 0])


DAYS = [(0, 24 * HOUR_US), (24 * HOUR_US, 48 * HOUR_US)]


def test_numbers_come_from_the_roll_ups() -> None:
    client: Any = Controller(gpus=8)
    found = load(client, DAYS)
    assert found.tres == "gres/gpu"
    assert found.days[0][1:] == (10.0, 1.0, 2.0, 1.0)
    assert list(found.usage) == [EVIL, *(f"a{n}" for n in range(1, 8)), OTHERS]
    assert sum(found.usage[OTHERS].values()) == 2 * (4 + 3 + 2 + 1)
    assert found.waits[EVIL] == Waits(10, 100, 60, 300, 400)
    assert found.efficiency[EVIL] == Efficiency(10, 0.5, 0.25, None)
    without: Any = Controller(gpus=0)
    assert load(without, DAYS).tres == "cpu"


def test_the_page_has_everything_and_no_markup_of_users() -> None:
    client: Any = Controller(gpus=8)
    text = page(load(client, DAYS))
    assert "<script" not in text and "&lt;script&gt;" in text
    assert text.count("<svg") == 4 and "http-equiv" not in text and "src=" not in text
    assert "GPU hours used" in text and "50 %" in text
    assert text == page(load(client, DAYS))


def test_a_cluster_without_jobs_has_a_page_too() -> None:
    empty = Report("lab", 0, 24 * HOUR_US, "cpu", (Day("1970-01-01", 0, 0, 0, 0),), {}, {}, {})
    text = page(empty)
    assert "<svg" not in text and text.count("Nothing in this time.") == 3


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        write(str(tmp_path / "no" / "page.html"), "x")
    write(str(tmp_path / "page.html"), "x")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
