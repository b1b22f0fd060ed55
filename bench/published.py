"""The published figures of replays, as data: the expected result of each log under each protocol.

The logs are not ours to hand on: they lie in the folder PENSTOCK_TRACES (default: shared/traces beside the project's
folder), and docs/simulator.md says where to find them. Where the folder or a log is absent, its cases are left out.

Sources: the SC'15 study "Improving backfilling by using machine learning to predict running times" (Gaussier, Glesser,
Reis, Trystram) with every job's wait; a cross-check of FCFS with Batsim (HPC-workload-optimizer); reference values of
an independent plain-Python simulator, for conservative backfill verified job by job with pyss.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sim.engines import ENGINES
from sim.metrics import bounded_slowdown, measure
from sim.outcome import Options, Outcome
from sim.traces import read_trace
from sim.workload import FILTERS, Workload, from_columns

TRACES = Path(os.environ.get("PENSTOCK_TRACES") or Path(__file__).resolve().parents[1].parent / "shared" / "traces")


class Log(NamedTuple):
    """One log."""

    file: str
    processors: int  # as the study has it; the log's own header may say otherwise
    oracle: str = ""  # file with the waits of the study's jobs


LOGS = {
    "KTH-SP2": Log("swf/KTH-SP2-1996-2.1-cln.swf.gz", 100, "sc15/KTH-SP2.npz"),
    "CTC-SP2": Log("swf/CTC-SP2-1996-3.1-cln.swf.gz", 338, "sc15/CTC-SP2.npz"),
    "SDSC-SP2": Log("swf/SDSC-SP2-1998-4.2-cln.swf.gz", 128, "sc15/SDSC-SP2.npz"),
    "CEA-Curie": Log("swf/CEA-Curie-2011-2.1-cln.swf.gz", 80640),
    "lublin_256": Log("swf/lublin_256.swf.gz", 256),
}


class Case(NamedTuple):
    """One run and what was published of it."""

    log: str
    policy: str
    mode: str
    estimate: str
    want: dict[str, tuple[float, int]]  # figure -> value and its decimals
    waits: str = ""  # column of the oracle: the wait of every job
    filter: str = "sc15"
    processors: int = 0  # 0 = as in LOGS
    engine: str = "replay"

    @property
    def name(self) -> str:
        return f"{self.log} {self.policy} {self.estimate[:3]} {self.mode if self.engine == 'replay' else self.engine}"


_SC15_RUNS = (
    ("easy", "requested", "w_easy"),
    ("easy", "clairvoyant", "w_easy_run"),
    ("easy-sjbf", "requested", ""),
    ("easy-sjbf", "clairvoyant", "w_sjbf_run"),
    ("easypp", "requested", "w_easypp"),
)
_SC15_BSLD = {
    "KTH-SP2": (92.5765, 71.7224, 69.4054, 49.8477, 63.5007),
    "CTC-SP2": (49.5713, 37.1654, 30.0411, 17.5717, 85.7672),
    "SDSC-SP2": (87.8703, 70.4779, 84.8889, 56.8362, 79.3963),
    "CEA-Curie": (202.1332, 69.9259, 169.0303, 12.0798, 193.4713),
}
#: EASY, EASY clairvoyant, EASY-SJBF clairvoyant.
_SC15_WAIT = {
    "KTH-SP2": (6836.9, 6327.7, None, 5436.0, None),
    "CTC-SP2": (14272.6, 13581.7, None, 10005.0, None),
    "SDSC-SP2": (20497.8, 17337.1, None, 16307.1, None),
    "CEA-Curie": (6369.1, 4946.1, None, 2795.9, None),
}
_BATSIM = {"CTC-SP2": (512, 188.05, 6183, 34361, 29306751), "SDSC-SP2": (128, 56784.93, 1552128, 5103933, 68440542)}
_CONSERVATIVE = {
    "KTH-SP2": (88.9973, 7310.55, 67.1224, 7027.19),
    "SDSC-SP2": (89.6563, 21889.30, 66.8329, 18423.51),
    "CTC-SP2": (53.1105, 16753.12, 28.7738, 16262.11),
}
_REFERENCE_COLUMNS = (
    ("bsld_mean", 4),
    ("wait_mean_s", 1),
    ("wait_median_s", 1),
    ("wait_p95_s", 1),
    ("util_cpu", 4),
    ("makespan_s", 0),
    ("jain_user_bsld", 4),
)
_REFERENCE = """
KTH-SP2 fcfs req 6814.9733 353776.4 409362.0 805926.0 0.6852 29379608 0.3102
KTH-SP2 sjf req 135.2959 13333.2 0.0 61563.0 0.6856 29363626 0.0432
KTH-SP2 easy req 92.6877 6834.6 0.0 37634.0 0.6856 29363626 0.1707
KTH-SP2 easy-sjbf req 69.3936 5903.7 0.0 35012.0 0.6856 29363626 0.1637
KTH-SP2 conservative req 88.9973 7310.6 0.0 38994.0 0.6856 29363626 0.1861
KTH-SP2 conservative run 67.1224 7027.2 0.0 36124.0 0.6856 29363626 0.2187
SDSC-SP2 fcfs req 13823.5339 1535568.6 975607.0 5077720.2 0.7583 68579444 0.3446
SDSC-SP2 sjf req 400.6456 177136.7 806.5 213601.0 0.7896 65856423 0.0329
SDSC-SP2 easy req 87.8055 20570.9 1232.5 105350.0 0.8229 63192188 0.1927
SDSC-SP2 easy-sjbf req 82.9957 20419.7 507.5 117381.0 0.8230 63189634 0.1721
SDSC-SP2 conservative req 89.6563 21889.3 2124.0 111073.0 0.8228 63200818 0.2736
SDSC-SP2 conservative run 66.8329 18423.5 1584.0 92878.2 0.8230 63189634 0.2758
CTC-SP2 fcfs req 3651.5662 655557.1 612005.0 1470409.0 0.7972 30725461 0.3981
CTC-SP2 sjf req 928.1979 322744.1 1978.0 2042770.8 0.7922 30920388 0.0853
CTC-SP2 easy req 48.8370 13943.0 1761.0 67125.1 0.8358 29306682 0.2780
CTC-SP2 easy-sjbf req 30.1047 11817.7 396.0 69730.4 0.8358 29306682 0.2414
CTC-SP2 conservative req 53.1105 16753.1 2669.0 77184.9 0.8358 29306682 0.1964
CTC-SP2 conservative run 28.7738 16262.1 3554.0 74749.0 0.8358 29306682 0.2968
lublin_256 fcfs req 66502.4755 2388443.8 2399531.5 4383794.5 0.6549 12482549 1.0000
lublin_256 sjf req 53.5435 275304.2 76.5 1601414.6 0.7197 11359058 1.0000
lublin_256 easy req 590.0538 97156.0 23072.5 598426.7 0.9363 8730698 1.0000
lublin_256 easy-sjbf req 219.5576 73394.4 4429.5 517777.1 0.8977 9106839 1.0000
lublin_256 conservative req 489.2013 131567.5 21361.5 701984.8 0.9365 8729497 1.0000
lublin_256 conservative run 489.2013 131567.5 21361.5 701984.8 0.9365 8729497 1.0000
"""


#: Policy `learned`: mean bounded slowdown, mean and p95 of waits. No publication: these are the figures that it has.
_OURS = """
KTH-SP2 batch 47.5736 5006.3 26687.0
KTH-SP2 event 47.6101 5011.4 26836.0
CTC-SP2 batch 19.2699 9473.8 49687.7
CTC-SP2 event 18.6440 9360.4 48607.6
SDSC-SP2 batch 57.4780 17962.4 99109.5
SDSC-SP2 event 56.9857 18307.6 102006.8
CEA-Curie batch 35.5658 2482.8 11363.1
CEA-Curie event 106.0761 3595.4 14287.0
lublin_256 batch 216.1159 72497.6 532143.4
lublin_256 event 193.8285 71832.7 513688.7
"""


def ours() -> list[Case]:
    """What our own policy gives, so that a change of it is seen."""
    found = []
    for line in _OURS.split("\n"):
        if line:
            log, mode, *values = line.split()
            columns = (("bsld_mean", 4), ("wait_mean_s", 1), ("wait_p95_s", 1))
            want = {name: (float(v), d) for (name, d), v in zip(columns, values, strict=True)}
            rows = "usable" if log == "lublin_256" else "sc15"
            found.append(Case(log, "learned", mode, "requested", want, filter=rows))
    return found


def cases() -> list[Case]:
    """All of them, by section: the study, the cross-check, conservative, the reference values."""
    found = []
    for log, slowdowns in _SC15_BSLD.items():
        for (policy, estimate, waits), bsld, wait in zip(_SC15_RUNS, slowdowns, _SC15_WAIT[log], strict=True):
            want = {"bsld_mean": (bsld, 4)} | ({"wait_mean_s": (wait, 1)} if wait is not None else {})
            found.append(Case(log, policy, "event", estimate, want, waits if LOGS[log].oracle else ""))
    for log, (processors, slowdown, wait, p95, makespan) in _BATSIM.items():
        want = {
            "bsld60_p95": (slowdown, 2),
            "wait_mean_s": (wait, 0),
            "wait_p95_rank_s": (p95, 0),
            "makespan_s": (makespan, 0),
        }
        found.append(Case(log, "fcfs", "batch", "requested", want, filter="batsim", processors=processors))
    for log, (bsld, wait, bsld_run, wait_run) in _CONSERVATIVE.items():
        for estimate, a, b in (("requested", bsld, wait), ("clairvoyant", bsld_run, wait_run)):
            found.append(Case(log, "conservative", "event", estimate, {"bsld_mean": (a, 4), "wait_mean_s": (b, 2)}))
    for line in _REFERENCE.split("\n"):
        if line:
            log, policy, estimate, *values = line.split()
            want = {name: (float(v), d) for (name, d), v in zip(_REFERENCE_COLUMNS, values, strict=True)}
            mode = "event" if policy == "conservative" else "batch"
            source = {"req": "requested", "run": "clairvoyant"}[estimate]
            found.append(Case(log, policy, mode, source, want, filter="usable" if log == "lublin_256" else "sc15"))
    found += [
        case._replace(engine="core")
        for case in found
        if (case.policy, case.mode, case.log in _SC15_BSLD) == ("easy", "batch", True)
    ]
    return [*found, Case("CEA-Curie", "easy", "batch", "requested", {}, engine="core")]


def is_there(log: str) -> bool:
    return (TRACES / LOGS[log].file).exists()


def load(log: str, filter_name: str, processors: int = 0) -> Workload:
    """The jobs of a log under a protocol; the study's with the few first jobs that the cleaned logs have lost."""
    known = LOGS[log]
    workload = read_trace(str(TRACES / known.file))
    if filter_name == "sc15" and known.oracle:
        workload = _with_jobs(workload, np.load(TRACES / known.oracle)["extra"])
    return FILTERS[filter_name](workload, processors or known.processors)


def _with_jobs(workload: Workload, extra: np.ndarray) -> Workload:
    """Rows of (submit, id, run, processors, requested, user), users by their number in the log."""
    user = np.array([int(name) for name in workload.user_names], dtype=np.int64)[workload.user]
    columns = {
        "submit_s": (workload.submit_s, 0),
        "job_id": (workload.job_id, 1),
        "run_s": (workload.run_s, 2),
        "procs": (workload.procs, 3),
        "allocated": (workload.allocated, 3),
        "requested_s": (workload.requested_s, 4),
        "user": (user, 5),
    }
    joined = {name: np.concatenate([column, extra[:, k]]) for name, (column, k) in columns.items()}
    return from_columns(workload.name, **joined, processors=workload.processors)


def run(case: Case, workload: Workload) -> tuple[Outcome, dict[str, float]]:
    """The outcome and its figures, also those of the cross-check: the unclipped slowdown, and for waits the nearest rank.

    (Its slowdowns are interpolated, its waits are not: interpolated, SDSC-SP2's p95 would be 5103921.)
    """
    options = Options(case.processors or LOGS[case.log].processors, case.policy, case.mode, case.estimate)
    outcome = ENGINES[case.engine](workload, options)
    figures = measure(outcome.schedule(workload, options))
    wait_s, run_s = outcome.start_s - workload.submit_s, outcome.end_s - outcome.start_s
    figures["bsld60_p95"] = float(np.quantile(bounded_slowdown(wait_s, run_s, 60, clipped=False), 0.95))
    figures["wait_p95_rank_s"] = float(np.quantile(wait_s, 0.95, method="nearest"))
    return outcome, figures


def differences(case: Case, workload: Workload, outcome: Outcome, figures: dict[str, float]) -> list[str]:
    """What is not as published; [] when all is, to the last printed digit."""
    found = [
        f"{name} {figures[name]:.{decimals}f}, published {value:.{decimals}f}"
        for name, (value, decimals) in case.want.items()
        if abs(figures[name] - value) > 0.5001 * 10.0**-decimals
    ]
    if case.waits:
        waits = np.load(TRACES / LOGS[case.log].oracle)[case.waits]
        if unequal := int((outcome.start_s - workload.submit_s != waits).sum()):
            found.append(f"the wait of {unequal} jobs")
    if case.engine != "replay":
        replay = run(case._replace(engine="replay"), workload)[0]
        if unequal := int((outcome.start_s != replay.start_s).sum()):
            found.append(f"the start of {unequal} jobs is not that of the replay")
    return found
