"""Accounts, shares and usage through a real file; a database of the version before gets their tables."""

from pathlib import Path

from ctld.core.records.accounting_rows import AccountRow, AssocRow, ResourceRow, TresRow, UsageRow, UserRow, WckeyRow
from ctld.core.state.fairshare import LoadedShares
from penstock.values.limits import from_texts
from tests.store.making import NOW_US, leading, make_batch

ACCOUNT = AssocRow(3, "physics", "", "root", 30, 0, False, False)
USER = AssocRow(4, "physics", "ann", "physics", -1, 5, True, False)
GONE = AssocRow(5, "physics", "bob", "physics", 1, 0, False, True)
#: What a database has from its first controller on.
ROOTS = AssocRow(2, "root", "root", "root", 1, 0, False, False, created_at_us=NOW_US)
ROOT = UserRow("root", "root", 2)


def test_the_first_controller_adds_root_and_a_later_one_does_not(any_store: str) -> None:
    store = leading(any_store)
    assert store.load(NOW_US, 0, 0).shares == LoadedShares((ROOTS,), users=(ROOT,), next_assoc_id=3)
    gone = ROOTS._replace(deleted=True)
    store.commit(make_batch(1, assocs=[gone], users=[UserRow("root", "", deleted=True)]))
    store.close()
    store = leading(any_store, "second")
    assert store.load(NOW_US, 0, 0).shares == LoadedShares(
        users=(UserRow("root", "", deleted=True),), next_assoc_id=3, gone=(gone,)
    )
    store.close()


def test_round_trip(any_store: str) -> None:
    store = leading(any_store)
    store.commit(
        make_batch(
            1, assocs=[ACCOUNT, USER, GONE], usage=[UsageRow(4, 2**62, NOW_US)],
            accounts=[AccountRow("physics", "Physics", "uni")], users=[UserRow("ann", "physics")],
        )
    )  # fmt: skip
    store.commit(make_batch(2, usage=[UsageRow(4, 7, NOW_US + 1)], assocs=[ACCOUNT._replace(shares=1)]))
    assert store.load(NOW_US, 0, 0).shares == LoadedShares(
        (ROOTS, ACCOUNT._replace(shares=1), USER),
        (UsageRow(4, 7, NOW_US + 1),),
        (AccountRow("physics", "Physics", "uni"),),
        (UserRow("ann", "physics"), ROOT),
        6,  # the number of one that was deleted is not given again
        (GONE,),
    )
    store.close()


FULL = AssocRow(
    6, "physics", "cy", "physics", 2, 7, False, False, "gpu", from_texts({"grptres": "cpu=4,gres/gpu=2", "maxjobs": "3"}),
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
        (ROOTS, BUDGET, FULL), (), (gone_account, account), (person, gone_person, ROOT), 7, (), (KEY, GONE_KEY), (LICENCES,),
        (TresRow(1001, "gres/gpu"), TresRow(1002, "license/matlab@flex")),
    )  # fmt: skip
    store.close()
