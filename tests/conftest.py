"""What every test shares: which marked tests run where, and how hard hypothesis looks.

- `root` tests run when pytest runs as root and are skipped otherwise. As root they may not skip themselves: that would be a
  test nobody ever runs. The one exception is a skip whose reason begins with MACHINE_LACKS (a container without cgroups).
- `realgpu` tests need PENSTOCK_REAL_GPU=1.
- Hypothesis draws the same examples in every run of `make test`; `make test-full` looks further.
- Tests that wait for daemons stand between those that compute, so that processes that share the tests always have something to do.
- Byte code is kept (in __pycache__, whatever PYTHONDONTWRITEBYTECODE says): some thousand processes of ours start here, and
  each would compile the same modules again, as would each of those that share the tests.
- What a test does to signals ends with it. `scontrol requeue` ignores SIGTERM to its end, which is here the end of all tests;
  and what is ignored is inherited by every process that is started.
- No test sees the user's own cluster: PENSTOCK_HOME and PENSTOCK_CLUSTER are removed from the environment.
"""

import os
import signal
import sys
from collections.abc import Generator
from itertools import groupby

import pytest
from postgres import any_database, any_store, postgresql  # noqa: F401 (fixtures)

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # a machine that runs the tests without the development packages
    pass
else:
    slow_is_fine = [HealthCheck.too_slow]
    settings.register_profile(
        "quick", derandomize=True, deadline=None, max_examples=60, database=None, suppress_health_check=slow_is_fine
    )
    settings.register_profile("full", deadline=None, max_examples=1000, suppress_health_check=slow_is_fine)
    settings.load_profile(os.environ.get("PENSTOCK_HYPOTHESIS", "quick"))

MACHINE_LACKS = "machine lacks"
IS_ROOT = os.geteuid() == 0

for name in ("PENSTOCK_HOME", "PENSTOCK_CLUSTER", "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)
sys.dont_write_bytecode = False


#: What is to be done at these signals, whoever has started us: under nohup, or in the background, some are ignored.
DISPOSITIONS = {
    number: signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
}

#: Folders whose tests mostly wait: for daemons, time-outs, other processes.
WAITING = ("clients", "e2e", "gpu", "mpi", "node", "rpc")


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """The same, module by module; those of WAITING as far along as the others. A module's tests share its fixtures."""
    kinds: tuple[list[list[pytest.Item]], list[list[pytest.Item]]] = [], []
    for _, group in groupby(items, key=lambda item: item.path):
        module = list(group)
        kinds[module[0].path.parent.name in WAITING].append(module)
    placed = []
    for modules in kinds:
        total, done = sum(map(len, modules)) or 1, 0
        for number, module in enumerate(modules):
            placed.append((done / total, number, module))
            done += len(module)
    placed.sort(key=lambda one: one[:2])
    return [item for _, _, module in placed for item in module]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this run cannot do; mix those that wait with those that compute."""
    items[:] = mixed(items)
    for item in items:
        if not IS_ROOT and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if os.environ.get("PENSTOCK_REAL_GPU") != "1" and item.get_closest_marker("realgpu"):
            item.add_marker(pytest.mark.skip(reason="needs a real GPU and PENSTOCK_REAL_GPU=1"))


def pytest_runtest_setup() -> None:
    """Signals are as in a new process, whatever the test before has done."""
    for number, usual in DISPOSITIONS.items():
        if signal.getsignal(number) != usual:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A root test that skips itself although we are root has failed."""
    report = yield
    if IS_ROOT and report.skipped and item.get_closest_marker("root") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not reason.removeprefix("Skipped: ").startswith(MACHINE_LACKS) and not item.get_closest_marker("realgpu"):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} is marked root, runs as root and was skipped: {reason}"
    return report
