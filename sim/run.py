"""`penstock sim run`: a workload log through one or more policies; a table, files, pictures."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from _fastsched import POLICIES
from penstock.values.config import Config
from penstock.values.errors import BadValue
from sim.edge import run_command
from sim.engines import ENGINES, ESTIMATES, Options, Outcome
from sim.metrics import TAU_S
from sim.report import table
from sim.results import RESULT_FILE, Result, jobs_csv, run_of
from sim.traces import read_trace
from sim.workload import FILTERS, Workload, window

NAME = "penstock sim run"
POLICY_HELP = (
    f"{', '.join(POLICIES)}, or choices as backfill=easy,candidates=smallest; may be repeated.  [default: easy]"
)
FILE = click.Path(dir_okay=False)
FOLDER = click.Path(file_okay=False)


@click.command(help="Run a workload log through the scheduler in virtual time and print what came of it.")
@click.option(
    "--trace", required=True, type=FILE, help="Standard Workload Format (.swf, .swf.gz) or output of sacct -P."
)
@click.option("--conf", type=FILE, help="slurm.conf of the machine: its CPUs, memory and GPUs.")
@click.option("--procs", type=click.IntRange(1), help="Processors of the machine; else from --conf, else from the log.")
@click.option("--policy", "policies", multiple=True, help=POLICY_HELP)
@click.option("--engine", type=click.Choice(list(ENGINES)), default=next(iter(ENGINES)), show_default=True)
@click.option(
    "--mode", type=click.Choice(["batch", "event"]), default="batch", show_default=True, help="When passes run."
)
@click.option(
    "--estimate",
    type=click.Choice(ESTIMATES),
    default=ESTIMATES[0],
    show_default=True,
    help="What is known of run times.",
)
@click.option(
    "--filter",
    "filter_name",
    type=click.Choice(list(FILTERS)),
    default="usable",
    show_default=True,
    help="Which rows count.",
)
@click.option("--window", "part", default="", help="Part of the log: jobs A:B, or times as 10d:20d.")
@click.option("--seed", type=int, default=0, show_default=True, help="For engines with chance in them.")
@click.option("--json", "json_file", type=FILE, help="Write the result as JSON.")
@click.option("--csv", "csv_file", type=FILE, help="Write the result as CSV, one row a policy.")
@click.option("--pictures", type=FOLDER, help="Write PNG pictures into a folder.")
@click.option("--out", type=FOLDER, help="Write JSON, CSV and every job's times into a folder.")
def command(**given: Any) -> None:
    """The body of the command."""
    workload, options = _prepare(given)
    runs: dict[str, tuple[Options, Outcome]] = {}
    policies = given["policies"] or ("easy",)
    with _progress(len(policies)) as told:
        for policy in policies:
            chosen = replace(options, policy=policy, progress=partial(told, policy, len(runs)))
            chosen.progress(0.0)
            runs[policy] = (chosen, ENGINES[given["engine"]](workload, chosen))
    found = tuple(run_of(workload, given["engine"], *run) for run in runs.values())
    result = Result(
        workload.name,
        len(workload),
        workload.skipped,
        given["filter_name"],
        given["part"],
        options.processors,
        TAU_S,
        found,
    )
    click.echo(table(result))
    _write(given, workload, result, runs)


def _prepare(given: dict[str, Any]) -> tuple[Workload, Options]:
    """The workload as it is to be run, and how."""
    log = read_trace(given["trace"])
    capacity, processors, config = {}, given["procs"], None
    if given["conf"]:
        from penstock.config import load

        config = load(given["conf"]).config
        capacity = _capacity(config)
        processors = processors or capacity["cpu"]
    processors = processors or log.processors
    if processors < 1:
        raise BadValue(f"{given['trace']} does not say how many processors the machine has: give --procs or --conf")
    workload = FILTERS[given["filter_name"]](log, processors)
    if not len(workload):
        raise BadValue(f"no job of {len(log)} passes the filter {given['filter_name']} on {processors} processors")
    if given["part"]:
        workload = window(workload, given["part"])
    others = {name: total for name, total in capacity.items() if name != "cpu" and total > 0}
    return workload, Options(
        processors, config=config, mode=given["mode"], estimate=given["estimate"], seed=given["seed"], capacity=others
    )


def _capacity(config: Config) -> dict[str, int]:
    """TRES of all its nodes."""
    nodes = config.nodes
    return {
        "cpu": sum(node.cpus for node in nodes),
        "mem": sum(node.real_memory_mb for node in nodes),
        "gres/gpu": sum(gres.count for node in nodes for gres in node.gres if gres.name == "gpu"),
    }


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[str, int, float], None]]:
    """A bar on a terminal, silence elsewhere. Gives a function of (policy, runs done, share of this one)."""
    with contextlib.ExitStack() as stack:
        bar: Any = None
        if sys.stderr.isatty():
            with contextlib.suppress(ModuleNotFoundError):  # rich is an extra
                from rich.console import Console
                from rich.progress import Progress

                bar = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        if bar is None:
            yield lambda policy, done, share: None
            return
        task = bar.add_task("", total=total)
        yield lambda policy, done, share: bar.update(task, completed=done + share, description=policy)


def _write(given: dict[str, Any], workload: Workload, result: Result, runs: dict[str, tuple[Options, Outcome]]) -> None:
    """The files that were asked for."""
    texts = {given["json_file"]: result.to_json(), given["csv_file"]: result.to_csv()}
    pictures = given["pictures"]
    if given["out"]:
        from sim.pictures import file_word

        folder = Path(given["out"])
        folder.mkdir(parents=True, exist_ok=True)
        texts |= {folder / RESULT_FILE: result.to_json(), folder / "result.csv": result.to_csv()}
        texts |= {folder / f"jobs-{file_word(name)}.csv": jobs_csv(workload, run[1]) for name, run in runs.items()}
    for file, text in texts.items():
        if file:
            Path(file).write_text(text, encoding="utf-8")
    if pictures:
        from sim.pictures import draw

        schedules = {name: outcome.schedule(workload, options) for name, (options, outcome) in runs.items()}
        draw(Path(pictures), workload.name, result.processors, schedules)


def main(argv: list[str]) -> int:
    """Status of the command."""
    return run_command(command, NAME, argv)
