"""`penstock sim compare A B`: two results side by side."""

import click

from penstock.values.errors import BadValue
from sim.edge import run_command
from sim.report import comparison
from sim.results import Result, Run, load_result

NAME = "penstock sim compare"


@click.command(help="Show two results of `penstock sim run` (JSON files, or folders of --out) side by side.")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
def command(a: str, b: str) -> None:
    """The body of the command."""
    one, other = load_result(a), load_result(b)
    click.echo(comparison(one, other, pairs(one, other)))


def pairs(one: Result, other: Result) -> list[tuple[Run, Run]]:
    """Runs of the same policy; two single runs are a pair whatever they are. Raises BadValue when nothing matches."""
    if len(one.runs) == len(other.runs) == 1:
        return [(one.runs[0], other.runs[0])]
    found = [(left, right) for left in one.runs for right in other.runs if left.policy == right.policy]
    if not found:
        names = [", ".join(run.policy for run in result.runs) for result in (one, other)]
        raise BadValue(f"no policy is in both: A has {names[0]}; B has {names[1]}")
    return found


def main(argv: list[str]) -> int:
    """Status of the command."""
    return run_command(command, NAME, argv)
