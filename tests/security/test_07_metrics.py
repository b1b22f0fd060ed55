"""Item 7, for metrics: a page is a text that is read on terminals, too, and a name on it neither commands one nor makes a line."""

from collections.abc import Iterable
from typing import Any

import pytest

from ctld.observe.jobfamilies import of_partitions, of_users_and_accounts
from ctld.observe.jobstats import JobStats, JobTotals
from ctld.observe.own import queue_families
from nodedaemon.core.gpuhealth_messages import Opinion
from nodedaemon.core.gpumessages import Device, Sample
from nodedaemon.core.steps import StepKey
from nodedaemon.observe.gpus import SampledGpu, dcgm_families, gpu_families
from nodedaemon.observe.machine import machine_families
from nodedaemon.observe.stepusage import StepLabels, StepReading, step_families
from penstock.exporter.exposition import MetricFamily, pieces
from penstock.values.gpustates import GpuState

KEY = StepKey(7, 0, 0)


def page(families: Iterable[MetricFamily]) -> str:
    """As it is sent: UTF-8, or it could not be."""
    return "".join(pieces(families, True)).encode().decode()


def of_controller(name: str) -> Iterable[MetricFamily]:
    stats = {name: JobStats()}
    totals = JobTotals(by_state={("PENDING", name): 1}, by_reason={name: 1})
    yield from of_users_and_accounts(stats, stats)
    yield from of_partitions(stats)
    yield from queue_families(totals, stats)


def of_node(name: str, proc: Any) -> Iterable[MetricFamily]:
    known = {KEY: StepLabels(name, name, name)}
    view = SampledGpu(Device(name, 3, 3, name, 143771, name, name), Sample(name, 1, util_percent=5), 1.0, (KEY,))
    (proc / "net").mkdir(exist_ok=True)
    line = "1000 1 0 0 0 0 0 0 2000 2 0 0 0 0 0 0"
    (proc / "net/dev").write_bytes(
        b"Inter-|\n face |\n  " + name.replace("\n", "").encode(errors="surrogatepass") + f": {line}\n".encode()
    )
    yield from step_families({KEY: StepReading(1, 2, 3, 4, 5)}, known, {KEY: "idle"})
    yield from gpu_families([view], [Opinion(name, GpuState.SUSPECT)], known, 1.0)
    yield from dcgm_families([view], name)
    yield from machine_families(str(proc), str(proc))


@pytest.mark.parametrize("evil", [
    "\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "a\rb", "a\x00b", "a\x7f", "\u202ecba", "a\u2028b", 'a"} 1\nslurm_jobs 99', "caf\udce9", "\ud800",
])  # fmt: skip
def test_07_no_name_on_a_page_is_obeyed_or_makes_a_line(tmp_path: Any, evil: str) -> None:
    for make in (of_controller, lambda name: of_node(name, tmp_path)):
        text = page(make(evil))
        assert "".join(char for char in text if char != "\n" and not char.isprintable()) == ""
        assert text.count("\n") == page(make("plain")).count("\n") and "\nslurm_jobs 99" not in text
