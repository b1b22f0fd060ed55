"""sacctmgr show account, user, association, cluster, qos: tables compared literally, conditions, documents."""

import json

import pytest
import yaml

from cli.accounts.jsonacctmgr import association_object, qos_object
from cli.accounts.tree import AssociationTree
from penstock.v1 import controller_pb2 as pb
from penstock.v1.shares_pb2 import Association, ListAssociationsReply, UserInfo
from tests.cli.fake_controller import FakeClient
from tests.cli.treeworld import out, world


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    return world(monkeypatch)


def test_accounts(client, capsys):
    assert out(capsys, "show", "account") == (
        "   Account                Descr                  Org \n"
        "---------- -------------------- -------------------- \n"
        "       bio              Bio lab                 root \n"
        "    optics               optics              physics \n"
        "   physics              physics              science \n"
        "      root default root account                 root \n"
    )
    assert out(capsys, "-nP", "list", "accounts", "bio,optics", "withcoord") == (
        "bio|Bio lab|root|bob\noptics|optics|physics|\n"
    )
    assert (
        out(capsys, "-nP", "list", "acc", "where", "org=science,physics", "format=acc,coord") == "optics|\nphysics|\n"
    )
    assert out(capsys, "-nP", "list", "account", "desc='Bio lab'", "format=account%3") == "bio\n"
    head = out(capsys, "-p", "show", "account", "withassoc", "bio").splitlines()
    assert head[0] == (
        "Account|Descr|Org|Cluster|ParentName|User|Share|Priority|GrpJobs|GrpNodes|GrpCPUs|GrpMem|GrpSubmit|GrpWall|"
        "GrpCPUMins|MaxJobs|MaxNodes|MaxCPUs|MaxSubmit|MaxWall|MaxCPUMins|QOS|Def QOS|"
    )
    assert head[1] == "bio|Bio lab|root|tiny|root||10||||64|1024||||20||||2-00:00:00||gold,normal|gold|"
    assert len(head) == 4


def test_users(client, capsys):
    assert out(capsys, "show", "user") == (
        "      User   Def Acct     Admin \n"
        "---------- ---------- --------- \n"
        "       ann    physics  Operator \n"
        "       bob        bio      None \n"
        "      root       root Administ+ \n"
    )
    assert out(capsys, "-nP", "list", "users", "bob", "withcoord") == "bob|bio|None|bio\n"
    assert out(capsys, "-nP", "show", "user", "adminlevel=operator", "format=user,defaultwckey") == "ann|\n"
    assert out(capsys, "-nP", "show", "user", "defaultaccount=bio", "format=user,DefaultWCKey") == "bob|w1\n"
    assert out(capsys, "-nPs", "show", "user", "account=bio", "format=user,acc,part,maxj,share%5") == (
        "bob|bio||5|parent\nbob|bio|gpu|20|1\n"
    )
    assert (
        out(capsys, "-nPi", "show", "user", "account=bio")
        == "ann|physics|Operator\nbob|bio|None\nroot|root|Administrator\n"
    )
    assert out(capsys, "-nP", "show", "user", "name=nobody") == ""


def test_associations(client, capsys):
    lines = out(capsys, "show", "assoc", "user=bob").splitlines()
    assert lines[0] == (
        "   Cluster    Account       User  Partition     Share   Priority GrpJobs       GrpTRES GrpSubmit     GrpWall   GrpTRESMins "
        "MaxJobs       MaxTRES MaxTRESPerNode MaxSubmit     MaxWall   MaxTRESMins                  QOS   Def QOS GrpTRESRunMin "
    )
    assert lines[2].split() == [
        "tiny",
        "bio",
        "bob",
        "parent",
        "7",
        "5",
        "gres/gpu=2",
        "2-00:00:00",
        "gold,normal",
        "gold",
    ]
    assert (
        len(lines[0]) == len(lines[1]) == len(lines[2])
        and lines[2].index("gold,normal") + 11 == lines[0].index("QOS") + 3
    )
    assert out(capsys, "-nP", "list", "assoc", "tree", "format=account,user,share") == (
        "root||1\n root|root|1\n bio||10\n  bio|bob|parent\n  bio|bob|1\n physics||30\n  physics|ann|1\n  optics||1\n"
    )
    assert out(capsys, "-n", "list", "assoc", "tree", "account=bio", "format=account,user") == (
        " bio                            \n  bio                       bob \n  bio                       bob \n"
    )
    assert (
        out(capsys, "-nP", "list", "assoc", "withsub", "account=physics", "format=account,user")
        == "physics|\nphysics|ann\noptics|\n"
    )
    assert out(capsys, "-nP", "list", "assoc", "id=4,5", "format=id,lft,rgt,parentid") == "4|5|6|2\n5|11|12|3\n"
    assert (
        out(capsys, "-nP", "list", "assoc", "onlyd", "format=account,user,part")
        == "root|root|\nbio|bob|\nbio|bob|gpu\nphysics|ann|\n"
    )
    assert (
        out(capsys, "-nP", "list", "assoc", "partition=gpu", "format=maxj,maxw,qos,defaultqos")
        == "20|2-00:00:00|gold|gold\n"
    )
    assert out(capsys, "-nP", "list", "assoc", "wopl", "partition=gpu", "format=maxj,maxw,qosraw") == "||gold\n"
    assert out(capsys, "-nP", "list", "assoc", "woli", "user=ann") == "tiny|physics|ann|\n"
    assert (
        out(capsys, "-nP", "list", "assoc", "parent=root", "format=account,budget")
        == "bio|\nphysics|1000gpu-hours/month\n"
    )
    assert out(capsys, "-nP", "list", "assoc", "qos=gold", "user=bob", "format=id") == "4\n6\n"
    assert out(capsys, "-nP", "list", "assoc", "cluster=tiny", "user=ann", "withd", "format=user") == "ann\n"
    assert client.calls[-1][1].with_deleted


def test_the_cluster(client, capsys):
    assert out(capsys, "-p", "show", "cluster", "format=cluster,controlhost,controlport,rpc") == (
        "Cluster|ControlHost|ControlPort|RPC|\ntiny|ctl|6817|11008|\n"
    )
    assert out(capsys, "show", "clusters").splitlines()[0] == (
        "   Cluster     ControlHost  ControlPort   RPC     Share GrpJobs       GrpTRES GrpSubmit MaxJobs       MaxTRES MaxSubmit     "
        "MaxWall                  QOS   Def QOS "
    )
    assert out(capsys, "-nP", "show", "cluster", "other") == ""
    assert out(capsys, "-nP", "show", "cluster", "wolimits") == "tiny|ctl|6817|11008\n"


def test_the_table_of_qos(client, capsys):
    assert out(
        capsys, "show", "qos", "format=name,prio,grace,preempt%12,preemptexempt,preemptm%14,flags%10,usagef"
    ).splitlines() == [
        "      Name   Priority  GraceTime      Preempt   PreemptExemptTime    PreemptMode      Flags UsageFactor ",
        "---------- ---------- ---------- ------------ ------------------- -------------- ---------- ----------- ",
        "    normal          0   00:00:00                                         cluster               1.000000 ",
        "      gold       1000   00:01:30   low,normal            00:10:00  cancel,within    NoDecay    1.500000 ",
    ]
    assert out(capsys, "-P", "show", "qos", "gold").splitlines() == [
        "Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRES|GrpTRESMins|"
        "GrpTRESRunMins|GrpJobs|GrpSubmit|GrpWall|MaxTRES|MaxTRESPerNode|MaxTRESMins|MaxWall|MaxTRESPU|MaxJobsPU|MaxSubmitPU|"
        "MaxTRESPA|MaxJobsPA|MaxSubmitPA|MinTRES",
        "gold|1000|00:01:30|low,normal|00:10:00|cancel,within|NoDecay|0.250000|1.500000||||||||||01:30:00|gres/gpu=8|3|||||gres/gpu=1",
    ]
    assert (
        out(capsys, "-nP", "list", "qos", "id=1", "format=Name,Description,LimitFactor,id")
        == "normal|Normal QOS default||1\n"
    )
    assert out(capsys, "-nP", "list", "qos", "preemptmode=within", "format=name") == "gold\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("show", "user", "colour=red"), " Unknown condition: colour=red\n Use keyword 'set' to modify value\n"),
        (("show", "assoc", "colour=red"), " Unknown condition: colour=red\n"),
        (("show", "assoc", "nonsense"), " Unknown condition: nonsense\n"),
        (("show", "user", "format=nonsense"), "Unknown field 'nonsense'\n"),
        (("show", "qos", "format=name,nonsense%3"), "Unknown field 'nonsense'\n"),
        (
            ("show", "user", "a=b", "c=d", "e=f"),
            " Unknown condition: a=b\n Use keyword 'set' to modify value\n Unknown condition: e=f\n Use keyword 'set' to modify value\n",
        ),
    ],
)
def test_mistakes(client, capsys, words, text):
    out(capsys, *words, status=1, err=text)
    assert client.calls == []


def test_documents(client, capsys):
    """--json and --yaml say the same, with data_parser's structure."""
    for entity, key in (
        ("account", "accounts"),
        ("user", "users"),
        ("assoc", "associations"),
        ("cluster", "clusters"),
        ("qos", "qos"),
    ):
        as_json = json.loads(out(capsys, "--json", "show", entity))
        as_yaml = yaml.safe_load(out(capsys, "--yaml", "show", entity))
        assert as_json[key] == as_yaml[key] and as_json["errors"] == []
        assert as_json["meta"]["plugin"]["data_parser"] == "data_parser/v0.0.43"
    qos = {one["name"]: one for one in as_json["qos"]}
    assert qos["gold"]["limits"]["max"]["tres"]["per"]["user"] == [
        {"type": "gres", "name": "gpu", "id": 1001, "count": 8}
    ]
    assert qos["gold"]["limits"]["max"]["wall_clock"]["per"]["job"] == {"set": True, "infinite": False, "number": 90}
    assert qos["normal"]["limits"]["max"]["jobs"]["active_jobs"]["per"]["user"]["set"] is False
    assoc = {one["id"]: one for one in json.loads(out(capsys, "--json", "show", "assoc"))["associations"]}
    assert assoc[4]["max"]["jobs"]["active"]["number"] == 5 and assoc[4]["shares_raw"] == 2**31 - 1
    assert assoc[4]["lineage"] == "/bio/0-bob/" and assoc[4]["is_default"]
    users = {one["name"]: one for one in json.loads(out(capsys, "--json", "show", "user", "bob"))["users"]}
    assert users["bob"]["coordinators"] == [{"name": "bio", "direct": True}]
    assert users["bob"]["default"] == {"account": "bio", "qos": "gold", "wckey": "w1"}


UNSET = {"set": False, "infinite": True, "number": 0}
#: An account's association and a QOS without limits, as slurmrestd 25.05 answers them with data_parser v0.0.43.
ASSOCIATION = {
    "accounting": [], "account": "free", "cluster": "tiny", "comment": "", "default": {"qos": ""}, "flags": [],
    "max": {
        "jobs": {
            "per": {"count": UNSET, "accruing": UNSET, "submitted": UNSET, "wall_clock": UNSET},
            "active": UNSET, "accruing": UNSET, "total": UNSET,
        },
        "tres": {
            "total": [], "group": {"minutes": [], "active": []}, "minutes": {"total": [], "per": {"job": []}},
            "per": {"job": [], "node": []},
        },
        "per": {"account": {"wall_clock": UNSET}},
    },
    "id": 9, "is_default": False, "lineage": "/free/", "min": {"priority_threshold": UNSET}, "parent_account": "root",
    "partition": "", "priority": UNSET, "qos": ["normal"], "shares_raw": 1, "user": "",
}  # fmt: skip
QOS = {
    "description": "Normal QOS default", "flags": [], "id": 1,
    "limits": {
        "grace_time": 0,
        "max": {
            "active_jobs": {"accruing": UNSET, "count": UNSET},
            "jobs": {
                "count": UNSET, "active_jobs": {"per": {"account": UNSET, "user": UNSET}},
                "per": {"account": UNSET, "user": UNSET},
            },
            "tres": {
                "total": [], "minutes": {"total": [], "per": {"qos": [], "job": [], "account": [], "user": []}},
                "per": {"account": [], "job": [], "node": [], "user": []},
            },
            "wall_clock": {"per": {"qos": UNSET, "job": UNSET}}, "accruing": {"per": {"account": UNSET, "user": UNSET}},
        },
        "factor": UNSET, "min": {"priority_threshold": UNSET, "tres": {"per": {"job": []}}},
    },
    "name": "normal", "preempt": {"list": [], "mode": ["DISABLED"], "exempt_time": UNSET},
    "priority": {"set": True, "infinite": False, "number": 0},
    "usage_factor": {"set": True, "infinite": False, "number": 1.0}, "usage_threshold": UNSET,
}  # fmt: skip


def test_documents_are_slurms_to_the_last_key():
    root = Association(id=1, account="root", shares=1, own_qos=["normal"])
    free = Association(id=9, account="free", parent="root", shares=1, depth=1)
    user = Association(
        id=10, account="free", user="ann", partition="gpu", parent="free", shares=1, depth=2, qos=["normal"]
    )
    there = ListAssociationsReply(associations=[root, free, user], cluster="tiny", users=[UserInfo(name="ann")])
    tree = AssociationTree.of(there)
    assert association_object(tree, free) == ASSOCIATION
    assert [tree.lineage(one) for one in (root, user)] == ["/", "/free/0-ann/gpu/"]
    normal = pb.Qos(
        name="normal", description="Normal QOS default", id=1, usage_factor_ppm=10**6, usage_threshold_ppm=-1,
        limit_factor_ppm=-1, preempt_exempt_time_s=-1,
    )  # fmt: skip
    assert qos_object(normal) == QOS


def test_the_shares_beside_an_association():
    """What an association has its part of: accounts and users below the same account together."""
    rows = [("root", "", "", 1), ("a", "", "root", 30), ("b", "", "root", 10), ("root", "root", "root", 1), ("a", "u", "a", 5),
            ("a", "v", "a", -1), ("c", "", "a", 7)]  # fmt: skip
    found = [
        Association(id=number, account=account, user=user, parent=parent, shares=shares)
        for number, (account, user, parent, shares) in enumerate(rows, 1)
    ]
    levels = AssociationTree.of(ListAssociationsReply(associations=found)).level_shares()
    assert list(levels.values()) == [1, 41, 41, 41, 12, 12, 12]
