"""sacctmgr add, modify, delete: what is printed, asked and sent, and what is refused before anything is sent."""

import select
from typing import Any

import pytest

from cli import sacctmgr
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.v1.governance_pb2 import ChangeManyReply, ListWckeysReply, WckeyInfo
from penstock.v1.shares_pb2 import Association, ChangeAccountsReply, ChangeAccountsRequest
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body
from tests.cli.treeworld import changes_of, out, world

QUESTION = "Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): "


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    monkeypatch.setattr("cli.accounts.add.named", lambda name: None if name == "nouid" else object())
    return world(monkeypatch)


def answers(client: FakeClient, *associations: Association, names: tuple[str, ...] = ()) -> None:
    client.answers["ChangeAccounts"] = ChangeAccountsReply(names=names, associations=associations)


def user(name: str, account: str = "physics", **more: Any) -> Association:
    return Association(account=account, user=name, parent=account, **more)


# ---- add ---------------------------------------------------------------------------------------------------------


def test_add_users(client, capsys):
    answers(client, user("dan"), user("eve"), names=("dan", "eve"))
    assert out(capsys, "-i", "add", "user", "dan,eve", "account=physics", "fairshare=5", "grpnodes=3", "admin=op") == (
        " Adding User(s)\n  dan\n  eve\n Settings =\n  Admin Level     = Operator\n Associations =\n"
        "  U = dan       A = physics    C = tiny      \n  U = eve       A = physics    C = tiny      \n"
        " Non Default Settings\n  Fairshare     = 5\n  GrpTRES       = node=3\n"
    )
    looked, done = (request for name, request in client.calls if name == "ChangeAccounts")
    assert looked.check_only and not done.check_only
    assert done == ChangeAccountsRequest(
        action="ADD", entity="user", names=["dan", "eve"], accounts=["physics"],
        changes={"fairshare": "5", "grptres": "node=3", "adminlevel": "Operator"},
    )  # fmt: skip


def test_add_a_user_that_is_there_to_partitions(client, capsys):
    answers(client, user("ann", partition="gpu"), names=("ann",))
    assert out(capsys, "-i", "add", "user", "name=ann", "acct=Physics", "part=gpu,cpu", "maxwall=1-0", "qos+=gold") == (
        " Associations =\n  U = ann       A = physics    C = tiny       P = gpu       \n"
        " Non Default Settings\n  MaxWall       = 1-00:00:00\n  QOS           = +gold\n"
    )
    (request,) = changes_of(client)
    assert request.partitions == ["gpu", "cpu"] and request.accounts == ["physics"]
    assert dict(request.changes) == {"maxwalldurationperjob": "1-0", "qos+": "gold"}


def test_add_users_with_wckeys_is_one_transaction(client, capsys):
    client.answers["ChangeMany"] = ChangeManyReply(
        replies=[ChangeAccountsReply(names=["dan"], associations=[user("dan")]), ChangeAccountsReply(names=["w1"])]
    )
    shown = out(capsys, "-i", "add", "user", "dan", "account=physics", "wckeys=w1,w2", "defaultwckey=w1")
    assert (
        " WCKeys =\n  U = dan       W = w1         C = tiny      \n  U = dan       W = w2         C = tiny      \n"
        in shown
    )
    (request,) = changes_of(client)
    assert [change.accounts.entity for change in request.changes] == ["user", "wckey"]
    assert request.changes[1].accounts.users == ["dan"] and request.changes[1].accounts.names == ["w1", "w2"]


def test_add_accounts(client, capsys):
    answers(client, Association(account="chem", parent="bio"), names=("chem",))
    assert out(
        capsys, "-i", "create", "acc", "name=Chem", "cluster=tiny", "descr=x y", "parent=bio", "org=u", "maxjobs=-1"
    ) == (
        " Adding Account(s)\n  chem\n Settings\n  Description     = x y\n  Organization    = u\n Associations\n"
        "  A = chem       C = tiny      \n Settings\n  MaxJobs       = NONE\n  Parent        = bio\n"
    )
    (request,) = changes_of(client)
    assert dict(request.changes) == {"description": "x y", "parent": "bio", "organization": "u", "maxjobs": "-1"}
    assert out(capsys, "-iQ", "add", "account", "chem") == ""


def test_coordinators(client, capsys):
    answers(client, names=("physics",))
    assert out(capsys, "-i", "add", "coordinator", "account=physics", "names=ann,bob") == (
        " Adding Coordinator User(s)\n  ann\n  bob\n To Account(s) and all sub-accounts\n  physics\n"
    )
    assert changes_of(client)[-1] == ChangeAccountsRequest(
        action="ADD", entity="coordinator", names=["physics"], users=["ann", "bob"]
    )
    assert out(capsys, "-i", "delete", "coord", "ann", "account=physics") == (
        " Removing Coordinators with user name\n  ann\n From Account(s)\n  physics\n"
        " Removed Coordinators (sub accounts not listed)...\n"
    )
    assert (
        out(capsys, "-i", "delete", "coordinator", "account=physics")
        == " Removing all users from Accounts\n  physics\n Removed Coordinators (sub accounts not listed)...\n"
    )
    out(
        capsys,
        "-i",
        "add",
        "coord",
        "ann",
        "account=none",
        status=1,
        err=" You specified a non-existent account 'none'.\n",
    )
    out(capsys, "-i", "add", "coord", "who", "account=bio", status=1, err=" You specified a non-existent user 'who'.\n")
    answers(client)
    assert out(capsys, "-i", "delete", "coord", "ann", status=1) == (
        " Removing Coordinators with user name\n  ann\n From all accounts\n Nothing removed\n"
    )


def test_wckeys(client, capsys):
    answers(client, names=("w9",))
    assert (
        out(capsys, "-i", "add", "wckey", "w9", "user=ann")
        == " WCKeys =\n  U = ann       W = w9         C = tiny      \n"
    )
    client.answers["ListWckeys"] = ListWckeysReply(
        wckeys=[WckeyInfo(name="w9", user="ann"), WckeyInfo(name="w9", user="bob"), WckeyInfo(name="w8", user="ann")]
    )
    line = "  C = tiny       W = w9                   U = {:<9}\n"
    gone = " Deleting user WCKeys...\n" + line.format("ann")
    assert out(capsys, "-i", "delete", "user", "ann", "wckeys=w9") == gone
    assert changes_of(client)[-1] == ChangeAccountsRequest(action="REMOVE", entity="wckey", names=["w9"], users=["ann"])
    assert out(capsys, "-i", "delete", "wckey", "where", "w9") == gone + line.format("bob")


@pytest.mark.parametrize(
    "line",
    [
        "modify account bio set parent=physics maxjobs=3 defaultqos=gold",
        "modify user set defaultaccount=bio maxjobs=3 qos=gold defaultqos=gold",
        "add user new account=bio wckey=w1",
        "delete user bob account=bio",
        "delete qos normal",
    ],
)
def test_a_line_loads_the_tree_once(client, capsys, line):
    answers(client, user("bob"), Association(account="bio", parent="root"), names=("bob", "bio"))
    run_body(capsys, "sacctmgr", sacctmgr.body, "-i", *line.split())
    assert [name for name, _ in client.calls].count("ListAssociations") == 1


# ---- modify ------------------------------------------------------------------------------------------------------


def test_modify_tells_what_is_changed(client, capsys):
    answers(client, user("ann"), user("ann", partition="gpu"), names=("ann",))
    assert out(
        capsys,
        "-i",
        "modify",
        "user",
        "where",
        "name=ann",
        "account=physics",
        "set",
        "fairshare=3",
        "maxtresmins=cpu=9",
    ) == (
        " Modified user associations...\n  C = tiny       A = physics              U = ann      \n"
        "  C = tiny       A = physics              U = ann       P = gpu\n"
    )
    (request,) = changes_of(client)
    assert dict(request.changes) == {"fairshare": "3", "maxtresminsperjob": "cpu=9"}
    assert (list(request.names), list(request.accounts)) == (["ann"], ["physics"])
    assert out(capsys, "-i", "modify", "user", "ann", "set", "defaultaccount=physics") == " Modified users...\n  ann\n"
    assert (
        out(capsys, "-i", "modify", "user", "set", "admin=none", "where", "adminl=oper")
        == " Modified users...\n  ann\n"
    )
    assert changes_of(client)[-1].where == {"adminlevel": "oper"}
    answers(client, Association(account="bio", parent="root"), names=("bio",))
    assert out(capsys, "-i", "modify", "account", "where", "name=bio", "set", "fairshare=parent", "qos-=gold") == (
        " Modified account associations...\n  C = tiny       A = bio of root\n"
        "  C = tiny       A = bio                  U = bob      \n"
    )
    assert out(capsys, "-i", "update", "account", "bio", "set", "desc='new words'") == " Modified accounts...\n  bio\n"
    assert changes_of(client)[-1].changes == {"description": "new words"}


def test_modify_of_everybody_asks(client, capsys, monkeypatch, tmp_path):
    answers(client, user("ann"), names=("ann",))
    no_where = "You didn't set any conditions with 'WHERE'.\nAre you sure you want to continue? (You have 30 seconds to decide)\n(N/y): "
    assert typed(capsys, monkeypatch, tmp_path, "n\n", "modify", "user", "set", "fairshare=2") == no_where + "Aborted\n"
    assert client.calls == []
    shown = typed(capsys, monkeypatch, tmp_path, "y\ny\n", "modify", "user", "set", "fairshare=2")
    assert shown.startswith(no_where) and shown.endswith(QUESTION)
    assert len(changes_of(client)) == 1 and changes_of(client)[0].names == ["ann", "bob", "root"]


def test_raw_usage(client, capsys, monkeypatch, tmp_path):
    answers(client, user("ann"), names=("ann",))
    assert typed(capsys, monkeypatch, tmp_path, "y\n", "modify", "user", "ann", "set", "rawusage=0") == (
        "Would you like to reset usage? (You have 30 seconds to decide)\n(N/y): "
    )
    assert len(changes_of(client)) == 1
    out(capsys, "modify", "user", "ann", "set", "rawusage=5", status=1, err="Raw usage can only be set to 0 (zero)\n")


def test_the_cluster(client, capsys):
    answers(client, Association(account="root"), names=("root",))
    assert out(capsys, "-i", "modify", "cluster", "tiny", "set", "maxjobs=9") == (
        " Setting\n  Default Limits:\n  MaxJobs       = 9\n"
        " Modified cluster defaults for associations...\n  C = tiny       A = root\n"
        "  C = tiny       A = physics              U = ann      \n  C = tiny       A = root                 U = root     \n"
    )
    assert (changes_of(client)[0].entity, changes_of(client)[0].names) == ("cluster", ["tiny"])
    wrong = "GrpWall is not a valid option for the root association of a cluster.\n"
    out(capsys, "-i", "modify", "cluster", "set", "grpwall=9", status=1, err=wrong)
    assert out(capsys, "-i", "add", "cluster", "tiny", status=1) == " This cluster tiny already exists.  Not adding.\n"
    for line in ("modify cluster no set maxjobs=1", "modify account bio where cluster=no set maxjobs=1"):
        assert out(capsys, "-i", *line.split(), status=1) == " Nothing modified\n"
    for line in ("delete cluster no", "delete account bio where cluster=no", "delete user bob where cluster=no"):
        assert out(capsys, "-i", *line.split(), status=1) == " Nothing deleted\n"
    out(capsys, "-i", "delete", "cluster", status=1, err=" No conditions given to remove, not executing.\n")
    assert out(capsys, "-i", "modify", "account", "root", "set", "parent=bio", status=1) == " Nothing modified\n"
    other = (
        " Problem adding clusters: Requested operation not supported on this system\n"
        "sacctmgr: tiny keeps the accounts of its own cluster; a machine knows another cluster by its cluster file in "
        "/etc/penstock/clusters (docs/clusters.md)\n"
    )
    out(capsys, "-i", "add", "cluster", "big", status=1, err=other)


# ---- remove ------------------------------------------------------------------------------------------------------


def test_delete(client, capsys):
    answers(client, user("ann"), user("ann", "bio"), names=("ann",))
    assert out(capsys, "-i", "delete", "user", "ann") == " Deleting users...\n  ann\n"
    assert changes_of(client)[-1] == ChangeAccountsRequest(action="REMOVE", entity="user", names=["ann"])
    assert out(capsys, "-i", "remove", "user", "where", "name=ann", "account=physics,bio") == (
        " Deleting user associations...\n  C = tiny       A = physics    U = ann      \n"
        "  C = tiny       A = bio        U = ann      \n Deleting users (No Associations)...\n  ann\n"
    )
    answers(client, Association(account="bio", parent="root"), names=("bio",))
    assert out(capsys, "-i", "delete", "account", "bio") == " Deleting accounts...\n  bio\n"
    root = " You are not allowed to remove the root account.\n Use remove cluster instead.\n"
    out(capsys, "-i", "delete", "account", "root", status=1, err=root)


def test_jobs_in_the_way_are_listed(client, capsys):
    client.answers["ChangeAccounts"] = PenstockError(
        Code.JOBS_ON_ASSOCIATION, TEXT[Code.JOBS_ON_ASSOCIATION] + ": job 7 of ann"
    )
    from penstock.v1.common_pb2 import JobRequest

    job = pb.JobInfo(job_id=7, user_name="ann", request=JobRequest(account="physics"))
    client.answers["ListJobs"] = lambda request: [pb.ListJobsReply(jobs=[job])]
    out(
        capsys, "-i", "delete", "user", "ann", status=1,
        err=" Error with request: Job(s) active, cancel job(s) before remove\n"
        "  JobID = 7          C = tiny       A = physics    U = ann      \n",
    )  # fmt: skip


# ---- questions and refusals --------------------------------------------------------------------------------------


def typed(capsys, monkeypatch, tmp_path, text: str, *words: str, status: int = 0) -> str:
    """What is printed when somebody types `text` at the questions."""
    file = tmp_path / "typed"
    file.write_text(text)
    with open(file) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        return out(capsys, *words, status=status)


@pytest.mark.parametrize(
    ("text", "shown", "changed"),
    [
        ("y\n", "", 1),
        ("Yes\n", "", 1),
        ("n\n", " Changes Discarded\n", 0),
        ("", " Changes Discarded\n", 0),
        ("maybe\ny\n", "Y or N please\n(N/y): ", 1),
    ],
)
def test_the_question(client, capsys, monkeypatch, tmp_path, text, shown, changed):
    answers(client, names=("ann",))
    told = " Deleting users...\n  ann\n"
    assert typed(capsys, monkeypatch, tmp_path, text, "delete", "user", "ann") == told + QUESTION + shown
    assert len(changes_of(client)) == changed


def test_nobody_answers(client, capsys, monkeypatch, tmp_path):
    answers(client, names=("ann",))
    monkeypatch.setattr(select, "select", lambda *_: ([], [], []))
    shown = typed(capsys, monkeypatch, tmp_path, "y\n", "delete", "user", "ann")
    assert shown.endswith("(N/y): timeout\n Changes Discarded\n") and not changes_of(client)


def test_a_user_without_a_number_is_asked_about(client, capsys, monkeypatch, tmp_path):
    question = (
        "There is no uid for user 'nouid'\nAre you sure you want to continue? (You have 30 seconds to decide)\n(N/y): "
    )
    shown = typed(capsys, monkeypatch, tmp_path, "n\n", "add", "user", "nouid", "account=bio")
    assert shown == question + " Changes Discarded\n" and not changes_of(client)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("add", "account", "x"), " Nothing new added.\n"),
        (("add", "user", "dan", "account=bio"), " Nothing new added.\n"),
        (("modify", "user", "x", "set", "fairshare=1"), " Nothing modified\n"),
        (("delete", "user", "x"), " Nothing deleted\n"),
    ],
)
def test_nothing_to_do(client, capsys, words, text):
    assert out(capsys, "-i", *words, status=1) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("frobnicate", "user"), "invalid keyword: frobnicate"),
        (("a", "b"), "invalid keyword: a"),
        (("add", "thing"), "No valid entity in add command\nInput line must include \"Account\", \"Cluster\", \"Coordinator\", "
         "\"Federation\", \"QOS\", \"Resource\", or \"User\""),
        (("show",), "No valid entity in list command\nInput line must include \"Account\", \"Association\", \"Cluster\", "
         "\"Configuration\",\n\"Event\", \"Federation\", \"Problem\", \"QOS\", \"Resource\", \"Reservation\",\n"
         "\"RunAwayJobs\", \"Stats\", \"Transaction\", \"TRES\", \"User\", or \"WCKey\""),
        (("add", "user", "ann", "colour=red"), " Unknown option: colour=red"),
        (("add", "user"), " Need name of user to add."),
        (("add", "user", "ann"), " Need name of account to add user to."),
        (("add", "account", "x", "parent=none"),
         " Parent account 'none' doesn't exist on cluster tiny\n        Contact your admin to add this account.\n"
         " No associations created."),
        (("add", "account"), " Need name of account to add."),
        (("modify", "user", "ann"), " You didn't give me anything to set"),
        (("modify", "user", "ann,bob", "set", "newname=x"), " If you are changing a users name you can only specify 1 user at a time."),
        (("modify", "user", "ann", "set", "cluster=tiny"), " Unknown option: cluster=tiny\n Use keyword 'where' to modify condition"),
        (("modify", "user", "ann", "set", "fairshare"), " Bad format on fairshare: End your option with an '=' sign"),
        (("modify", "user", "name=a", "fairshare=2"), " Unknown condition: fairshare=2\n Use keyword 'set' to modify value"),
        (("delete", "user"), " No conditions given to remove, not executing."),
        (("delete", "account", "cluster=tiny"), " No conditions given to remove, not executing."),
        (("add", "account", "x", "cluster=other"),
         " This cluster 'other' doesn't exist.\n        Contact your admin to add it to accounting."),
        (("version", "x"), "too many arguments for version keyword"),
        (("-r", "add", "account", "x"), "Can't run this command in readonly mode."),
        (("clear", "x"), 'No valid entity in clear command\nInput line must include, "Stats"'),
    ],
)  # fmt: skip
def test_mistakes(client, capsys, words, text):
    assert out(capsys, "-i", *words, status=1, err=text + "\n") == ""
    assert not changes_of(client)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("maxjobs=abc", "Invalid value for MaxJobs (abc)"),
        ("fairshare=-2", "Invalid value for FairShare (-2)"),
        ("prio=1e9", "Invalid value for Priority (1e9)"),
        ("grpj=99999999999999999999", "Invalid value for GrpJobs (99999999999999999999)"),
        ("grptres=cpu", "Invalid GrpTRES"),
        ("maxtres=cpu=x", "MaxTRESPerJob cpu"),
        ("admin=king", "Invalid value for AdminLevel (king)"),
        ("maxwall=soon", " Bad MaxWall time format: maxwall=soon: "),
        ("grpwall=-3", " Bad GrpWall time format: grpwall=-3: "),
    ],
)
def test_values_that_are_none(client, capsys, setting, text):
    """The line names the option and its value, and what is allowed stands in it or behind it."""
    from tests.cli.fake_controller import run_body

    status, shown, wrong = run_body(capsys, "sacctmgr", sacctmgr.body, "-i", "modify", "user", "ann", "set", setting)
    assert status == 1 and not shown and text in wrong and wrong.startswith(("sacctmgr: error: ", " Bad "))
    assert any(word in wrong for word in ("(allowed: ", "write ", "it is ")), wrong
    assert wrong.endswith(f" Unknown option: {setting}\n Use keyword 'where' to modify condition\n")
    assert client.calls == []


def test_a_user_is_not_added_to_an_account_that_is_not_there(client, capsys):
    wrong = " This account 'none' doesn't exist.\n        Contact your admin to add this account.\n"
    shown = out(capsys, "-i", "add", "user", "ann", "account=none", status=1, err=wrong)
    assert shown == " Nothing new added.\n" and not changes_of(client)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("modify user ann set qos=none", "\n Unknown option: qos=none\n Use keyword 'where' to modify condition\n"),
        (
            "modify account bio set qos+=none",
            "\n Unknown option: qos+=none\n Use keyword 'where' to modify condition\n",
        ),
        ("add user ann account=bio qos=+none", "\n Unknown option: qos=+none\n"),
        ("show assoc where qos=none", "\n Unknown condition: qos=none\n"),
    ],
)
def test_a_qos_that_is_not_there(client, capsys, line, words):
    wrong = f"sacctmgr: error: You gave a bad qos 'none'. Valid QOS's are normal,gold{words}"
    out(capsys, "-i", *line.split(), status=1, err=wrong)
    assert not changes_of(client)


def test_default_qos_and_account_that_cannot_be(client, capsys):
    wrong = "You gave a bad default qos 'none'.  Use 'list qos' to get complete list.\n"
    out(capsys, "-i", "modify", "user", "ann", "set", "defaultqos=none", status=1, err=wrong)
    lines = (
        " These associations don't have access to their default qos.\n"
        " Please give them access before they the default can be set to this.\n"
        "  DefQOS = gold       C = tiny       A = physics              U = ann      \n"
    )
    out(capsys, "-i", "modify", "user", "ann", "set", "defaultqos=gold", status=1, err=lines)
    assert out(capsys, "-i", "modify", "user", "ann", "set", "defaultaccount=bio", status=1) == (
        " Can't modify because these users aren't associated with new default account 'bio'...\n  U = ann C = tiny\n"
    )
    assert not changes_of(client)


def test_users_below_a_changed_account_are_listed(client, capsys):
    """Those that have the value from it: bob's MaxJobs is their own, and so is the QOS list of one association."""
    answers(client, Association(account="bio", parent="root"), names=("bio",))
    head = " Modified account associations...\n  C = tiny       A = bio of root\n"
    one = "  C = tiny       A = bio                  U = bob      \n"
    assert out(capsys, "-i", "modify", "account", "bio", "set", "grpjobs=3") == head
    assert out(capsys, "-i", "modify", "account", "bio", "set", "maxjobs=3") == f"{head}{one[:-1]} P = gpu\n"
    assert out(capsys, "-i", "modify", "account", "bio", "set", "qos=normal") == head + one


def test_a_refusal_of_the_controller(client, capsys):
    client.answers["ChangeAccounts"] = PenstockError(Code.ACCESS_DENIED, "Access/permission denied: to change accounts")
    wrong = " Problem adding accounts: Access/permission denied\nsacctmgr: to change accounts\n"
    out(capsys, "-i", "add", "account", "x", status=1, err=wrong)
    wrong = " Error with request: Access/permission denied\nsacctmgr: to change accounts\n"
    out(capsys, "-i", "modify", "account", "bio", "set", "fairshare=1", status=1, err=wrong)


def test_version_and_help(capsys):
    assert out(capsys, "version") == out(capsys, "-V")
    assert out(capsys, "help").startswith("sacctmgr [<OPTION>] [<COMMAND>]\n")
