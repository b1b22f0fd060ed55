"""The policy file: what it says, its mistakes, the difference to a cluster, and back to a file."""

from pathlib import Path

import pytest

from cli.accounts.policydiff import difference, lines_of
from cli.accounts.policyfile import Policy, read_policy
from cli.accounts.policystate import make_policy, to_yaml
from cli.base.run import CommandError
from penstock.v1.controller_pb2 import ChangeQosRequest, Qos
from penstock.v1.shares_pb2 import AccountInfo, Association, ChangeAccountsRequest, ListAssociationsReply, UserInfo

SITE = """
cluster: lab
qos:
  normal:
  long: {MaxWall: 7-00:00:00, Priority: 10, Flags: [DenyOnLimit], Preempt: [normal], UsageFactor: 0.50}
accounts:
  science:
    Fairshare: 70
    accounts:
      physics:
        GrpTRES: {gres/gpu: 8, cpu: 64}
        QOS: [normal, long]
        Coordinators: [ann]
        users:
          ann: {Fairshare: 5, DefaultAccount: yes}
          bob:
            - {MaxJobs: 10}
            - {Partition: gpu, MaxJobs: 2}
users:
  ann: {AdminLevel: Operator}
"""


def read(folder: Path, text: str) -> Policy:
    path = folder / "site.yaml"
    path.write_text(text)
    return read_policy(str(path))


def test_a_file_is_entities_with_their_texts(tmp_path: Path) -> None:
    policy = read(tmp_path, SITE)
    assert policy.cluster == "lab"
    assert policy.entities == {
        ("qos", "normal"): {},
        ("qos", "long"): {
            "maxwalldurationperjob": "10080", "priority": "10", "flags": "denyonlimit", "preempt": "normal",
            "usagefactor": "0.5",
        },
        ("account", "science"): {"fairshare": "70"},
        ("account", "physics"): {
            "parent": "science", "grptres": "cpu=64,gres/gpu=8", "qos": "long,normal", "coordinators": "ann",
        },
        ("member", "physics", "ann", ""): {"fairshare": "5"},
        ("member", "physics", "bob", ""): {"maxjobs": "10"},
        ("member", "physics", "bob", "gpu"): {"maxjobs": "2"},
        ("user", "ann"): {"defaultaccount": "physics", "adminlevel": "operator"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("accounts:\n  a: {GrpTRES: lots}\n", ":2: account a: Invalid GrpTRES 'lots': write name=amount"),
        ("accounts:\n  a: {Colour: red}\n", ":2: account a: there is no key Colour; known: "),
        ("accounts:\n  a: {Fairshare: 1, shares: 2}\n", ":2: account a: fairshare is given twice"),
        ("accounts:\n  a: {}\n  a: {}\n", ":3: accounts: a is there twice"),
        ("accounts:\n  a:\n    accounts:\n      b: {parent: c}\n", ":4: account b is nested below a and has parent: c"),
        ("accounts: [a]\n", ":1: accounts: expected KEY: VALUE lines"),
        ("colours: {}\n", ":1: colours: expected cluster, qos, accounts, users"),
        ("accounts: {a: {\n", " is not YAML: while parsing a flow node"),
        ("accounts:\n  a: {parent: a}\n", ":2: account a is its own parent"),
        ("accounts:\n  root: {Fairshare: 2}\n", ":2: root is above all accounts and not in the file: sacctmgr modify"),
        ("qos:\n  x: {UsageFactor: much}\n", ":2: qos x: Invalid UsageFactor: 'much' is no number such as 0.5"),
    ],
)
def test_mistakes_have_their_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(CommandError) as failure:
        read(tmp_path, text)
    assert str(failure.value).startswith(f"{tmp_path}/site.yaml{told}")


def test_anchors_do_not_make_a_file_endless(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: {}, y: {}}"]
    lines += [f"a{i}: &a{i} {{x: *a{i - 1}, y: *a{i - 1}}}" for i in range(1, 60)]
    with pytest.raises(CommandError):
        read(tmp_path, "\n".join(lines) + "\naccounts: *a59\n")
    nested = "accounts: &a\n  b:\n    accounts: *a\n"
    with pytest.raises(CommandError):
        read(tmp_path, nested)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accounts: {b: {GrpTRES: &x {cpu: *x}}}", "1: GrpTRES: expected a word or a number"),
        (f"x: &x {'y' * 100_000}\nqos: {{a: {{Flags: [{','.join(['*x'] * 1000)}]}}}}", "more than 16777216 characters"),
    ],
    ids=("inside-itself", "long-at-many-places"),
)
def test_what_anchors_stand_for_is_bounded(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        read(tmp_path, text)


def test_from_nothing_everything_is_made_in_order(tmp_path: Path) -> None:
    found = difference(Policy({("qos", "normal"): {}}, {}), read(tmp_path, SITE))
    assert list(lines_of(found)) == [
        "+ qos long: MaxWallDurationPerJob=10080 Priority=10 Flags=denyonlimit Preempt=normal UsageFactor=0.5",
        "+ account science: Fairshare=70",
        "+ account physics: GrpTRES=cpu=64,gres/gpu=8 QOS=long,normal Coordinators=ann Parent=science",
        "+ user ann in account physics: Fairshare=5",
        "+ user bob in account physics: MaxJobs=10",
        "+ user bob in account physics, partition gpu: MaxJobs=2",
        "~ user ann: AdminLevel none -> operator; DefaultAccount - -> physics",
    ]  # fmt: skip
    kinds = [change.WhichOneof("what") for change in found.changes()]
    assert kinds == ["qos", "qos", *["accounts"] * 7]
    assert [c.accounts.entity for c in found.changes() if c.WhichOneof("what") == "accounts"] == [
        "account", "account", "user", "user", "user", "user", "coordinator",
    ]  # fmt: skip


def present() -> Policy:
    answer = ListAssociationsReply(
        cluster="lab",
        associations=[
            Association(id=1, account="root", shares=1),
            Association(id=2, account="science", parent="root", shares=70),
            Association(
                id=3,
                account="physics",
                parent="science",
                shares=1,
                limits={"grptres": "gres/gpu=8,mem=1G", "maxjobs": "5"},
            ),
            Association(id=4, account="physics", user="ann", parent="physics", shares=5),
            Association(id=5, account="physics", user="eve", parent="physics", shares=1),
            Association(id=6, account="old", parent="root", shares=1),
            Association(id=7, account="old", user="eve", parent="old", shares=1),
            Association(id=8, account="x", parent="root", shares=1, made_by_itself=True),
            Association(id=9, account="root", user="root", parent="root", shares=1),
        ],
        accounts=[AccountInfo(name="physics", description="Physics", organization="uni", coordinators=["cat"])],
        users=[UserInfo(name="ann", default_account="physics", admin_level="None")],
    )
    return make_policy(answer, [Qos(name="normal", usage_factor_ppm=1_000_000, preempt_exempt_time_s=-1,
                                    usage_threshold_ppm=-1, limit_factor_ppm=-1)])  # fmt: skip


def test_what_is_not_said_any_more_goes_and_what_is_not_named_stays(tmp_path: Path) -> None:
    wanted = read(tmp_path, SITE)
    found = difference(present(), wanted)
    lines = list(lines_of(found))
    assert "~ account physics: QOS - -> long,normal; Coordinators cat -> ann; GrpTRES gres/gpu=8,mem=1G -> cpu=64,gres/gpu=8; MaxJobs 5 -> -" in [
        line.replace("mem=1G,gres/gpu=8", "gres/gpu=8,mem=1G") for line in lines
    ]  # fmt: skip
    assert found.unnamed == (
        ("account", "old"), ("member", "old", "eve", ""), ("member", "physics", "eve", ""),
    )  # fmt: skip
    change = next(c.accounts for c in found.changes() if c.accounts.names == ["physics"] and c.accounts.changes)
    assert change.action == ChangeAccountsRequest.Action.MODIFY
    assert dict(change.changes) == {"qos": "long,normal", "grptres": "cpu=64,gres/gpu=8,mem=-1", "maxjobs": "-1"}


def test_pruning_removes_from_below(tmp_path: Path) -> None:
    found = difference(present(), read(tmp_path, SITE), prune=True)
    gone = [line for line in lines_of(found) if line.startswith("-")]
    assert gone == ["- user eve in account physics", "- account old"]
    assert not found.unnamed


def test_account_root_is_not_the_files(tmp_path: Path) -> None:
    has = present()
    more = present()
    more.entities["member", "physics", "root", ""] = {}
    more.entities["user", "root"] = {"defaultaccount": "physics"}
    found = difference(more, read(tmp_path, SITE), prune=True)
    assert ("member", "root", "root", "") in has.entities
    assert [line for line in lines_of(found) if "user root" in line] == [
        "~ user root: DefaultAccount physics -> root", "- user root in account physics",
    ]  # fmt: skip
    wanted = Policy({("user", "root"): {"adminlevel": "administrator"}}, {})
    assert not difference(has, wanted).steps and "root" not in to_yaml(has)


def test_an_export_is_what_the_cluster_has(tmp_path: Path) -> None:
    has = present()
    again = read(tmp_path, to_yaml(has))
    assert not difference(has, again).steps and not difference(has, again).unnamed
    assert difference(has, again).changes() == []


def test_a_qos_is_taken_back_to_nothing(tmp_path: Path) -> None:
    has = Policy(
        {("qos", "normal"): {}, ("qos", "long"): {"maxtresperjob": "cpu=4", "priority": "5", "flags": "nodecay"}}, {}
    )
    found = difference(has, read(tmp_path, "qos: {long: {MaxTRES: cpu=8}}"))
    (change,) = found.changes()
    assert change.qos.action == ChangeQosRequest.Action.MODIFY
    assert dict(change.qos.changes) == {"priority": "-1", "flags": "-1", "maxtresperjob": "cpu=8"}
