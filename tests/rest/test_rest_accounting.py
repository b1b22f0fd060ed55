"""Accounting by the REST daemon on a real cluster: what is written is read back, by it and by sacctmgr."""

import os
import pwd

import pytest
from liverest import PREFIX

DB = "/slurmdb/v0.0.46"
OWN = pwd.getpwuid(os.geteuid()).pw_name
LIMIT = {"set": True, "infinite": False, "number": 4}


def account(name: str, **more: object) -> dict:
    return {"name": name, "description": "made by a test", "organization": "tests", **more}


def test_accounts_users_and_associations(rest):
    """From nothing to limits, and back to nothing."""
    with rest.as_user() as client:
        made = client.post(f"{DB}/accounts", json={"accounts": [account("rlab"), account("rgroup")]})
        assert made.status_code == 200 and made.json()["errors"] == [], made.text
        below = {"account": "rgroup", "user": "", "parent_account": "rlab"}
        own = {"account": "rgroup", "user": "rann", "shares_raw": 3, "max": {"jobs": {"active": LIMIT}}}
        assert client.post(f"{DB}/associations", json={"associations": [own, below]}).status_code == 200
        (found,) = client.get(f"{DB}/association?user=rann&account=rgroup").json()["associations"]
        assert (found["shares_raw"], found["max"]["jobs"]["active"], found["is_default"]) == (3, LIMIT, True)
        (parent,) = client.get(f"{DB}/associations?account=rgroup&user=").json()["associations"][:1]
        assert (parent["parent_account"], parent["user"]) == ("rlab", "")
        condition = {"association_condition": {"users": ["rbob"], "accounts": ["rlab"]}, "user": {}}
        first = client.post(f"{DB}/users_association", json=condition)
        assert first.status_code == 200 and "rbob" in first.json()["added_users"]
        assert client.post(f"{DB}/users_association", json=condition).status_code == 304
        user = {"name": "rbob", "administrator_level": ["Operator"], "coordinators": [{"name": "rlab"}]}
        assert client.post(f"{DB}/users", json={"users": [user]}).status_code == 200
        (bob,) = client.get(f"{DB}/user/rbob?with_assocs=1&with_coords=1").json()["users"]
        assert (bob["administrator_level"], bob["default"]["account"]) == (["Operator"], "rlab")
        assert [one["name"] for one in bob["coordinators"]] == ["rlab"]
        listed = rest.cluster.run(
            "sacctmgr", "-nP", "show", "assoc", "account=rgroup", "format=account,user,share,maxjobs"
        )
        assert listed.ok().out.splitlines() == ["rgroup||1|", "rgroup|rann|3|4"]
        gone = client.delete(f"{DB}/association?user=rbob&account=rlab").json()["removed_associations"]
        assert len(gone) == 1 and "rbob" in gone[0]
        assert client.delete(f"{DB}/account/rlab").json()["removed_accounts"] == ["rlab"]
        assert client.delete(f"{DB}/account/rlab").status_code == 304
        assert client.delete(f"{DB}/user/rann").status_code == 304  # the last association was in it
        assert client.get(f"{DB}/user/rann").json()["users"] == []


def test_all_or_nothing(rest):
    with rest.as_user() as client:
        records = [{"account": "root", "user": "rcid"}, {"account": "nosuch", "user": "rcid"}]
        reply = client.post(f"{DB}/associations", json={"associations": records})
        assert (reply.status_code, reply.json()["errors"][0]["error_number"]) == (422, 2045)
        assert client.get(f"{DB}/user/rcid").json()["users"] == []


def test_qos_and_wckeys(rest):
    with rest.as_user() as client:
        qos = {"name": "rhigh", "priority": LIMIT, "flags": ["DENY_LIMIT"], "preempt": {"list": ["normal"]},
               "limits": {"max": {"tres": {"per": {"user": [{"type": "cpu", "count": 8}]}}}}}  # fmt: skip
        assert client.post(f"{DB}/qos", json={"qos": [qos]}).status_code == 200
        (found,) = client.get(f"{DB}/qos/rhigh").json()["qos"]
        assert (found["priority"]["number"], found["flags"], found["preempt"]["list"]) == (
            4,
            ["DENY_LIMIT"],
            ["normal"],
        )
        assert [(one["type"], one["count"]) for one in found["limits"]["max"]["tres"]["per"]["user"]] == [("cpu", 8)]
        assert client.post(f"{DB}/qos", json={"qos": [found]}).status_code == 200  # as it was read
        assert client.get(f"{DB}/qos/rhigh").json()["qos"] == [found]
        assert client.delete(f"{DB}/qos/{found['id']}").json()["removed_qos"] == ["rhigh"]
        assert client.delete(f"{DB}/qos/rhigh").status_code == 304
        client.post(f"{DB}/users", json={"users": [{"name": "rdan", "default": {"account": "root"}}]})
        key = {"name": "rkey", "user": "rdan", "cluster": "e2e"}
        assert client.post(f"{DB}/wckeys", json={"wckeys": [key]}).status_code == 200
        (wckey,) = client.get(f"{DB}/wckeys?name=rkey").json()["wckeys"]
        assert wckey["user"] == "rdan"
        assert len(client.delete(f"{DB}/wckey/{wckey['id']}").json()["deleted_wckeys"]) == 1
        assert client.delete(f"{DB}/wckey/{wckey['id']}").status_code == 304
        assert client.delete(f"{DB}/user/rdan").status_code == 200


def test_a_qos_that_is_to_be_new_changes_none_that_is_there(rest):
    new = {"If-None-Match": "*"}
    with rest.as_user() as client:
        made = {"qos": [{"name": "rfresh", "description": "first"}]}
        assert client.post(f"{DB}/qos", json=made, headers=new).status_code == 200
        both = {"qos": [{"name": "rfresh2"}, {"name": "RFresh", "description": "second"}]}
        refused = client.post(f"{DB}/qos", json=both, headers=new)
        (error,) = refused.json()["errors"]
        assert (refused.status_code, error["error_number"], error["source"]) == (412, 9010, "#/qos/1/name")
        assert client.get(f"{DB}/qos/rfresh").json()["qos"][0]["description"] == "first"
        assert client.get(f"{DB}/qos/rfresh2").json()["qos"] == []  # all or none
        assert client.post(f"{DB}/qos", json=both).status_code == 200
        assert client.get(f"{DB}/qos/rfresh").json()["qos"][0]["description"] == "second"
        for name in ("rfresh", "rfresh2"):
            assert client.delete(f"{DB}/qos/{name}").status_code == 200


def test_the_whole_configuration_is_what_it_takes(rest):
    """What GET config answers, POST config accepts, and changes nothing by it."""
    with rest.as_user() as client:
        client.post(f"{DB}/accounts", json={"accounts": [account("rwhole")]})
        client.post(
            f"{DB}/associations", json={"associations": [{"account": "rwhole", "user": "reve", "shares_raw": 7}]}
        )
        names = ("accounts", "associations", "qos", "users", "wckeys", "tres", "clusters")
        before = client.get(f"{DB}/config").json()
        again = client.post(f"{DB}/config", json={name: before[name] for name in names})
        assert again.status_code == 200 and again.json()["errors"] == [], again.text
        after = client.get(f"{DB}/config").json()
        assert {name: after[name] for name in names} == {name: before[name] for name in names}
        assert client.delete(f"{DB}/account/rwhole").status_code == 200


def test_what_is_not_changed_here(rest):
    with rest.as_user() as client:
        for method, path, body in (
            ("POST", "tres", {"TRES": [{"type": "gres", "name": "x"}]}), ("POST", "clusters", {"clusters": [{"name": "other"}]}),
            ("DELETE", "cluster/e2e", None),
        ):  # fmt: skip
            reply = client.request(method, f"{DB}/{path}", json=body)
            assert (reply.status_code, reply.json()["errors"][0]["error_number"]) == (422, 2036), path
        assert client.post(f"{DB}/clusters", json={"clusters": [{"name": "e2e"}]}).status_code == 304


def test_a_record_of_a_job_and_the_server(rest):
    with rest.as_user() as client:
        script = {"name": "r", "current_working_directory": "/tmp", "environment": ["A=1"], "script": "#!/bin/sh\n",
                  "standard_output": "/dev/null"}  # fmt: skip
        job_id = client.post(f"{PREFIX}/job/submit", json={"job": script}).json()["job_id"]
        rest.cluster.wait_ends(job_id)
        reply = client.post(f"{DB}/job/{job_id}", json={"comment": {"job": "seen"}, "extra": "more"})
        assert reply.json()["results"] == [str(job_id)], reply.text
        (record,) = client.get(f"{DB}/job/{job_id}").json()["jobs"]
        assert (record["comment"]["job"], record["extra"]) == ("seen", "more")
        statistics = client.get(f"{DB}/diag").json()["statistics"]
        assert statistics["time_start"] > 0 and any(one["count"] > 0 for one in statistics["RPCs"])
        conf = client.get(f"{PREFIX}/conf").json()
        assert conf["slurm_conf"]["ClusterName"] == "e2e" and conf["slurm_conf_meta"]["NEXT_JOB_ID"]["number"] > job_id
        assert conf["slurm_conf"]["AuthAltTypes"] == ["auth/jwt"]
        assert client.get(f"{DB}/conf").json()["slurmdbd_conf"]["DbdHost"]
        assert "instances" not in client.get(f"{DB}/instances").json()


@pytest.mark.root
def test_a_user_changes_nothing(rest):
    """2002 each, as in Slurm; nothing is different afterwards."""
    with rest.as_user() as root, rest.as_user("nobody") as other:
        before = root.get(f"{DB}/config").json()
        for method, path, body in (
            ("POST", "accounts", {"accounts": [account("mine")]}), ("DELETE", "account/root", None),
            ("POST", "users", {"users": [{"name": "nobody", "default": {"account": "root"}, "administrator_level": ["Operator"]}]}),
            ("POST", "associations", {"associations": [{"account": "root", "user": "nobody"}]}),
            ("DELETE", f"user/{OWN}", None), ("POST", "qos", {"qos": [{"name": "normal", "priority": 9}]}),
            ("DELETE", "qos/normal", None), ("POST", "clusters", {"clusters": [{"name": "e2e"}]}),
            ("DELETE", "associations?account=root", None),
        ):  # fmt: skip
            reply = other.request(method, f"{DB}/{path}", json=body)
            assert (reply.status_code, reply.json()["errors"][0]["error_number"]) == (422, 2002), path
        after = root.get(f"{DB}/config").json()
        assert all(after[name] == before[name] for name in ("accounts", "associations", "qos", "users"))
