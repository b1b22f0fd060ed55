"""GET /penstock/v1/borrowing: which accounts use more than their guarantee, and whose idle guarantees they use.

A guarantee is GrpTRES of an account in whose cohort one may borrow or lends: the accounts directly below one account lend to each
other. It is not recorded whose a borrowed amount is: it is of all in the cohort who lend what they leave idle.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cli.base.document import Json
from penstock.v1.governance_pb2 import Counters, ListCountersRequest
from penstock.values.tres import parse_tres
from rest.calling import RestCall

#: Members of a row, and their types.
BORROWING: Final = {
    "account": "string", "parent": "string", "tres": "string", "guarantee": "integer", "used": "integer", "may_borrow": "integer",
    "borrowed": "integer", "idle": "integer", "lenders": "string[]",
}  # fmt: skip


async def borrowing(call: RestCall) -> Json:
    """A row for each account and each TRES of its guarantee; memory is MiB."""
    found: list[Counters] = []
    async for page in call.pages("ListCounters", ListCountersRequest(what=["assoc"])):
        found += (one for one in page.counters if one.account and not one.user)
    return {"rows": list(rows_of(found))}


def rows_of(accounts: Sequence[Counters]) -> Iterator[Json]:
    """Of all accounts that the caller may see, in their order."""
    by_name = {one.account: one for one in accounts}
    cohorts: dict[str, list[Counters]] = {}
    for one in accounts:
        cohorts.setdefault(one.parent, []).append(one)
    for one in accounts:
        cohort = cohorts[one.parent]
        for tres, guarantee in _amounts(one.limits, "grptres").items():
            if any(_amount(other.limits, name, tres) for other in cohort for name in ("borrow", "lend")):
                yield _row(one, tres, guarantee, cohort, by_name.get(one.parent))


def _row(one: Counters, tres: str, guarantee: int, cohort: Sequence[Counters], parent: Counters | None) -> Json:
    borrowed = _amount(one.used, "borrow", tres)
    lenders = [other.account for other in cohort if other is not one and _amount(other.used, "lend", tres)]
    if parent is not None and _amount(parent.used, "borrow", tres):
        lenders.append(parent.account)  # what it borrows itself may be used below it
    return {
        "account": one.account,
        "parent": one.parent,
        "tres": tres,
        "guarantee": guarantee,
        "used": _amount(one.used, "grptres", tres),
        "may_borrow": _amount(one.limits, "borrow", tres),
        "borrowed": borrowed,
        "idle": _amount(one.used, "lend", tres),
        "lenders": lenders if borrowed else [],
    }


def _amounts(texts: Mapping[str, str], name: str) -> dict[str, int]:
    return parse_tres(texts[name]) if name in texts else {}


def _amount(texts: Mapping[str, str], name: str, tres: str) -> int:
    return _amounts(texts, name).get(tres, 0)
