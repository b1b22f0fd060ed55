"""`penstock budget`: what accounts may use in a period, what is used and reserved of it, and what is left."""

from collections.abc import Sequence
from typing import Any

from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.format import Clock
from cli.listing import now_us, words
from cli.options import YES, Command, Option, parse
from cli.run import CommandError, warn
from penstock.client import Client

COMMAND = Command(
    "penstock budget",
    "[--json] [-A ACCOUNTS]",
    (
        *DOCUMENT_OPTIONS,
        Option("accounts", "A", YES, help="comma separated list of accounts", metavar="account(s)"),
    ),
)
HEADERS = ("ACCOUNT", "BUDGET", "UNIT", "PERIOD", "USED", "RESERVED", "LEFT", "", "UNTIL")
#: Columns that stand to the right.
NUMBERS = (1, 4, 5, 6, 7)
NEVER = "-"


def main(argv: list[str]) -> int:
    """One run of `penstock budget`."""
    line = parse(COMMAND, argv)
    if line.positional:
        raise CommandError(f"unexpected word {line.positional[0]!r}: an account is named with -A")
    from penstock.v1.governance_pb2 import ListBudgetsRequest

    named = words(line.values.get("accounts"))
    if line.values.get("accounts") is not None and not named:
        raise CommandError("-A: no account is named")
    with Client.open() as client:
        reply = client.call("ListBudgets", ListBudgetsRequest(accounts=named))
    if is_wanted(line.values):
        from cli.document import message_object, write_document

        write_document(message_object(reply), line.values)
        return 0
    print("\n".join(report(reply.budgets, Clock.of_environment(now_us()), named)))  # noqa: T201
    for one in reply.budgets:
        if one.problem:
            warn("penstock budget", f"{one.account}: {one.amount} {one.unit} binds nobody: {one.problem}")
    return 0


def report(budgets: Any, clock: Clock, named: Sequence[str] = ()) -> list[str]:
    """The lines for a person. named: the accounts that were asked for; () = all."""
    if not budgets:
        return [f"{', '.join(named)}: no budget" if named else "no account has a budget"]
    rows = [HEADERS, *(_cells(budget, clock) for budget in budgets)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADERS))]
    return [
        "  ".join(
            cell.rjust(width) if column in NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cells(budget: Any, clock: Clock) -> tuple[str, ...]:
    left = float(budget.amount) - budget.used - budget.reserved
    percent = f"{100 * left / float(budget.amount):.0f}%" if float(budget.amount) else NEVER
    until = clock.text(budget.period_end_us, NEVER) if budget.period_end_us else NEVER
    return (
        budget.account, budget.amount, budget.unit, budget.period, f"{budget.used:.2f}", f"{budget.reserved:.2f}",
        f"{left:.2f}", percent, until,
    )  # fmt: skip
