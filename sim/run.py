"""`penstock sim run`: a workload log through one or more policies; a table, files, pictures."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Any: click passes options by name, with values of any type
from typing import Any

import click

from _fastsched import NODE_POLICIES, POLICIES
from penstock.commandline import CommandLine
from penstock.values.errors import BadValue
from sim.choice import AUTO
from sim.engines import ENGINES, ESTIMATES
from sim.outcome import Options, Outcome
from sim.report import table
from sim.results import RESULT_FILE, Result, jobs_csv
from sim.traces import read_trace
from sim.trial import capacity_of, tried
from sim.workload import FILTERS, Workload, window

NAMES = ", ".join([*POLICIES, *(name for name in NODE_POLICIES if name not in POLICIES)])
POLICY_HELP = f"{NAMES}, or choices as backfill=easy,candidates=smallest; may be repeated.  [default: easy]"
FILE = click.Path(dir_okay=False)
FOLDER = click.Path(file_okay=False)


@click.command(
    "run",
    cls=CommandLine,
    help="Run a workload log through the scheduler in virtual time and print the figures.",
    examples=(
        ("penstock sim run --trace jobs.txt --conf slurm.conf", "your own log, as sacct -P printed it"),
        (
            "penstock sim run --trace log.swf.gz --policy easy --policy easy-sjbf --out run-a",
            "two policies, with files",
        ),
    ),
)
@click.option(
    "--trace",
    required=True,
    type=FILE,
    help="Log: Standard Workload Format, output of sacct -P or --json, Philly, Helios, Alibaba GPU; also gzip.",
)
@click.option("--conf", type=FILE, help="slurm.conf of the machine: its CPUs, memory and GPUs.")
@click.option("--procs", type=click.IntRange(1), help="Processors of the machine; else from --conf, else from the log.")
@click.option("--policy", "policies", multiple=True, help=POLICY_HELP)
@click.option(
    "--engine",
    type=click.Choice([AUTO, *ENGINES]),
    default=AUTO,
    show_default=True,
    help="auto: the fastest engine that has all that log and --conf hold.",
)
@click.option(
    "--mode", type=click.Choice(["batch", "event"]), default="batch", show_default=True, help="When passes run."
)
@click.option(
    "--estimate",
    type=click.Choice(ESTIMATES),
    default=ESTIMATES[0],
    show_default=True,
    help="Source of run time estimates.",
)
@click.option(
    "--filter",
    "filter_name",
    type=click.Choice(list(FILTERS)),
    default="usable",
    show_default=True,
    help="Which rows count.",
)
@click.option(
    "--bound",
    type=click.IntRange(0),
    default=0,
    help="No job waits longer than N times its wait under easy, where less than a day counts as a day.",
)
@click.option("--window", "part", default="", help="Part of the log: jobs A:B, or times as 10d:20d.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random engines.")
@click.option("--json", "json_file", type=FILE, help="Write the result as JSON.")
@click.option("--csv", "csv_file", type=FILE, help="Write the result as CSV, one row a policy.")
@click.option("--pictures", type=FOLDER, help="Write PNG pictures into a folder.")
@click.option("--out", type=FOLDER, help="Write JSON, CSV and every job's times into a folder.")
def command(**given: Any) -> None:
    """The body of the command."""
    workload, options = _prepare(given)
    policies = given["policies"] or ("easy",)
    with _progress(len(policies)) as report_progress:
        trial = tried(workload, options, policies, given["engine"], report_progress)
    result = trial.result(given["filter_name"], given["part"], options.processors)
    click.echo(table(result))
    _write(given, trial.workload, result, trial.runs)


def _prepare(given: dict[str, Any]) -> tuple[Workload, Options]:
    """The prepared workload and the options."""
    log = read_trace(given["trace"])
    capacity = {}
    processors = given["procs"]
    config = None
    if given["conf"]:
        from penstock.config import load

        config = load(given["conf"]).config
        capacity = capacity_of(config)
        if processors not in (None, capacity["cpu"]) and given["engine"] != "replay":
            raise BadValue(
                f"--conf has {capacity['cpu']} CPUs and --procs {processors}: give one of them, or --engine replay, "
                "which counts processors alone"
            )
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
        processors,
        config=config,
        mode=given["mode"],
        estimate=given["estimate"],
        seed=given["seed"],
        bound=given["bound"],
        capacity=others,
    )


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
    """Writes the requested files."""
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
        from sim.pictures import Drawing, DrawnMachine, draw

        config = next(iter(runs.values()))[0].config
        machine = DrawnMachine(
            result.processors, tuple((n.name, n.cpus, n.gpu_count()) for n in config.nodes) if config else ()
        )
        drawings = {
            name: Drawing(outcome.schedule(workload, options), outcome.nodes)
            for name, (options, outcome) in runs.items()
        }
        draw(Path(pictures), workload.name, machine, drawings)
