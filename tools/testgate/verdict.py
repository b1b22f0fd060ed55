"""What runs of pytest mean together: whether failed tests run again, and the verdict at the end. No I/O."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

#: More failures than chance explains.
FAILED_MAX = 20
#: pytest's exit status: all passed; some failed. All others are errors: of usage, of pytest, nothing selected, interrupted.
PASSED, FAILED = 0, 1
#: Folders of `tests/` whose tests are deterministic by rule: chance there is a fault of the product.
DETERMINISTIC = frozenset({"values", "config", "core", "fastsched", "sim", "tidy"})


class Failure(NamedTuple):
    """How a test failed the first time."""

    name: str
    line: str
    load: float


class PytestRun(NamedTuple):
    """One run of pytest. `status` is that of its process; `outcomes`: "passed", "failed" or "skipped" by test; `costs`: seconds
    of wall and processor time by test."""

    status: int
    collected: tuple[str, ...]
    outcomes: dict[str, str]
    failures: tuple[Failure, ...]
    errors: tuple[str, ...]
    costs: Mapping[str, tuple[float, float]] = MappingProxyType({})

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(name for name, outcome in self.outcomes.items() if outcome == "failed")


class Verdict(NamedTuple):
    """`outcomes` of the last run of each test; `problems`: why the run is red beside failed tests."""

    status: int
    outcomes: dict[str, str]
    unsteady: tuple[Failure, ...]
    problems: tuple[str, ...]


def folder(name: str) -> str:
    """The folder of `tests/` that a test is in: the second part of its path."""
    parts = name.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "tests" else ""


def broken(run: PytestRun) -> list[str]:
    """Why a run says nothing reliable, or nothing at all."""
    found = [f"{name} could not be collected" for name in run.errors]
    found += [f"{name} was collected and never ran" for name in run.collected if name not in run.outcomes]
    if run.status not in (PASSED, FAILED):
        found.append(f"pytest ended with status {run.status}")
    elif not run.outcomes:
        found.append("no test ran")
    elif (run.status == FAILED) != bool(run.failed):
        found.append(f"pytest ended with status {run.status}, and {len(run.failed)} tests failed")
    return found


def beyond_chance(run: PytestRun) -> list[str]:
    """Why the failures of the first run are not repeated."""
    found = [f"{name} is deterministic by rule" for name in run.failed if folder(name) in DETERMINISTIC]
    if len(run.failed) > FAILED_MAX:
        found.append(f"{len(run.failed)} tests failed, more than {FAILED_MAX}")
    return found


def judge(runs: list[PytestRun]) -> Verdict:
    """The verdict after the first run and its repeats, each of what had failed in the one before."""
    first, *later = runs
    outcomes = dict(first.outcomes)
    problems = broken(first) + beyond_chance(first)
    before = first
    for run in later:
        problems += broken(run)
        again = {name: run.outcomes.get(name, "not run") for name in before.failed}
        # Only a test that passes takes its failure back: one that is skipped in the repeat showed nothing.
        problems += [
            f"{name} failed and was {outcome} when it was repeated"
            for name, outcome in again.items()
            if outcome not in ("passed", "failed")
        ]
        outcomes.update({name: outcome for name, outcome in again.items() if outcome == "passed"})
        before = run
    unsteady = tuple(failure for failure in first.failures if outcomes[failure.name] == "passed")
    red = problems or "failed" in outcomes.values()
    status = first.status if first.status not in (PASSED, FAILED) else FAILED
    return Verdict(status if red else PASSED, outcomes, unsteady, tuple(problems))
