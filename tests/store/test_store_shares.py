"""Accounts, shares and usage through a real file; a database of the version before gets their tables."""

from ctld.core.fairshare import AccountRow, AssocRow, LoadedShares, UsageRow, UserRow
from tests.store.making import NOW_US, leading, make_batch

ACCOUNT = AssocRow(2, "physics", "", "root", 30, 0, False, False)
USER = AssocRow(3, "physics", "ann", "physics", -1, 5, True, False)
GONE = AssocRow(4, "physics", "bob", "physics", 1, 0, False, True)


def test_round_trip(any_store: str) -> None:
    store = leading(any_store)
    store.commit(
        make_batch(
            1, assocs=[ACCOUNT, USER, GONE], usage=[UsageRow(3, 2**62, NOW_US)],
            accounts=[AccountRow("physics", "Physics", "uni")], users=[UserRow("ann", "physics")],
        )
    )  # fmt: skip
    store.commit(make_batch(2, usage=[UsageRow(3, 7, NOW_US + 1)], assocs=[ACCOUNT._replace(shares=1)]))
    assert store.load(NOW_US, 0, 0).shares == LoadedShares(
        (ACCOUNT._replace(shares=1), USER),
        (UsageRow(3, 7, NOW_US + 1),),
        (AccountRow("physics", "Physics", "uni"),),
        (UserRow("ann", "physics"),),
        5,  # the number of one that was deleted is not given again
    )
    store.close()
