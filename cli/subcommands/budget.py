"""`penstock budget`: shows the budgets of accounts in a period: limit, used, reserved and left."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.base.format import DisplayClock, aligned
from cli.base.listing import emit, now_us, words
from cli.base.run import CommandError, warn
from cli.subcommands.documents import documents, write
from penstock.client import Client
from penstock.commandline import CommandLine, invoke

if TYPE_CHECKING:
    from penstock.v1.governance_pb2 import BudgetInfo

HEADERS = ("ACCOUNT", "BUDGET", "UNIT", "PERIOD", "USED", "RESERVED", "LEFT", "", "UNTIL")
#: Right-aligned columns.
NUMBERS = (1, 4, 5, 6, 7)
NEVER = "-"


@click.command(
    cls=CommandLine,
    help="List the budgets of accounts: used, reserved and left.",
    examples=(("penstock budget", "of all accounts"), ("penstock budget -A physics,chemistry", "of two accounts")),
)
@documents
@click.option("-A", "--accounts", metavar="ACCOUNTS", help="Comma separated list of accounts.")
def command(accounts: str | None, language: str) -> int:
    """One run of `penstock budget`."""
    from penstock.v1.governance_pb2 import ListBudgetsRequest

    named = words(accounts)
    if accounts is not None and not named:
        raise CommandError("-A: no account is named")
    with Client.open() as client:
        reply = client.call("ListBudgets", ListBudgetsRequest(accounts=named))
    if language:
        from cli.base.document import message_object

        return write(message_object(reply), language)
    emit(report(reply.budgets, DisplayClock.of_environment(now_us()), named))
    for one in reply.budgets:
        if one.problem:
            warn("penstock budget", f"{one.account}: {one.amount} {one.unit} has no effect: {one.problem}")
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock budget ...`; its status."""
    return invoke(command, "penstock budget", argv)


def report(budgets: "Sequence[BudgetInfo]", clock: DisplayClock, named: Sequence[str] = ()) -> list[str]:
    """The report as text. named: the requested accounts; () = all."""
    if not budgets:
        return [f"{', '.join(named)}: no budget" if named else "no account has a budget"]
    return aligned([HEADERS, *(_cells(budget, clock) for budget in budgets)], NUMBERS)


def _cells(budget: "BudgetInfo", clock: DisplayClock) -> tuple[str, ...]:
    left = float(budget.amount) - budget.used - budget.reserved
    percent = f"{100 * left / float(budget.amount):.0f}%" if float(budget.amount) else NEVER
    until = clock.text(budget.period_end_us, NEVER) if budget.period_end_us else NEVER
    return (
        budget.account, budget.amount, budget.unit, budget.period, f"{budget.used:.2f}", f"{budget.reserved:.2f}",
        f"{left:.2f}", percent, until,
    )  # fmt: skip
