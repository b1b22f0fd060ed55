"""The result of `penstock sim run` as data: written as JSON and CSV, read again by `penstock sim compare`.

One document is one workload on one machine, run under one or more policies. Figures have the names of sim/metrics.py.
CPU times are separate from the figures, so that the same command gives the same figures everywhere.
"""

import csv
import io
import json
from dataclasses import dataclass, field
from pathlib import Path

# Any: members of a document of JSON
from typing import Any

from penstock.boundedfile import read_bounded
from penstock.values.errors import BadValue
from sim.metrics import TAU_S, measure
from sim.outcome import Options, Outcome
from sim.workload import Workload

FORMAT = "penstock-sim-1"
RESULT_FILE = "result.json"
#: A result has some KB for each policy; a larger file is none.
RESULT_BYTES_MAX = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class Run:
    """One policy's."""

    policy: str
    engine: str
    mode: str
    estimate: str
    seed: int
    cpu_s: float
    about: str
    metrics: dict[str, float]
    notes: tuple[str, ...] = ()  # what the engine ignored, and what else a reader must know


@dataclass(frozen=True, slots=True)
class Result:
    """All of one command."""

    workload: str
    jobs: int
    skipped: dict[str, int]
    filter: str
    window: str  # "" = the whole log
    processors: int
    tau_s: int
    runs: tuple[Run, ...]
    doubts: dict[str, int] = field(default_factory=dict)
    unrecorded: str = ""  # why there is no column of the schedule as recorded

    def to_json(self) -> str:
        runs = [{name: getattr(run, name) for name in Run.__slots__} for run in self.runs]
        head = {name: getattr(self, name) for name in self.__slots__ if name != "runs"}
        return json.dumps({"format": FORMAT, **head, "runs": runs}, indent=1) + "\n"

    def to_csv(self) -> str:
        """One row a policy."""
        names = list(dict.fromkeys(name for run in self.runs for name in run.metrics))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            ["workload", "jobs", "processors", "tau_s", "window", "engine", "policy", "mode", "estimate", *names]
        )
        for run in self.runs:
            head = [self.workload, self.jobs, self.processors, self.tau_s, self.window or "all"]
            figures = [run.metrics.get(name, "") for name in names]
            writer.writerow([*head, run.engine, run.policy, run.mode, run.estimate, *figures])
        return text.getvalue()


def run_of(workload: Workload, engine: str, notes: tuple[str, ...], options: Options, outcome: Outcome) -> Run:
    """An outcome with its figures."""
    figures = measure(outcome.schedule(workload, options), TAU_S)
    return Run(
        options.policy,
        engine,
        options.mode,
        options.estimate,
        options.seed,
        outcome.cpu_s,
        outcome.about,
        figures,
        notes,
    )


def load_result(path: str) -> Result:
    """From a JSON file or from the folder of a run. Raises BadValue, OSError."""
    file = Path(path) / RESULT_FILE if Path(path).is_dir() else Path(path)
    try:
        document: dict[str, Any] = json.loads(read_bounded(file, RESULT_BYTES_MAX))
        if document.pop("format") != FORMAT:
            raise KeyError("format")
        runs = tuple(Run(**run | {"notes": tuple(run.get("notes", ()))}) for run in document.pop("runs"))
        return Result(runs=runs, **document)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadValue(f"{file}: not a result of penstock sim run (--json FILE or --out FOLDER writes one)") from None


def jobs_csv(workload: Workload, outcome: Outcome) -> str:
    """Every job of a run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["job_id", "user", "procs", "submit_s", "start_s", "end_s"])
    names = workload.user_names or ("",)
    users = [names[k] if 0 <= k < len(names) else "" for k in workload.user.tolist()]
    columns = (workload.procs, workload.submit_s, outcome.start_s, outcome.end_s)
    writer.writerows(zip(workload.job_id.tolist(), users, *(column.tolist() for column in columns), strict=True))
    return text.getvalue()
