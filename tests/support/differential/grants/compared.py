"""Both answers to each request, judged: how many are equal, and what of the others has a reason.

Equal are answers that give the same: nodes, CPUs, memory, GPUs, numbers in the environment, ranks; or nothing, where both refuse
or both wait. How many of those that get nothing hear the same first complaint is a share of its own.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from differential.grants.answers import REFUSED, RUNS, WAITS, Job, Step
from differential.grants.judge import WORDS, Judge
from differential.grants.recorded import Record

Ask = Callable[[Record], tuple[Job, list[Step]]]


class Difference(NamedTuple):
    """One request of which the two answers differ."""

    request: str
    differs: str
    slurm: object
    ours: object
    family: str  # "" = nobody has said why

    def __str__(self) -> str:
        return f"$ {self.request}\n    {self.differs} [{self.family}]\n    Slurm {self.slurm}\n    ours  {self.ours}"


class Count(NamedTuple):
    """How many there were, and what differed."""

    total: int
    nothing: int  # both refuse, or both wait
    differences: list[Difference]

    def equal(self) -> float:
        """The share that gets the same, in percent."""
        return 100 * (1 - sum(one.differs != WORDS for one in self.differences) / max(1, self.total))

    def same_words(self) -> float:
        """Of those that get nothing, the share that hears the same first complaint, in percent."""
        return 100 * (1 - sum(one.differs == WORDS for one in self.differences) / max(1, self.nothing))

    def unexplained(self) -> list[Difference]:
        return [one for one in self.differences if not one.family]


def compare(records: Iterable[Record], ask: Ask, judge: Judge) -> tuple[Count, Count]:
    """Jobs, and steps in jobs."""
    jobs, steps = Count(0, 0, []), Count(0, 0, [])
    for record in records:
        own = ask(record)
        if not record.steps:
            differs = judge.jobs((record.job, record.got), own)
            jobs = _counted(jobs, judge, f"sbatch {record.line}", differs, (record.job, record.got), own)
            jobs = jobs._replace(nothing=jobs.nothing + _nothing(record.job, own[0]))
            continue
        assert own[0].said == record.job.said == RUNS, f"{record.line}: {own[0]}"
        for line, theirs, ours in zip(record.steps, record.got, own[1], strict=True):
            name = f"sbatch {record.line}: srun {line}"
            steps = _counted(steps, judge, name, judge.steps(theirs, ours), theirs, ours)
            steps = steps._replace(nothing=steps.nothing + _nothing(theirs, ours))
    return jobs, steps


def _counted(count: Count, judge: Judge, name: str, differs: str, theirs: object, ours: object) -> Count:
    if differs:
        family = judge.family(name, differs, theirs, ours)
        count.differences.append(Difference(name, differs, theirs, ours, family.name if family else ""))
    return count._replace(total=count.total + 1)


def _nothing(theirs: Job | Step, ours: Job | Step) -> bool:
    return theirs.said == ours.said and ours.said in (REFUSED, WAITS)
