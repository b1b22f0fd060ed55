"""ListBudgets: what accounts may use in a period, and what of it is used and reserved. Read from the core between two steps.

With PrivateData=usage a user sees the budgets of accounts that pay for him: those he has an association with, those above
them, and those that he coordinates.
"""

from collections.abc import Iterable

from ctld.core.budget_book import ONE
from ctld.core.entity_keys import unpaid
from ctld.core.events import Actor
from ctld.core.rights import coordinates
from ctld.core.state import ClusterState
from ctld.rpc.refusals import BadRequest
from ctld.rpc.sight import is_private
from penstock.v1 import governance_pb2
from penstock.values.refusals import TEXT, Code
from penstock.values.text import shown


def budgets(state: ClusterState, actor: Actor, accounts: Iterable[str], now_us: int) -> list[governance_pb2.BudgetInfo]:
    """By account, in the order of their names. `accounts`: only these; none = all.

    Raises BadRequest for a name that is no account, or none that the caller may see.
    """
    wanted = dict.fromkeys(name.lower() for name in accounts)
    for name in wanted:
        if name not in state.shares.accounts or not _sees(state, actor, name):
            raise BadRequest(Code.INVALID_ACCOUNT, f"{TEXT[Code.INVALID_ACCOUNT]}: {shown(name)}")
    found = []
    for assoc_id, books in sorted(
        state.budgets.by_account.items(), key=lambda item: state.shares.by_id[item[0]].account
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
    for place in state.shares.places.get(actor.user_name, ()):
        at = place.parent
        while at is not None:
            if at.account == account:
                return True
            at = at.parent
    return False
