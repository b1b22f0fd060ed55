"""ListBudgets: the limits, usage and reserved amounts of accounts' budgets. Read from the core between two steps.

With PrivateData=usage a user sees the budgets of accounts that pay for them: those they have an association with, those above
them, and those that they coordinate.
"""

from collections.abc import Iterable

from ctld.core.accounts.keys import unpaid
from ctld.core.queue.rights import coordinates
from ctld.core.records.budget_book import ONE
from ctld.core.records.events import Actor
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.visibility import is_private
from ctld.runtime.errors import BadRequest
from penstock.v1 import governance_pb2
from penstock.values.refusals import TEXT, Code
from penstock.values.text import shown


def budgets(state: ClusterState, actor: Actor, accounts: Iterable[str], now_us: int) -> list[governance_pb2.BudgetInfo]:
    """Returns the budgets by account, in the order of their names. `accounts`: only these; none = all.

    Raises BadRequest for a name that is no account, or none that the caller may see.
    """
    wanted = dict.fromkeys(name.lower() for name in accounts)
    for name in wanted:
        if name not in state.shares.accounts or not _sees(state, actor, name):
            raise BadRequest(Code.INVALID_ACCOUNT, f"{TEXT[Code.INVALID_ACCOUNT]}: {shown(name)}")
    found = []
    for assoc_id, books in sorted(
        state.limits.budgets.by_account.items(), key=lambda item: state.shares.by_id[item[0]].account
    ):
        account = state.shares.by_id[assoc_id].account
        if (wanted and account not in wanted) or not _sees(state, actor, account):
            continue
        for book in books:
            found.append(
                governance_pb2.BudgetInfo(
                    account=account,
                    amount=book.budget.amount(),
                    unit=book.budget.unit,
                    period=book.budget.period,
                    used=book.used_at(now_us) / ONE,
                    reserved=book.reserved_at(now_us) / ONE,
                    period_start_us=book.start_us,
                    period_end_us=book.end_us,
                    problem=unpaid(state, book.budget),
                )
            )
    return found


def _sees(state: ClusterState, actor: Actor, account: str) -> bool:
    if not is_private(state.config, actor, "usage") or coordinates(state, actor.user_name, account):
        return True
    for place in state.shares.by_user.get(actor.user_name, ()):
        at = place.parent
        while at is not None:
            if at.account == account:
                return True
            at = at.parent
    return False
