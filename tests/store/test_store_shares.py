"""Accounts, shares and usage through a real file; a database of the version before gets their tables."""

from pathlib import Path

from ctld.core.records.accounting_rows import AccountRow, AssocRow, ResourceRow, TresRow, UsageRow, UserRow, WckeyRow
from ctld.core.state.fairshare import LoadedShares
from penstock.values.limits import from_texts
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
        (GONE,),
    )
    store.close()


FULL = AssocRow(
    5, "physics", "cy", "physics", 2, 7, False, False, "gpu", from_texts({"grptres": "cpu=4,gres/gpu=2", "maxjobs": "3"}),
    ("normal", "high"), "high", 12, "",
)  # fmt: skip
BUDGET = ACCOUNT._replace(budget="1000gpu-hours/month")
KEY, GONE_KEY = WckeyRow(1, "genome", "cy"), WckeyRow(2, "old", "cy", True)
LICENCES = ResourceRow("matlab", "flex", 50, 60, "License", "flexlm", "of the site", False)


def test_all_columns_of_accounting_come_back(tmp_path: Path) -> None:
    store = leading(tmp_path / "penstock.db")
    account = AccountRow("physics", "Physics", "uni", ("cy", "ann"))
    gone_account = AccountRow("old", "", "", (), True)
    person, gone_person = UserRow("cy", "physics", 2, "genome"), UserRow("old", "", 0, "", True)
    store.commit(
        make_batch(
            1, assocs=[BUDGET, FULL], accounts=[account, gone_account], users=[person, gone_person],
            wckeys=[KEY._replace(name="x"), GONE_KEY], resources=[LICENCES._replace(total=1)], tres=[TresRow(1001, "gres/gpu")],
        )
    )  # fmt: skip
    store.commit(make_batch(2, wckeys=[KEY], resources=[LICENCES], tres=[TresRow(1002, "license/matlab@flex")]))
    store.close()
    store = leading(tmp_path / "penstock.db", "third")
    assert store.load(NOW_US, 0, 0).shares == LoadedShares(
        (BUDGET, FULL), (), (gone_account, account), (person, gone_person), 6, (), (KEY, GONE_KEY), (LICENCES,),
        (TresRow(1001, "gres/gpu"), TresRow(1002, "license/matlab@flex")),
    )  # fmt: skip
    store.close()
