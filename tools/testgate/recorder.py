"""A pytest plugin (`-p tools.testgate.recorder --gate-record FILE`): writes the outcome of each test, by name, as JSON.
And it names a failed test at once, and keeps a time-out from ending more than the test.

    {"status": 1, "collected": [NAME, ...], "outcomes": {NAME: "failed", ...},
     "failures": {NAME: {"line": "assert 1 == 2", "load": 3.1}}, "errors": [MODULE, ...], "costs": {NAME: [WALL_S, CPU_S], ...}}

`errors` are modules that could not be collected, `costs` is what each test took (costs.py). Under xdist the controller writes,
for all workers; each of these measures its own processor time, which comes with the report of each phase of a test.
"""

import json
import os
import signal
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tools.testgate.costs import used_s

LINE_LENGTH_MAX = 300
#: What a test has for its teardown after a report was made, however little of its time was left.
TEARDOWN_MIN_S = 60.0
#: An attribute of a report: the processor time since the report before it.
CPU_S = "cpu_s"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gate-record", metavar="FILE", help="write the outcome of each test into FILE")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--gate-record")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(path), config))


def pytest_runtest_logstart() -> None:
    """What was before the test is not its cost."""
    _meter.since_last_s()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Stops pytest-timeout's alarm while a report is made: an exception there is an internal error of pytest, which ends
    the worker, and the run with it. On a busy machine a long traceback takes a minute. What comes next is the teardown,
    which has its minimum, except after a set-up that passed: the test has no more than was left.
    """
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        report = yield
        setattr(report, CPU_S, _meter.since_last_s())
        return report
    finally:
        if left_s:
            least_s = 0.0 if call.when == "setup" and call.excinfo is None else TEARDOWN_MIN_S
            signal.setitimer(signal.ITIMER_REAL, max(left_s, least_s))


class Meter:
    """The processor time of this process, between two calls."""

    def __init__(self) -> None:
        self._last_s = used_s()

    def since_last_s(self) -> float:
        before_s, self._last_s = self._last_s, used_s()
        return self._last_s - before_s


_meter = Meter()


def first_line(report: pytest.TestReport) -> str:
    """What the failure says in its first line, without the traceback."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr or "")
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:LINE_LENGTH_MAX]


class Recorder:
    def __init__(self, path: Path, config: pytest.Config) -> None:
        self.path = path
        self._config = config
        self.collected: dict[str, None] = {}
        self.outcomes: dict[str, str] = {}
        self.failures: dict[str, dict[str, object]] = {}
        self.errors: dict[str, None] = {}
        self.costs: dict[str, list[float]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected.update(dict.fromkeys(item.nodeid for item in session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        self.collected.update(dict.fromkeys(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors[report.nodeid] = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The phases of a test: one that failed outweighs the others, and one that was skipped those that passed."""
        name = report.nodeid
        cost = self.costs.setdefault(name, [0.0, 0.0])
        cost[0] += report.duration
        cost[1] += getattr(report, CPU_S, 0.0)
        if report.failed:
            self.outcomes[name] = "failed"
            if name not in self.failures:
                line = first_line(report)
                self.failures[name] = {"line": line, "load": round(os.getloadavg()[0], 2)}
                # pytest names it at the end of the run, half an hour later
                self._config.get_terminal_writer().line(f"\nFAILED {name}: {line}")
        elif report.skipped:
            if self.outcomes.get(name) != "failed":
                self.outcomes[name] = "skipped"
        elif report.when == "call":
            self.outcomes.setdefault(name, "passed")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        record = {
            "status": int(exitstatus),
            "collected": list(self.collected),
            "outcomes": self.outcomes,
            "failures": self.failures,
            "errors": list(self.errors),
            "costs": {name: [round(part, 3) for part in cost] for name, cost in self.costs.items()},
        }
        self.path.write_text(json.dumps(record), encoding="utf-8")
