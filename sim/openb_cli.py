"""`penstock sim openb`: places the pods of an openb list on its nodes, by each policy and seed, and prints the table.

One row a policy: means over the seeds of the allocated GPUs when 90, 100 and 130 % of the cluster's GPUs have been
requested, beside the published value where the list is the study's own, and the end state of the first seed. `--curves`
writes every curve, `--picture` draws the means.
"""

import csv
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from _fastsched.fragment_contract import POLICIES
from _fastsched.fragment_pick import COMPILED
from penstock.commandline import CommandLine, Converted
from penstock.values.errors import BadValue
from sim.openb import (
    ARRIVALS_PERCENT,
    OpenbOutcome,
    OpenbWorkload,
    arrivals_of,
    make_workload,
    recorded_arrivals,
    replay,
    summarise,
)
from sim.openb_files import read_openb_nodes, read_openb_pods
from sim.openb_published import SEEDS, published

SEEDS_MAX = 1000
SHOWN_PERCENT = (90, 100, 130)


class OutputOptions(NamedTuple):
    """The output to be written, and its destination."""

    out: str | None
    curves: str | None
    picture: str | None


def _seeds(text: str) -> list[int]:
    """`42`, `42-51`."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise BadValue(f"{text!r} is not a seed or a range of seeds such as 42-51")
    seeds = range(int(first), int(last or first) + 1)
    if not 1 <= len(seeds) <= SEEDS_MAX:
        raise BadValue(f"{text!r} holds {len(seeds)} seeds; between 1 and {SEEDS_MAX} can be run")
    return list(seeds)


@click.command(
    "openb",
    cls=CommandLine,
    wrong_use=2,
    help="Place the pods of an openb list (Alibaba's GPU trace) on its nodes.",
    examples=(
        (
            "penstock sim openb --nodes nodes.csv.gz --pods pods.csv.gz --seeds 42-51",
            "all policies, ten arrival orders",
        ),
    ),
)
@click.option("--nodes", metavar="FILE", required=True, help="List of nodes, CSV, gzip or not.")
@click.option("--pods", metavar="FILE", required=True, help="List of pods, CSV, gzip or not.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(list(POLICIES)),
    help="May be given several times (default: all).",
)
@click.option(
    "--seeds", type=Converted("seeds", _seeds), default="42", metavar="N-M", help="Arrival orders (default: 42)."
)
@click.option("--sequences", metavar="NPZ", help="Recorded orders seqN and rankN instead of the generator's.")
@click.option("--out", metavar="FILE", help="Write the end state of every run as JSON.")
@click.option("--curves", metavar="FILE", help="Write every curve as CSV.")
@click.option("--picture", metavar="FILE", help="Draw the mean curves (.png, .svg, .pdf).")
@click.option("--json", "as_json", is_flag=True, help="Print the end state of every run as JSON, not the table.")
def command(
    nodes: str,
    pods: str,
    policies: tuple[str, ...],
    seeds: list[int],
    sequences: str | None,
    as_json: bool,
    **files: str | None,
) -> None:
    """Reads the lists, runs the policies, prints the results."""
    workload = make_workload(read_openb_nodes(nodes), read_openb_pods(pods))
    if not COMPILED:
        sys.stderr.write("penstock sim openb: warning: _fastsched is not compiled; this takes hours, not seconds\n")
    outcomes, pods_per_s = run(workload, list(policies) or list(POLICIES), seeds, sequences)
    _write(OutputOptions(**files), outcomes)
    if as_json:
        sys.stdout.write(json.dumps(_json_rows(outcomes)) + "\n")
        return
    known = published(pods) if tuple(seeds) == SEEDS else {}
    sys.stdout.write(table(outcomes, known, pods_per_s))


def run(
    workload: OpenbWorkload, policies: list[str], seeds: Sequence[int], sequences: str | None
) -> tuple[list[OpenbOutcome], dict[str, float]]:
    """All runs, and by policy the pods placed per second of CPU time."""
    outcomes: list[OpenbOutcome] = []
    spent, pods = dict.fromkeys(policies, 0.0), dict.fromkeys(policies, 0)
    for seed in seeds:
        arrivals = recorded_arrivals(workload, sequences, seed) if sequences else arrivals_of(workload, seed)
        for policy in policies:
            began = time.process_time()
            placed = replay(workload, arrivals, policy)
            spent[policy] += time.process_time() - began
            pods[policy] += len(arrivals.pods)
            outcomes.append(summarise(workload, arrivals, policy, seed, placed))
    return outcomes, {policy: pods[policy] / max(spent[policy], 1e-9) for policy in policies}


def mean_curves(outcomes: list[OpenbOutcome], policy: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Allocated and fragmented percent by percent arrived: means over the seeds."""
    own = [outcome for outcome in outcomes if outcome.policy == policy]
    curves = np.array([[o.allocated_curve, o.fragmentation_curve] for o in own])
    many = np.maximum((~np.isnan(curves)).sum(axis=0), 1)
    allocated, fragmented = np.nansum(curves, axis=0) / many
    return allocated, fragmented


def table(outcomes: list[OpenbOutcome], known: dict[str, float], pods_per_s: dict[str, float]) -> str:
    """The table of means, and the end states of the first seed."""
    seeds = sorted({outcome.seed for outcome in outcomes})
    policies = list(dict.fromkeys(outcome.policy for outcome in outcomes))
    lines = [
        f"GPUs allocated, % of the cluster, mean of {len(seeds)} seed{'s' * (len(seeds) > 1)}, when that many % were asked for"
    ]
    head = "".join(f"{f'{percent} %':>9}" for percent in SHOWN_PERCENT)
    lines.append(f"{'policy':<12}{head}{'sd @ 100':>10}{'published':>11}{'pods/s':>12}")
    for policy in policies:
        allocated, _ = mean_curves(outcomes, policy)
        values = "".join(f"{allocated[percent]:>9.2f}" for percent in SHOWN_PERCENT)
        at_100 = [outcome.allocated_curve[100] for outcome in outcomes if outcome.policy == policy]
        beside = f"{known[policy]:.2f}" if policy in known else "-"
        lines.append(f"{policy:<12}{values}{np.std(at_100):>10.2f}{beside:>11}{pods_per_s[policy]:>12,.0f}")
    lines += ["", f"end state of seed {seeds[0]}"]
    lines.append(
        f"{'policy':<12}{'failed pods':>13}{'GPU milli':>12}{'CPU milli':>13}{'GPUs touched':>14}{'fragmentation':>15}"
    )
    for o in (outcome for outcome in outcomes if outcome.seed == seeds[0]):
        counts = f"{o.failed_pods:>13}{o.allocated_gpu_milli:>12}{o.allocated_cpu_milli:>13}{o.gpus_touched:>14}"
        lines.append(f"{o.policy:<12}{counts}{o.fragmentation_milli:>15.1f}")
    return "\n".join([*lines, ""])


def _write(asked: OutputOptions, outcomes: list[OpenbOutcome]) -> None:
    if asked.out:
        Path(asked.out).write_text(json.dumps(_json_rows(outcomes), indent=2) + "\n", encoding="utf-8")
    if asked.curves:
        with Path(asked.curves).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["policy", "seed", "curve", *range(ARRIVALS_PERCENT + 1)])
            for o in outcomes:
                for name, curve in (("allocated", o.allocated_curve), ("fragmentation", o.fragmentation_curve)):
                    writer.writerow([o.policy, o.seed, name, *("" if np.isnan(y) else f"{y:.2f}" for y in curve)])
    if asked.picture:
        draw(outcomes, asked.picture)


def _json_rows(outcomes: list[OpenbOutcome]) -> list[dict[str, str | int | float]]:
    names = ("policy", "seed", "pods", "failed_pods", "allocated_gpu_milli", "allocated_cpu_milli", "gpus_touched")
    return [
        {
            **{name: getattr(o, name) for name in names},
            "fragmentation_milli": round(o.fragmentation_milli, 1),
            "allocated_percent_at_100": round(float(o.allocated_curve[100]), 3),
        }
        for o in outcomes
    ]


def draw(outcomes: list[OpenbOutcome], path: str) -> None:
    """Means of the curves as a picture; the ending of the name says of what kind."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise BadValue("--picture needs matplotlib: pip install 'penstock[sim]'") from None
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    arrived = np.arange(ARRIVALS_PERCENT + 1)
    for policy in dict.fromkeys(outcome.policy for outcome in outcomes):
        allocated, fragmented = mean_curves(outcomes, policy)
        left.plot(arrived[80:], allocated[80:], label=policy)
        right.plot(arrived, fragmented, label=policy)
    left.set(xlabel="GPUs asked for, % of the cluster", ylabel="GPUs allocated, %")
    right.set(xlabel="GPUs asked for, % of the cluster", ylabel="fragmentation, % of the cluster")
    left.legend()
    try:
        figure.savefig(path)
    except ValueError as error:
        raise BadValue(f"{path}: {error}") from None
