"""Set-up of all tests: conditions of marked tests, and the effort of hypothesis.

- `root` tests run when pytest runs as root and are skipped otherwise. As root they may not skip themselves: such a test
  would never run. The one exception is a skip whose reason begins with MACHINE_LACKS (a container without cgroups).
- `realgpu` tests need PENSTOCK_REAL_GPU=1.
- Hypothesis draws the same examples in every run of `make test`; `make test-full` draws more. By itself it would also
  draw constants of the project's modules, those that the process has loaded so far: which examples a test gets would
  depend on the tests that its worker ran before.
- The garbage of a module's tests is collected when they have ended: an error in it (an unclosed loop, an unawaited
  coroutine) fails the module that left it, and not whichever test runs when the collector does.
- Tests that wait for daemons are interleaved with those that compute, so that worker processes are always busy.
- Byte code is cached (in __pycache__, regardless of PYTHONDONTWRITEBYTECODE): the tests start some thousand processes,
  and each would compile the same modules again, as would each worker.
- Collected tests are frozen: otherwise the garbage collector repeatedly walks through 9,000 tests and their modules,
  for half of the time of tests that compute.
- Signal handlers are restored after each test. `scontrol requeue` ignores SIGTERM until it exits, which would be here
  until the end of all tests; and child processes inherit ignored signals.
- So is the umask: the controller's main, called in the tests' process, sets it to 077, and no other user could enter
  the folders of later tests.
- Temporary files are in memory where the machine has room for them: databases and spools are forced to the disk some
  hundred thousand times, and the tests would wait for it, and fail when it stands still. TMPDIR chooses another place.
- How long tests wait is measured before the workers start, which inherit it (tests/support/patience.py).
- No test sees the user's own cluster: PENSTOCK_HOME and PENSTOCK_CLUSTER are removed from the environment.
"""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from itertools import groupby
from pathlib import Path

import patience
import pytest
from postgres import any_database, any_store, postgresql  # noqa: F401 (fixtures)

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # a machine without the development packages
    pass
else:
    from hypothesis.internal.conjecture import providers

    slow_is_fine = [HealthCheck.too_slow]
    settings.register_profile(
        "quick", derandomize=True, deadline=None, max_examples=30, database=None, suppress_health_check=slow_is_fine
    )
    settings.register_profile("full", deadline=None, max_examples=1000, suppress_health_check=slow_is_fine)
    settings.load_profile(os.environ.get("PENSTOCK_HYPOTHESIS", "quick"))
    if settings.default.derandomize:
        vars(providers)["is_local_module_file"] = lambda path: False  # no setting excludes them

MACHINE_LACKS = "machine lacks"
IS_ROOT = os.geteuid() == 0

for name in ("PENSTOCK_HOME", "PENSTOCK_CLUSTER", "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)
sys.dont_write_bytecode = False

MEMORY = "/dev/shm"
#: All workers together need less than 1 GiB; a container may have 64 MiB there.
MEMORY_FREE_MIN_BYTES = 4 << 30


def in_memory() -> bool:
    """Whether temporary files can be in memory: tests also execute some of them."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= MEMORY_FREE_MIN_BYTES and not found.f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and in_memory():
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY


@pytest.fixture
def disk_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As tmp_path, and not in memory, for a test whose jobs have a /dev/shm of their own; its clusters are not, either."""
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    with tempfile.TemporaryDirectory(prefix="pstk-") as name:
        yield Path(name)


@pytest.fixture(scope="module", autouse=True)
def _garbage() -> Iterator[None]:
    """Collects what the module's tests left; the first fixture to be made is the last to end."""
    yield
    gc.collect()


#: The actions at these signals, set explicitly: under nohup, or in the background, some are ignored.
DISPOSITIONS = {
    number: signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
}

#: The default umask of a machine; other users of some tests need read access.
UMASK = 0o022

#: Folders whose tests mostly wait: for daemons, time-outs, other processes.
WAITING = ("clients", "e2e", "gpu", "mpi", "node", "rpc", "security")


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Interleaves the tests by module, those of WAITING evenly among the others. A module's tests share its
    fixtures."""
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
    """Skips tests that cannot run here; interleaves those that wait with those that compute."""
    items[:] = mixed(items)
    for item in items:
        if not IS_ROOT and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if os.environ.get("PENSTOCK_REAL_GPU") != "1" and item.get_closest_marker("realgpu"):
            item.add_marker(pytest.mark.skip(reason="needs a real GPU and PENSTOCK_REAL_GPU=1"))


def pytest_report_header() -> str:
    """Of the machine as the tests find it."""
    times = patience.FACTOR * (patience.REPEAT_FACTOR if patience.REPEATED else 1.0)
    return f"patience: {times:.1f} times that of a quiet machine (load {os.getloadavg()[0]:.1f})"


def pytest_collection_finish() -> None:
    """Excludes the collected tests from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Sets signals and the umask as in a new process, whatever the previous test did."""
    os.umask(UMASK)
    for number, usual in DISPOSITIONS.items():
        if signal.getsignal(number) != usual:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Reports a root test that skips itself as root as failed."""
    report = yield
    if IS_ROOT and report.skipped and item.get_closest_marker("root") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not reason.removeprefix("Skipped: ").startswith(MACHINE_LACKS) and not item.get_closest_marker("realgpu"):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} is marked root, runs as root and was skipped: {reason}"
    return report
