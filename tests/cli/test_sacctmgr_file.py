"""sacctmgr dump and load: the file, what is printed and sent, files that are none."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.accounts.dump import lines_of
from cli.accounts.file import read_file
from cli.accounts.load import plan
from cli.accounts.tree import AssociationTree
from penstock.v1.governance_pb2 import ChangeManyReply, ListWckeysReply, WckeyInfo
from penstock.v1.shares_pb2 import AccountInfo, Association, ChangeAccountsReply, ListAssociationsReply
from tests.cli.fake_controller import FakeClient
from tests.cli.treeworld import TREE, changes_of, out, world

DUMPED = """\
Cluster - 'tiny':Fairshare=1:MaxWallDurationPerJob=2880:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'bio':Description='Bio lab':Organization='root':DefaultQOS='gold':Fairshare=10:GrpTRES=cpu=64,mem=1G,gres/gpu=8:MaxJobs=20:QOS='gold,normal'
Account - 'physics':Description='physics':Organization='science':Fairshare=30:Budget='1000gpu-hours/month'
Parent - 'bio'
User - 'bob':DefaultAccount='bio':DefaultWCKey='w1':Coordinator='bio':WCKeys='w1,w2':Fairshare=2147483647:MaxTRESPerJob=gres/gpu=2:MaxJobs=5:Priority=7
User - 'bob':Partition='gpu':DefaultAccount='bio':DefaultWCKey='w1':Coordinator='bio':WCKeys='w1,w2':Fairshare=1:QOS='gold'
Parent - 'physics'
User - 'ann':DefaultAccount='physics':AdminLevel='Operator':Fairshare=1
Account - 'optics':Description='optics':Organization='physics':Fairshare=1
"""
WCKEYS = ListWckeysReply(
    wckeys=[WckeyInfo(id=1, name="w1", user="bob", is_default=True), WckeyInfo(id=2, name="w2", user="bob")]
)
EMPTY = AssociationTree.of(
    ListAssociationsReply(
        associations=[Association(id=1, account="root", shares=1)], accounts=[AccountInfo(name="root")], cluster="tiny"
    )
)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    return world(
        monkeypatch, ListWckeys=WCKEYS, ChangeMany=ChangeManyReply(replies=[ChangeAccountsReply()]),
    )  # fmt: skip


def test_dump(client, capsys, tmp_path, monkeypatch):
    file = tmp_path / "tiny.cfg"
    assert out(capsys, "-Q", "dump", "tiny", f"file={file}") == ""
    text = file.read_text()
    assert "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#")) == DUMPED
    monkeypatch.chdir(tmp_path)
    assert (
        out(capsys, "dump", "cluster=tiny", err="".join(f"sacctmgr: {line}\n" for line in DUMPED.splitlines()))
        == " No filename given, using ./tiny.cfg.\n"
    )
    assert [one.name for one in tmp_path.iterdir()] == ["tiny.cfg"]


def test_what_was_dumped_changes_nothing(client, capsys, tmp_path):
    file = tmp_path / "tiny.cfg"
    file.write_text(DUMPED)
    assert out(capsys, "-i", "load", f"file={file}") == "For cluster tiny\n Nothing new added.\n"
    assert out(capsys, "-i", "load", str(file), "clean") == "For cluster tiny\n Nothing new added.\n"
    assert not changes_of(client)


def test_load_into_nothing() -> None:
    steps = list(plan(EMPTY, read_file(DUMPED), {}, True))
    requests = [step.request for step in steps]
    assert [(r.action, r.entity, list(r.names)) for r in requests] == [
        (2, "cluster", []), (1, "account", ["bio"]), (1, "account", ["physics"]), (1, "account", ["optics"]),
        (1, "user", ["root"]), (1, "user", ["bob"]), (1, "user", ["bob"]), (1, "user", ["ann"]), (2, "user", ["root"]),
        (1, "wckey", ["w1", "w2"]), (2, "user", ["bob"]), (1, "coordinator", ["bio"]), (2, "user", ["ann"]),
    ]  # fmt: skip
    assert dict(requests[1].changes) == {
        "parent": "root", "description": "Bio lab", "organization": "root", "defaultqos": "gold", "fairshare": "10",
        "grptres": "cpu=64,mem=1G,gres/gpu=8", "maxjobs": "20", "qos": "gold,normal",
    }  # fmt: skip
    assert list(requests[6].partitions) == ["gpu"] and list(requests[6].accounts) == ["bio"]
    assert dict(requests[10].changes) == {"defaultwckey": "w1"}


def test_differences(client, capsys, tmp_path):
    file = tmp_path / "new.cfg"
    file.write_text(
        "Cluster - tiny\n\n  # only what is named is changed\nParent - root\n"
        'Account - "bio":GrpTRES=cpu=32:MaxNodes=4:FairShare=11:qos+=silver\n'
        "Account - 'chem':Description='it\\'s: new'\nParent - chem\nUser - dan:DefaultAccount=chem:maxjobs=2\n"
    )
    assert out(capsys, "-i", "load", str(file)) == (
        "For cluster tiny\n"
        " Changed  Account bio                  fairshare=11 grptres=cpu=32 maxtresperjob=node=4 qos+=silver\n"
        " Adding   Account chem                 description=it's: new parent=root\n"
        " Adding   User    dan@chem             maxjobs=2\n"
    )
    (request,) = changes_of(client)
    assert [change.accounts.entity for change in request.changes] == ["account", "account", "user"]
    assert [name for name, _ in client.calls].count("ChangeMany") == 2
    shown = out(capsys, "-i", "load", str(file), "clean")
    assert (
        " Changed  Account bio                  defaultqos=-1 fairshare=11 grptres=cpu=32,gres/gpu=-1,mem=-1 " in shown
    )
    assert " Removing User    ann\n Removing Account optics\n Removing Account physics\n" in shown
    assert "User    root" not in shown  # its association is the cluster's


def test_a_file_of_slurm() -> None:
    """What sacctmgr 22.05 writes, and the forms of its manual page."""
    file = read_file(
        "# To edit this file start with a cluster line\nCluster - 'linux':Fairshare=1:QOS='normal'\nParent - 'root'\n"
        "User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1\n"
        "Account - 'cs':MaxTRESPerJob=node=5:MaxJobs=4:MaxTRESMinsPerJob=cpu=20:FairShare=399:MaxWallDurationPerJob=40"
        ":Description='Computer Science':Organization='LC'\nParent - 'cs'\n"
        "Account - 'test':GrpTRES=1=8,2=100:Fairshare=2147483647:Description='Test Account':Organization='Test':QOS='+high,-normal'\n"
        "Parent - 'test'\nUser - 'adam':MaxNodesPerJob=2:MaxJobs=3:AdminLevel=Operator:Coordinator='test':MaxTRESRunMins=cpu=3\n"
    )
    assert file.cluster == "linux" and file.settings == {"fairshare": "1", "qos": "normal"}
    assert [(one.line, one.name, one.parent) for one in file.accounts] == [(5, "cs", "root"), (7, "test", "cs")]
    assert file.accounts[0].settings["maxwalldurationperjob"] == "40"
    assert file.accounts[1].settings == {
        "grptres": "cpu=8,mem=100",
        "fairshare": "parent",
        "qos+": "high",
        "qos-": "normal",
    }
    assert file.users[1].own == {"adminlevel": "Operator", "coordinator": "test"}
    assert file.users[1].settings == {"maxtresperjob": "node=2", "maxjobs": "3"}


def test_odd_names_come_back() -> None:
    odd = "a 'b' \"c\" \\ d: e\\"
    tree = AssociationTree.of(
        ListAssociationsReply(
            associations=[Association(id=1, account="root", shares=1), Association(id=2, account="x", parent="root", shares=1, depth=1)],
            accounts=[AccountInfo(name="root"), AccountInfo(name="x", description=odd, organization="'")],
            cluster="tiny",
        )
    )  # fmt: skip
    (account,) = read_file("\n".join(lines_of(tree, {}))).accounts
    assert account.own == {"description": odd, "organization": "'"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", " You need to specify a cluster name first with 'Cluster - $NAME' in your file"),
        (
            "Account - x\n",
            " You need to specify a cluster name first with 'Cluster - $NAME' in your file\n Problem with line(1)",
        ),
        ("Cluster - tiny\nnonsense\n", " Misformatted line(2): nonsense\n Problem with line(2)"),
        ("Cluster - tiny\nCluster - tiny\n", " You can only add one cluster at a time.\n Problem with line(2)"),
        ("Cluster - tiny\nAccount - :x=1\n", " Nothing after object name 'Account'. line(2)\n Problem with line(2)"),
        (
            "Cluster - tiny\nAccount - x:y\n",
            " Bad format on y: End your option with an '=' sign\n Problem with line(2)",
        ),
        ("Cluster - tiny\nAccount - x:colour=red\n", " Unknown option: colour=red\n Problem with line(2)"),
        (
            "Cluster - tiny\nAccount - x:desc='y\n",
            " There is a problem with option desc='y with quotes.\n Problem with line(2)",
        ),
        ("Cluster - tiny\nAccount - x:MaxJobs=many\n", " Invalid value for MaxJobs (many)\n Problem with line(2)"),
        ("Cluster - tiny\nAccount - x\nAccount - X\n", " Account 'x' is in the file twice\n Problem with line(3)"),
        (
            "Cluster - tiny\nParent - x\nUser - y\n",
            " line(2) You need to add this parent (x) as a child before you can add children to it.\n Problem with line(2)",
        ),
        (
            "Cluster - tiny\n\n" + "x" * 70_000,
            " The line has 70000 characters, the limit is 65536\n Problem with line(3)",
        ),
        ("Cluster - tiny\n\x1b[2J\n", " Misformatted line(2): ?[2J\n Problem with line(2)"),
        ("Cluster - tiny\nUser - a\0b\n", " Problem with line(2): a NUL byte; this is not a text file"),
        (
            "Cluster - other\n",
            " This cluster 'other' doesn't exist.\n        Contact your admin to add it to accounting.\n"
            "sacctmgr: the controller's cluster is tiny: load with cluster=tiny to put these accounts there",
        ),
    ],
)
def test_files_that_are_none(client, capsys, tmp_path, text, told):
    file = tmp_path / "bad.cfg"
    file.write_text(text)
    from cli import sacctmgr
    from tests.cli.fake_controller import run_body

    status, shown, wrong = run_body(capsys, "sacctmgr", sacctmgr.body, "-i", "load", str(file))
    assert (status, shown) == (1, "") and not changes_of(client)
    assert wrong.replace("\\x1b", "?") == told + "\n"


def test_no_file(client, capsys, tmp_path):
    none = tmp_path / "none"
    out(capsys, "load", status=1, err=" No filename given, specify one with file=''\n")
    out(capsys, "load", "a", "b", status=1, err=" File name already set to a\n")
    out(capsys, "load", str(none), status=1, err=f' Unable to read "{none}": No such file or directory\n')
    endless = ' Unable to read "/dev/zero": larger than 67108864 bytes\n'
    out(capsys, "load", "/dev/zero", status=1, err=endless)
    out(capsys, "-r", "load", "a", status=1, err="Can't run this command in readonly mode.\n")
    out(capsys, "dump", status=1, err=" We need a cluster to dump.\n")
    out(capsys, "dump", "tiny", "big", status=1, err=" Can only do one cluster at a time.  Already doing tiny\n")
    out(capsys, "dump", "big", status=1, err=" Cluster big doesn't exist.\n")
    wrong = f"Can't open file {none}/x, No such file or directory\n"
    out(capsys, "dump", "tiny", f"file={none}/x", status=1, err=wrong)
    binary = tmp_path / "binary"
    binary.write_bytes(b"Cluster - tiny\nAccount - \xff\xfe\n")
    out(capsys, "load", str(binary), status=1, err=" Problem with line(2): it is not valid UTF-8\n")


def test_the_tree_in_the_file_is_the_one_that_was_asked_for() -> None:
    assert (
        "\n".join(line for line in lines_of(AssociationTree.of(TREE), {"bob": ["w1", "w2"]}) if line[0] != "#") + "\n"
        == DUMPED
    )


def test_each_association_is_looked_up_and_not_searched_for():
    """A file of 6,000 users took 14 seconds to compare."""

    class Counted(list):
        walks = 0

        def __iter__(self):
            self.walks += 1
            return super().__iter__()

        __reversed__ = __iter__

    users = [f"u{number}" for number in range(50)]
    there = [Association(id=1, account="root", shares=1), Association(id=2, account="a", parent="root", shares=1)]
    there += [Association(id=3 + at, account="a", user=user, parent="a", shares=1) for at, user in enumerate(users)]
    whole = ListAssociationsReply(associations=there, accounts=[AccountInfo(name="a")], cluster="tiny")
    counted = Counted(there)
    tree = AssociationTree.of(whole)._replace(whole=cast(Any, SimpleNamespace(associations=counted, cluster="tiny")))
    lines = ["Cluster - 'tiny'", "Parent - 'root'", "Account - 'a'", "Parent - 'a'", *(f"User - '{u}'" for u in users)]
    assert not list(plan(tree, read_file("\n".join(lines) + "\n"), {}, False))
    assert counted.walks <= 1
