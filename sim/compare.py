"""`penstock sim compare A B`: two results side by side."""

import json
from dataclasses import asdict

import click

from penstock.commandline import CommandLine
from penstock.values.errors import BadValue
from sim.recorded import POLICY as RECORDED
from sim.report import comparison
from sim.results import Result, Run, load_result


@click.command(
    "compare",
    cls=CommandLine,
    help="Show two results of `penstock sim run` (JSON files, or folders of --out) side by side.",
    examples=(("penstock sim compare run-a b.json", "a folder of --out, and a file of --json"),),
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures of both as JSON.")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
def command(a: str, b: str, as_json: bool) -> None:
    """The body of the command."""
    one, other = load_result(a), load_result(b)
    if as_json:
        found = [{"a": asdict(left), "b": asdict(right)} for left, right in pairs(one, other)]
        click.echo(json.dumps(found, default=str))
        return
    click.echo(comparison(one, other, pairs(one, other)))


def pairs(one: Result, other: Result) -> list[tuple[Run, Run]]:
    """Pairs runs of the same policy; two single runs are always a pair. Raises BadValue when nothing matches."""
    both = [[run for run in result.runs if run.policy != RECORDED] for result in (one, other)]
    if len(both[0]) == len(both[1]) == 1:
        return [(both[0][0], both[1][0])]
    found = [(left, right) for left in both[0] for right in both[1] if left.policy == right.policy]
    if not found:
        names = [", ".join(run.policy for run in runs) for runs in both]
        raise BadValue(f"no policy is in both: A has {names[0]}; B has {names[1]}")
    return found
