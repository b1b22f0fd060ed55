"""Fair-share as Slurm's documentation works it out, by its own numbers; and how sshare prints them.

Sources
    - https://slurm.schedmd.com/classic_fair_share.html (PriorityFlags=NO_FAIR_TREE), its example: accounts A and D have 40
      and 60 shares; below A are B (30) and C (10), below D are E (25) and F (35). User 1 is in B, users 2 and 3 with one share
      each in C, user 4 in E, user 5 in F. Users 1, 2 and 4 have used 0.2, 0.25 and 0.25 of the machine. The rest of what was
      used is here a user's of root without shares, so that the parts are of one whole.
    - https://slurm.schedmd.com/fair_tree.html: level fair-share is shares' part / usage's part among siblings; rank / number
      of users, in the order of a walk that takes the better sibling first; equal siblings have one rank; no usage is infinite.
    - sshare(1) of Slurm. The table with eroche, qubit and rezzonic is what EPFL's documentation of its clusters shows
      (23 shares in one account).
"""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli import sshare
from ctld.core.records.decay import USAGE_ONE, Decay
from ctld.core.state.fairshare import LEVEL_BITS, ShareTree
from ctld.rpc.accounting.shares import associations
from penstock.clusterfile import ClusterFile
from penstock.v1.shares_pb2 import ListAssociationsReply
from tests.cli.fake_controller import FakeClient, run_body


def plant(accounts: str, users: str) -> ShareTree:
    """`account parent shares; ...` and `account/user shares usage; ...`, without decay."""
    tree = ShareTree()
    tree.decay = Decay(0)
    for line in accounts.split(";"):
        name, parent, shares = line.split()
        tree.add(name, "", tree.accounts[parent], int(shares))
    for line in users.split(";"):
        name, shares, usage = line.split()
        account, _, user = name.partition("/")
        tree.add(account, user, tree.accounts[account], int(shares)).usage = int(usage) * USAGE_ONE
    return tree


def printed(tree: ShareTree, fair_tree: bool, monkeypatch, capsys, *argv: str) -> list[str]:
    tree.rank(0, fair_tree)
    found = list(associations(cast(Any, SimpleNamespace(shares=tree)), fair_tree))
    reply = ListAssociationsReply(associations=found, cluster="c", multifactor=True, fair_tree=fair_tree)
    fake = FakeClient(ListAssociations=[reply], ListCounters=[])
    fake.cluster = ClusterFile("c")
    fake.install(monkeypatch)
    status, shown, wrong = run_body(capsys, "sshare", sshare.body, "-a", "-n", *argv)
    assert (status, wrong) == (0, "")
    return shown.splitlines()


CLASSIC = (
    "a root 40; d root 60; b a 30; c a 10; e d 25; f d 35",
    "b/user1 1 20; c/user2 1 25; c/user3 1 0; e/user4 1 25; f/user5 1 0; root/others 0 30",
)
#: user: normalised shares, effective usage, factor
CLASSIC_FOUND = {
    "user1": (0.3, 0.3875, 0.408479),
    "user2": (0.05, 0.275, 0.022097),
    "user3": (0.05, 0.15, 0.125),
    "user4": (0.25, 0.25, 0.5),
    "user5": (0.35, 0.145833, 0.749154),
}


def test_the_classic_example(monkeypatch, capsys) -> None:
    tree = plant(*CLASSIC)
    tree.rank(0, fair_tree=False)
    for (_, name), user in tree.users.items():
        if name in CLASSIC_FOUND:
            assert user.factor[0] / user.factor[1] == pytest.approx(CLASSIC_FOUND[name][2], abs=5e-7)
    lines = printed(tree, False, monkeypatch, capsys, "-U", "-P", "-o", "User,NormShares,EffectvUsage,FairShare")
    assert {line for line in lines if not line.startswith("others")} == {
        f"{name}|{shares:.6f}|{usage:.6f}|{factor:.6f}" for name, (shares, usage, factor) in CLASSIC_FOUND.items()
    }


def test_the_classic_example_of_accounts(monkeypatch, capsys) -> None:
    """A has used 0.45 and D 0.25 of the machine; C is drawn to 0.3 and F to 0.1458."""
    lines = printed(plant(*CLASSIC), False, monkeypatch, capsys, "-P", "-o", "Account,User,NormShares,EffectvUsage")
    found = [line.replace(" ", "") for line in lines if line.split("|")[1] == ""]
    assert found == [
        "root||1.000000|1.000000", "a||0.400000|0.450000", "b||0.300000|0.387500", "c||0.100000|0.300000",
        "d||0.600000|0.250000", "e||0.250000|0.250000", "f||0.350000|0.145833",
    ]  # fmt: skip


def test_a_table_of_sshare(monkeypatch, capsys) -> None:
    """Level FS of an account's users, as printed: 1/23 of the shares by the part of the usage, which the table gives."""
    busy = "x/eroche 1 250000; x/qubit 1 255072; x/rezzonic 1 494928"
    idle = "; ".join(f"x/idle{number:02d} 1 0" for number in range(20))
    tree = plant("x root 1", f"{busy}; {idle}")
    fields = "User,RawShares,NormShares,EffectvUsage,LevelFS"
    lines = printed(tree, True, monkeypatch, capsys, "-o", fields, "-U")
    assert all(line.endswith("0.043478      0.000000        inf ") for line in lines if "idle" in line)
    assert [line for line in lines if "idle" not in line] == [
        "    eroche          1    0.043478      0.250000   0.173913 ",
        "     qubit          1    0.043478      0.255072   0.170455 ",
        "  rezzonic          1    0.043478      0.494928   0.087848 ",
    ]


def test_a_fair_tree_by_hand(monkeypatch, capsys) -> None:
    """Two levels, worked out on paper.

    Shares 60:40 at the top, usage 700:300: chem has (60/100)/(700/1000) = 6/7, math (40/100)/(300/1000) = 4/3. So all of math
    come before all of chem. In math: dan (1/2)/(100/300) = 1.5, eve (1/2)/(200/300) = 0.75. In chem the group lab has
    (3/4)/(100/700) = 5.25, abe (1/4)/(600/700) = 0.291667. In lab bea and cal have equal shares and usage: one rank.
    Ranks of 5: dan 5, eve 4, bea and cal 3, abe 1.
    """
    tree = plant(
        "chem root 60; math root 40; lab chem 3",
        "chem/abe 1 600; lab/bea 1 50; lab/cal 1 50; math/dan 1 100; math/eve 1 200",
    )
    lines = printed(
        tree, True, monkeypatch, capsys, "-P", "-o", "Account,User,NormShares,EffectvUsage,FairShare,LevelFS"
    )
    assert lines == [
        "root||0.000000|1.000000||",
        " chem||0.600000|0.700000||0.857143",
        "  chem|abe|0.250000|0.857143|0.200000|0.291667",
        "  lab||0.750000|0.142857||5.250000",
        "   lab|bea|0.500000|0.500000|0.600000|1.000000",
        "   lab|cal|0.500000|0.500000|0.600000|1.000000",
        " math||0.400000|0.300000||1.333333",
        "  math|dan|0.500000|0.333333|1.000000|1.500000",
        "  math|eve|0.500000|0.666667|0.800000|0.750000",
    ]
    assert tree.accounts["lab"].level == (3 * 700 << LEVEL_BITS) // (4 * 100)
