"""Changes of accounting, in process: a body becomes one request of sacctmgr's changes."""

import pytest
from fakerest import FakeRest

from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import ListNodesReply as Nodes
from penstock.v1.controller_pb2 import ListQosReply, NodeInfo, PingReply, Qos
from penstock.v1.controller_pb2 import ShowConfigReply as Config
from penstock.v1.governance_pb2 import ChangeManyReply, ListWckeysReply, ModifiedRecord, ModifyRecordsReply, WckeyInfo
from penstock.v1.shares_pb2 import (
    Association,
    ChangeAccountsReply,
    ChangeAccountsRequest,
    ListAssociationsReply,
    UserInfo,
)
from penstock.values.refusals import TEXT, Code

DB = "/slurmdb/v0.0.46"
CHANGED = ChangeManyReply(replies=[ChangeAccountsReply(names=["x"])])
TREE = ListAssociationsReply(
    cluster="test",
    associations=[
        Association(id=1, account="root"),
        Association(id=2, account="lab", parent="root"),
        Association(id=3, account="lab", user="ann", parent="lab"),
        Association(id=4, account="other", parent="root"),
        Association(id=5, account="other", user="bob", parent="other", partition="main"),
    ],
    users=[UserInfo(name="ann", default_account="lab"), UserInfo(name="bob", default_account="other")],
)
NUMBER = {"set": True, "infinite": False, "number": 7}
INFINITE = {"set": False, "infinite": True, "number": 0}


def asked(path, body, method="POST", **replies):
    """The answer, and the changes that reached the controller, each as (action, entity, names, changes)."""
    rest = FakeRest({"ChangeMany": CHANGED, "ListAssociations": TREE} | replies)
    reply = rest.request(method, f"{DB}/{path}", **({} if body is None else {"json": body}))
    changes = [one for name, request, _ in rest.calls if name == "ChangeMany" for one in request.changes]
    return reply, [shown(one) for one in changes]


def shown(change):
    one = change.accounts if change.WhichOneof("what") == "accounts" else change.qos
    if change.WhichOneof("what") == "qos":
        return ("", "ADD", "MODIFY", "DELETE")[one.action], "qos", list(one.names), dict(one.changes)
    more = {
        name: value
        for name, value in (
            ("accounts", list(one.accounts)), ("users", list(one.users)), ("partitions", list(one.partitions)),
            ("where", dict(one.where)),
        )
        if value
    }  # fmt: skip
    action = ChangeAccountsRequest.Action.Name(one.action)
    return action, one.entity, list(one.names), dict(one.changes), *([more] if more else [])


def test_an_account_is_added_and_changed():
    record = {"name": "new", "description": "a lab", "organization": "uni", "coordinators": [{"name": "ann"}]}
    reply, changes = asked("accounts", {"accounts": [record]})
    assert reply.status_code == 200 and reply.json()["errors"] == []
    said = {"description": "a lab", "organization": "uni"}
    assert changes == [
        ("ADD", "account", ["new"], said), ("MODIFY", "account", ["new"], said),
        ("ADD", "coordinator", ["new"], {}, {"users": ["ann"]}),
    ]  # fmt: skip


def test_an_account_that_is_there_is_changed_alone():
    """A coordinator may change what is below an account, and neither add nor move it: so nothing of that is asked for."""
    record = {"name": "Lab", "description": "a lab", "organization": ""}
    _, changes = asked("accounts", {"accounts": [record]})
    assert changes == [("MODIFY", "account", ["Lab"], {"description": "a lab"})]
    body = {
        "associations": [{"account": "lab", "user": "", "parent_account": "root", "max": {"jobs": {"active": NUMBER}}}]
    }
    _, changes = asked("associations", body)
    assert changes == [("MODIFY", "account", ["lab"], {"maxjobs": "7"})]
    assert asked("config", body, ListQos=ListQosReply())[1] == changes
    _, changes = asked("associations", {"associations": [{"account": "lab", "user": "", "parent_account": "other"}]})
    assert changes == [("MODIFY", "account", ["lab"], {"parent": "other"})]
    _, changes = asked("associations", {"associations": [{"account": "lab", "user": "", "parent_account": "root"}]})
    assert changes == [("ADD", "account", ["lab"], {"parent": "root"})]  # the controller checks the right


def test_an_account_that_a_job_has_made_is_added():
    made = ListAssociationsReply(associations=[Association(id=2, account="lab", parent="root", made_by_itself=True)])
    _, changes = asked(
        "associations", {"associations": [{"account": "lab", "user": "", "shares_raw": 3}]}, ListAssociations=made
    )
    assert [one[0] for one in changes] == ["ADD", "MODIFY"]


def test_an_association_of_a_user():
    record = {
        "account": "lab", "user": "ann", "cluster": "test", "partition": "main", "is_default": True, "shares_raw": 2**31 - 1,
        "priority": INFINITE, "qos": ["normal", "high"], "default": {"qos": "high"}, "id": 3, "lineage": "/",
        "max": {
            "jobs": {"active": NUMBER, "per": {"wall_clock": INFINITE}},
            "tres": {"per": {"job": [{"type": "cpu", "count": 4}, {"type": "gres", "name": "gpu", "count": -1}]}},
        },
    }  # fmt: skip
    reply, changes = asked("associations", {"associations": [record]})
    assert reply.status_code == 200 and reply.json()["warnings"] == []
    said = {
        "maxjobs": "7", "maxwalldurationperjob": "-1", "priority": "-1", "qos": "normal,high", "defaultqos": "high",
        "fairshare": "parent", "maxtresperjob": "cpu=4,gres/gpu=-1", "defaultaccount": "lab",
    }  # fmt: skip
    assert changes == [
        ("ADD", "user", ["ann"], {}, {"accounts": ["lab"], "partitions": ["main"]}),
        ("MODIFY", "user", ["ann"], said, {"accounts": ["lab"], "where": {"partition": "main"}}),
    ]


def test_accounts_come_before_their_users_and_root_is_the_cluster():
    records = [
        {"account": "new", "user": "ann", "shares_raw": 3},
        {"account": "new", "user": "", "parent_account": "uni"},
        {"account": "root", "user": "", "max": {"jobs": {"per": {"count": 9}}}},
    ]
    _, changes = asked("associations", {"associations": records})
    assert [one[:3] for one in changes] == [
        ("ADD", "account", ["new"]), ("MODIFY", "account", ["new"]), ("MODIFY", "cluster", []), ("ADD", "user", ["ann"]),
        ("MODIFY", "user", ["ann"]),
    ]  # fmt: skip
    assert changes[1][3] == {"parent": "uni"} and changes[2][3] == {"grpjobs": "9"}


def test_a_user():
    record = {
        "name": "eve", "old_name": "ann", "administrator_level": ["Operator"], "default": {"account": "lab", "wckey": "k"},
        "associations": [{"account": "lab", "user": "eve"}, {"account": "other", "user": "eve"}],
        "wckeys": [{"name": "k", "user": "eve", "cluster": "test"}], "coordinators": [{"name": "lab"}],
    }  # fmt: skip
    _, changes = asked("users", {"users": [record]})
    assert changes == [
        ("MODIFY", "user", ["ann"], {"newname": "eve"}),
        ("ADD", "user", ["eve"], {}, {"accounts": ["lab"]}),
        ("ADD", "user", ["eve"], {}, {"accounts": ["other"]}),
        ("ADD", "wckey", ["k"], {}, {"users": ["eve"]}),
        ("MODIFY", "user", ["eve"], {"adminlevel": "operator", "defaultaccount": "lab", "defaultwckey": "k"}),
        ("ADD", "coordinator", ["lab"], {}, {"users": ["eve"]}),
    ]


def test_a_new_user_needs_an_account():
    reply, changes = asked("users", {"users": [{"name": "new", "administrator_level": ["None"]}]})
    assert reply.status_code == 422 and reply.json()["errors"][0]["error_number"] == 2045 and changes == []
    reply, changes = asked("users", {"users": [{"name": "ann", "administrator_level": ["None"]}]})
    assert reply.status_code == 200 and changes == [("MODIFY", "user", ["ann"], {"adminlevel": "none"})]


def test_qos_that_are_new_or_known():
    known = ListQosReply(qos=[Qos(name="normal", id=1)])
    records = [
        {"name": "High", "preempt": {"list": ["normal"], "mode": ["REQUEUE"], "exempt_time": {"number": 90}},
         "priority": NUMBER, "usage_factor": {"number": 0.5}, "usage_threshold": INFINITE, "flags": ["DENY_LIMIT"],
         "limits": {"grace_time": 30, "max": {"wall_clock": {"per": {"job": 60}},
                    "tres": {"per": {"user": [{"type": "gres", "name": "gpu", "count": 8}]}}}}},
        {"id": 1, "description": "all", "flags": ["ADD", "NO_RESERVE"]},
    ]  # fmt: skip
    reply, changes = asked("qos", {"qos": records}, ListQos=known)
    assert reply.status_code == 200
    assert changes == [
        ("ADD", "qos", ["high"], {}),
        ("MODIFY", "qos", ["high"], {
            "preempt": "normal", "preemptmode": "REQUEUE", "preemptexempttime": "00:01:30", "priority": "7",
            "usagefactor": "0.500000", "usagethreshold": "-1", "flags": "DenyOnLimit", "gracetime": "30",
            "maxwalldurationperjob": "60", "maxtresperuser": "gres/gpu=8",
        }),
        ("MODIFY", "qos", ["normal"], {"description": "all", "flags+": "NoReserve"}),
    ]  # fmt: skip


def test_many_with_the_same_settings():
    condition = {"users": ["ann", "eve"], "accounts": ["lab"], "partitions": ["main"], "wckeys": ["k"],
                 "association": {"fairshare": 5, "grptres": [{"type": "mem", "count": 100}], "comment": "x"}}  # fmt: skip
    found = [Association(account="lab", user="eve", partition="main")]
    done = ChangeManyReply(replies=[ChangeAccountsReply(names=["eve"], associations=found), ChangeAccountsReply()])
    body = {"association_condition": condition, "user": {"adminlevel": ["Operator"]}}
    reply, changes = asked("users_association", body, ChangeMany=done)
    assert changes == [
        ("ADD", "user", ["ann", "eve"], {"fairshare": "5", "grptres": "mem=100", "adminlevel": "operator"},
         {"accounts": ["lab"], "partitions": ["main"]}),
        ("ADD", "wckey", ["k"], {}, {"users": ["ann", "eve"]}),
    ]  # fmt: skip
    assert reply.json()["added_users"].splitlines()[:2] == [" Adding User(s)", "  eve"]
    assert [one["source"] for one in reply.json()["warnings"]] == ["#/association_condition/association/comment"]
    reply, changes = asked(
        "accounts_association",
        {
            "association_condition": {"accounts": ["a", "b"], "association": {"parent": "lab"}},
            "account": {"organization": "o"},
        },
    )
    assert reply.status_code == 200
    assert changes == [("ADD", "account", ["a", "b"], {"parent": "lab", "organization": "o"})]


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("account/Lab", [("REMOVE", "account", ["lab"], {})]),
        ("user/ann", [("REMOVE", "user", ["ann"], {})]),
        ("association?account=lab&user=ann",
         [("REMOVE", "user", ["ann"], {}, {"accounts": ["lab"], "where": {"partition": ""}})]),
        ("associations?account=lab", [("REMOVE", "account", ["lab"], {})]),
        ("association?id=5", [("REMOVE", "user", ["bob"], {}, {"accounts": ["other"], "where": {"partition": "main"}})]),
        ("qos/1", [("DELETE", "qos", ["high"], {})]),
        ("wckey/7", [("REMOVE", "wckey", ["k"], {}, {"users": ["ann"]})]),
    ],
)  # fmt: skip
def test_removals(path, changes):
    qos, wckeys = (
        ListQosReply(qos=[Qos(name="high", id=1)]),
        ListWckeysReply(wckeys=[WckeyInfo(id=7, name="k", user="ann")]),
    )
    reply, made = asked(path, None, "DELETE", ListQos=qos, ListWckeys=wckeys)
    assert reply.status_code == 200 and made == changes


def test_removals_of_too_much():
    """Without a filter, or one association where several pass: nothing is asked."""
    for path in ("associations", "associations?usage_start=5", "association?user=", "association?account=lab"):
        reply, made = asked(path, None, "DELETE")
        assert (reply.status_code, made) == (422, []), path
    reply, made = asked("associations?account=nosuch", None, "DELETE", ChangeMany=ChangeManyReply())
    assert (reply.status_code, reply.content, made) == (304, b"", [])


def test_nothing_to_change_is_not_modified():
    nothing = ChangeManyReply(replies=[ChangeAccountsReply()])
    for method, path, body in (
        ("DELETE", "account/gone", None), ("DELETE", "user/gone", None), ("POST", "accounts", {"accounts": []}),
        ("POST", "clusters", {"clusters": [{"name": "test"}]}),
        ("POST", "users_association", {"association_condition": {"users": ["a"], "accounts": ["lab"]}, "user": {}}),
    ):  # fmt: skip
        reply, _ = asked(path, body, method, ChangeMany=nothing)
        assert (reply.status_code, reply.content) == (304, b""), path


@pytest.mark.parametrize(
    ("path", "body", "number"),
    [
        ("accounts", {}, 9200), ("accounts", {"accounts": [{"name": "a"}]}, 9200), ("wckeys", {"wckeys": [{"name": "k"}]}, 9200),
        ("accounts", {"accounts": 5}, 9202), ("users", {"users": [5]}, 9209), ("jobs", {}, 9200), ("job/1", {}, 9000),
        ("users", {"users": [{"name": "a", "administrator_level": ["King"]}]}, 9207), ("job/abc", {"extra": "x"}, 9000),
        ("wckeys", {"wckeys": [{"name": "k", "user": "a", "cluster": "other"}]}, 9000), ("qos", {"qos": [{"id": 99}]}, 9200),
        ("users_association", {"association_condition": {"users": []}, "user": {}}, 9200), ("tres", {"TRES": []}, 2036),
    ],
)  # fmt: skip
def test_what_is_refused_here(path, body, number):
    reply, changes = asked(path, body, Ping=PingReply(), ListQos=ListQosReply())
    assert (reply.status_code, reply.json()["errors"][0]["error_number"]) == (422, number) and changes == []


def test_the_controller_decides():
    refusal = PenstockError(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
    for path, body in (
        ("accounts", {"accounts": [{"name": "a", "description": "", "organization": ""}]}),
        ("config", {}),
    ):
        reply, _ = asked(path, body, ChangeMany=refusal, ListQos=ListQosReply())
        assert (reply.status_code, reply.json()["errors"][0]["error_number"]) == (422, 2002)


def test_records_of_jobs():
    rest = FakeRest({"ModifyRecords": ModifyRecordsReply(records=[ModifiedRecord(job_id=5)])})
    change = {"comment": {"administrator": "a", "job": "j"}, "derived_exit_code": {"return_code": 3}, "wckey": "k"}
    reply = rest.post(f"{DB}/jobs", {"job_id_list": ["5", "6_1"], "job_rec": change})
    ((_, request, _),) = rest.calls
    assert reply.json()["results"] == ["5"] and list(request.which.ids) == ["5", "6_1"]
    assert dict(request.changes) == {"admincomment": "a", "comment": "j", "derivedexitcode": "3:0", "newwckey": "k"}


def test_instances_and_configuration():
    node = NodeInfo(name="n1", instance_id="i-1", instance_type="big")
    rest = FakeRest(
        {
            "ListNodes": Nodes(nodes=[node, NodeInfo(name="n2")]),
            "ShowConfig": Config(lines=[
                {"key": "MessageTimeout", "value": "10 sec"}, {"key": "PrivateData", "value": "jobs,nodes"},
                {"key": "SlurmctldHost[0]", "value": "head(10.0.0.1)"}, {"key": "SrunPortRange", "value": "60001-63000"},
                {"key": "DefMemPerCPU", "value": "UNLIMITED"}, {"key": "JobRequeue", "value": "1"},
                {"key": "Epilog", "value": "(null)"}, {"key": "NEXT_JOB_ID", "value": "17"},
            ]),
        }
    )  # fmt: skip
    found = rest.get(f"{DB}/instances").json()
    assert [(one["node_name"], one["instance_id"]) for one in found["instances"]] == [("n1", "i-1")]
    assert "instances" not in rest.get(f"{DB}/instance?instance_id=nosuch").json()
    conf = rest.get("/slurm/v0.0.46/conf").json()
    shown_conf = conf["slurm_conf"]
    assert (shown_conf["MessageTimeout"], shown_conf["JobRequeue"], shown_conf["Epilog"]) == (10, True, [])
    assert shown_conf["PrivateData"] == ["jobs", "nodes"]
    assert shown_conf["SrunPortRange"] == {"set": True, "minimum": 60001, "maximum": 63000}
    assert shown_conf["DefMemPerCPU"]["infinite"] and conf["slurm_conf_meta"]["NEXT_JOB_ID"]["number"] == 17
    assert shown_conf["controllers"] == [{"machine": "head", "address": "10.0.0.1"}]
    assert rest.get(f"{DB}/conf").json()["slurmdbd_conf"]["DbdHost"] == "head"
    assert "slurm_conf" not in rest.get("/slurm/v0.0.46/conf?update_time=9999999999").json()
