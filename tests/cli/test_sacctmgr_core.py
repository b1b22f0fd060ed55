"""sacctmgr against a real core: what was typed is what is shown after it, and a dumped file makes the same cluster again."""

import pytest

from cli import sacctmgr
from tests.cli.coreworld import CoreClient
from tests.cli.fake_controller import run_body
from tests.cli.treeworld import out


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> CoreClient:
    monkeypatch.setattr("cli.accounts.add.named", lambda name: object())
    client = CoreClient()
    client.install(monkeypatch)
    return client


LINES = """
add qos gold priority=100 maxtrespu=gres/gpu=4
add qos silver
add account science description='All of it' organization=uni fairshare=60 grptres=cpu=64,gres/gpu=8 qos=normal,gold
add account physics parent=science fairshare=30 maxjobs=20 maxwall=1-0 defaultqos=gold
add account bio fairshare=parent grptresmins=cpu=1000 priority=5 budget=1000gpu-hours/month
add user ann account=physics,bio fairshare=3 adminlevel=operator
add user bob account=bio part=debug maxtres=cpu=2
add user bob account=bio maxjobs=1 qos+=silver
add user ann wckeys=w1,w2 defaultwckey=w2
add coordinator ann account=science
modify user ann set defaultqos=gold where account=physics
modify cluster set maxsubmit=500
modify qos gold set flags+=DenyOnLimit grpjobs=7
""".strip().splitlines()


def type_all(capsys) -> None:
    import shlex

    for line in LINES:
        assert out(capsys, "-i", *shlex.split(line)), line


def test_what_was_typed_is_shown(client, capsys):
    type_all(capsys)
    columns = "format=account,user,part,share,grptres,maxj,maxw,maxs,qos,defaultqos"
    assert out(capsys, "-nP", "show", "assoc", "tree", columns) == (
        "root|||1||||500|normal|\n bio|||parent||||500|normal|\n  bio|ann||3||||500|normal|\n  bio|bob||1||1||500|normal,silver|\n"
        "  bio|bob|debug|1||||500|normal|\n science|||60|cpu=64,gres/gpu=8|||500|gold,normal|\n"
        "  physics|||30||20|1-00:00:00|500|gold,normal|gold\n   physics|ann||3||20|1-00:00:00|500|gold,normal|gold\n"
    )
    assert (
        out(capsys, "-nP", "show", "user", "withcoord", "format=user,defaultaccount,defaultwckey,admin,coord")
        == "ann|bio|w2|Operator|science\nbob|bio||None|\n"
    )
    assert out(capsys, "-nP", "show", "wckey") == "w1|cluster|ann\nw2|cluster|ann\n"
    assert (
        out(capsys, "-nP", "show", "tres")
        == "cpu||1\nmem||2\nenergy||3\nnode||4\nbilling||5\nfs|disk|6\nvmem||7\npages||8\ngres|gpu|1001\ngres|gpu:a100|1002\n"
    )
    assert (
        out(capsys, "-nP", "show", "qos", "gold", "format=name,prio,flags,grpj,maxtrespu")
        == "gold|100|DenyOnLimit|7|gres/gpu=4\n"
    )


def dumped(capsys, tmp_path, cluster: str) -> str:
    file = tmp_path / "dump.cfg"
    status, shown, lines = run_body(capsys, "sacctmgr", sacctmgr.body, "dump", cluster, f"file={file}")
    assert (status, shown) == (0, "")
    text = file.read_text()
    written = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines.splitlines() == [f"sacctmgr: {line}" for line in written]  # Slurm tells what it writes
    return text


def test_a_dumped_file_makes_the_same_cluster_again(client, capsys, tmp_path, monkeypatch):
    type_all(capsys)
    name = client.cluster.cluster_name
    first = dumped(capsys, tmp_path, name)
    assert (
        out(capsys, "-i", "load", str(tmp_path / "dump.cfg"), "clean") == f"For cluster {name}\n Nothing new added.\n"
    )
    other = CoreClient()
    other.install(monkeypatch)
    for qos in ("gold", "silver"):
        out(capsys, "-i", "add", "qos", qos)
    assert dumped(capsys, tmp_path, name) != first
    (tmp_path / "first.cfg").write_text(first)
    shown = out(capsys, "-i", "load", str(tmp_path / "first.cfg"))
    assert " Adding   Account physics              defaultqos=gold description=physics " in shown
    assert dumped(capsys, tmp_path, name) == first


def test_clean_leaves_what_the_file_says(client, capsys, tmp_path):
    type_all(capsys)
    name = client.cluster.cluster_name
    before = dumped(capsys, tmp_path, name)
    file = tmp_path / "small.cfg"
    file.write_text(
        f"Cluster - '{name}'\nParent - 'root'\nAccount - 'bio':Description='Life':Organization='root':Fairshare=2\nParent - 'bio'\n"
        "User - 'ann':DefaultAccount='bio':Fairshare=1\n"
    )
    out(capsys, "-i", "load", str(file), "clean")
    assert [line for line in dumped(capsys, tmp_path, name).splitlines() if not line.startswith("#")] == [
        f"Cluster - '{name}':Fairshare=1:QOS='normal'", "Parent - 'root'",
        "Account - 'bio':Description='Life':Organization='root':Fairshare=2", "Parent - 'bio'",
        "User - 'ann':DefaultAccount='bio':DefaultWCKey='w2':AdminLevel='Operator':WCKeys='w1,w2':Fairshare=1",
    ]  # fmt: skip
    again = tmp_path / "before.cfg"
    again.write_text(before)
    out(capsys, "-i", "load", str(again), "clean")
    assert dumped(capsys, tmp_path, name) == before


def test_a_file_with_one_wrong_line_changes_nothing(client, capsys, tmp_path):
    type_all(capsys)
    name = client.cluster.cluster_name
    before = dumped(capsys, tmp_path, name)
    file = tmp_path / "bad.cfg"
    file.write_text(f"Cluster - {name}\nAccount - new\nAccount - other:QOS=none\n")
    wrong = " Problem with requests: Invalid qos specification\nsacctmgr: none; change 2: add account other\n"
    shown = out(capsys, "-i", "load", str(file), status=1, err=wrong)
    assert shown.startswith(f"For cluster {name}\n Adding   Account new")
    assert dumped(capsys, tmp_path, name) == before


def test_the_default_account_stays(client, capsys):
    type_all(capsys)
    out(
        capsys, "-i", "delete", "user", "ann", "account=bio", status=1,
        err=" Error with request: You can not remove the default account of a user\n"
        " You must change the default account of these users or remove the users completely from the affected clusters to allow "
        "these changes.\n Changes Discarded\nsacctmgr: user ann, account bio\n",
    )  # fmt: skip


def test_a_user_may_change_nothing(client, capsys):
    type_all(capsys)
    client.user = "bob"
    for words in (
        ("add", "account", "mine"),
        ("modify", "user", "bob", "set", "fairshare=99"),
        ("delete", "user", "ann"),
    ):
        status, _, wrong = run_body(capsys, "sacctmgr", sacctmgr.body, "-i", *words)
        assert status == 1 and "Access/permission denied\n" in wrong


def test_everybody(client, capsys):
    type_all(capsys)
    out(capsys, "-i", "modify", "user", "set", "maxjobs=3")
    assert out(capsys, "-nP", "show", "assoc", "format=user,maxj", "user=ann,bob") == "ann|3\nbob|3\nbob|3\nann|3\n"
    out(capsys, "-i", "modify", "account", "set", "maxjobs=-1")
    assert out(capsys, "-nP", "show", "assoc", "format=maxj", "account=physics", "wopl") == "\n3\n"


def test_resources(client, capsys):
    assert out(
        capsys, "-i", "add", "resource", "matlab", "count=10", "type=license", "server=flex", "percentallowed=50"
    ) == (
        " Adding Resource(s)\n  matlab@flex\n Settings\n  Name           = matlab\n  Server         = flex\n"
        "  Description    = matlab\n  Count          = 10\n  Type           = License\n"
    )
    assert out(capsys, "show", "resource") == (
        "      Name     Server     Type  Count LastConsumed Allocated ServerType                Flags \n"
        "---------- ---------- -------- ------ ------------ --------- ---------- -------------------- \n"
        "    matlab       flex  License     10            0        50                                 \n"
    )
    assert (
        out(capsys, "-i", "add", "resource", "matlab", "count=1", "type=license", "server=flex", status=1)
        == " Nothing new added.\n"
    )
    assert (
        out(capsys, "-i", "modify", "resource", "matlab", "set", "count=20")
        == " Modified server resource ...\n  matlab@flex\n"
    )
    assert (
        out(capsys, "-nP", "show", "resource", "server=flex", "withcl") == "matlab|flex|License|20|0|50|||cluster|50\n"
    )
    assert out(capsys, "-i", "delete", "resource", "matlab") == " Deleting resource(s)...\n  matlab@flex\n"
    assert out(capsys, "-nP", "show", "resource") == ""
    for more, told in (
        (
            "flags=absolute",
            "Requested operation not supported on this system\nsacctmgr: flags= of a resource; there are Count, Desc",
        ),
        (
            "lastconsumed=1",
            "Requested operation not supported on this system\nsacctmgr: lastconsumed= of a resource; there are",
        ),
        ("name=a/b", "Invalid value specified\nsacctmgr: Invalid resource name: 'a/b'"),
    ):
        argv = ("-i", "add", "resource", "x", "count=1", "type=license", more)
        status, shown, wrong = run_body(capsys, "sacctmgr", sacctmgr.body, *argv)
        assert (status, shown) == (1, "") and wrong.startswith(f" Problem adding system resource: {told}"), wrong
    two = ("-i", "add", "resource", "x", "count=1", "type=license", "server=a,b")
    out(capsys, *two, status=1, err=" A resource has one server: a,b\n")
    wrong = " Need to designate a resource type to initially add 'x'.\n"
    out(capsys, "-i", "add", "resource", "x", "count=1", status=1, err=wrong)
    wrong = "sacctmgr: error: Invalid value for PercentAllowed (101)\nsacctmgr: "
    _, _, told = run_body(capsys, "sacctmgr", sacctmgr.body, "-i", "add", "resource", "x", "percentallowed=101")
    assert told.startswith(wrong)


def test_problems(client, capsys):
    type_all(capsys)
    out(capsys, "-i", "add", "account", "empty")
    shown = out(capsys, "-nP", "show", "problem")
    assert "cluster|empty||Account has no users\n" in shown and "cluster|bio|bob|User does not have a uid\n" in shown


def test_wckeys_make_a_user_and_the_first_one_is_the_default(client, capsys):
    columns = "format=user,defaultaccount,defaultwckey"
    line = "  U = {:<9} W = {:<10} C = cluster   \n"
    first, second = line.format("new", "w1"), line.format("new", "w2")
    head = " Adding User(s)\n  new\n"
    assert out(capsys, "-i", "add", "user", "new", "wckey=w1,w2") == head + " WCKeys =\n" + first + second
    assert out(capsys, "-nP", "show", "user", "new", columns) == "new||w1\n"
    assert out(capsys, "-i", "add", "user", "new", "wckey=w1,w2", status=1) == " Nothing new added.\n"
    out(capsys, "-i", "add", "user", "other", "wckey=w1", "defaultwckey=w3")
    assert out(capsys, "-nP", "show", "user", "other", columns) == "other||w3\n"
    gone = "  C = cluster    W = w1                   U = {:<9}\n"
    assert out(capsys, "-i", "delete", "user", "new,other", "wckey=w1,w9") == (
        " Deleting user WCKeys...\n" + gone.format("new") + gone.format("other")
    )
    assert out(capsys, "-nP", "show", "user", columns) == "new||\nother||w3\n"
    assert out(capsys, "-nP", "show", "wckey") == "w2|cluster|new\nw3|cluster|other\n"


def test_no_default_qos_is_that_of_the_account_above(client, capsys):
    """So it has to be among those of the association, too."""
    for line in (
        "add qos gold,low",
        "add account bio qos=normal,gold defaultqos=gold",
        "add user ann account=bio qos=low,normal",
    ):
        out(capsys, "-i", *line.split())
    out(capsys, "-i", "modify", "user", "ann", "set", "defaultqos=low")
    wrong = (
        " These associations don't have access to their default qos.\n"
        " Please give them access before they the default can be set to this.\n"
        "  DefQOS = gold       C = cluster    A = bio                  U = ann      \n"
    )
    out(capsys, "-i", "modify", "user", "ann", "set", "defaultqos=-1", status=1, err=wrong)
    assert out(capsys, "-i", "modify", "account", "bio", "set", "defaultqos=-1").startswith(" Modified account assoc")
    assert out(capsys, "-i", "modify", "user", "ann", "set", "defaultqos=-1").startswith(" Modified user assoc")
    assert out(capsys, "-nP", "show", "assoc", "format=user,defaultqos", "account=bio") == "|\nann|\n"


def test_the_root_account_is_the_clusters(client, capsys):
    out(capsys, "-i", "add", "user", "ann", "account=root")
    assert out(capsys, "-i", "modify", "account", "root", "set", "maxjobs=5") == (
        " Modified account associations...\n  C = cluster    A = root\n  C = cluster    A = root                 U = ann      \n"
    )
    assert out(capsys, "-nP", "show", "assoc", "format=account,user,maxjobs") == "root||5\nroot|ann|5\n"
    assert out(capsys, "-i", "modify", "account", "root", "user=ann", "set", "maxjobs=7") == (
        " Modified account associations...\n  C = cluster    A = root                 U = ann      \n"
    )
    assert out(capsys, "-nP", "show", "assoc", "format=account,user,maxjobs", "account=root") == "root||5\nroot|ann|7\n"
