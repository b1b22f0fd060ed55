"""recorded.json: what Slurm answered to the requests of one seed, in the normal form of answers.py. Facts alone, one request a line."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from differential.grants.answers import Job, Step

RECORDED = Path(__file__).parent / "recorded.json"


class Record(NamedTuple):
    """A request and the steps that were asked for in its job (() = the srun that says nothing); what came."""

    line: str
    steps: tuple[str, ...]
    job: Job
    got: list[Step]


def write(records: Iterable[Record]) -> None:
    lines = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records)
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def read() -> list[Record]:
    found: list[Any] = json.loads(RECORDED.read_text())
    return [Record(line, tuple(steps), Job(*job), [Step(*one) for one in got]) for line, steps, job, got in found]
