"""scontrol show assoc_mgr over a made-up cluster, compared literally."""

from types import SimpleNamespace

import pytest

from cli import scontrol
from penstock.errors import PenstockError
from penstock.v1 import governance_pb2 as gov
from tests.cli.fake_controller import FakeClient, run_body
from tests.cli.treeworld import world

TRES = ("cpu", "mem", "gres/gpu")
COUNTERS = [
    gov.Counters(
        assoc_id=2, account="bio",
        used={"grpjobs": "3", "grpsubmitjobs": "9", "grptres": "cpu=12,mem=4G,gres/gpu=2", "grptresmins": "cpu=77", "grpwall": "41"},
    ),
    gov.Counters(assoc_id=4, account="bio", user="bob", used={"maxjobs": "2", "grpjobs": "2"}),
    gov.Counters(qos="gold", usage_raw=120.5, used={"grpjobs": "1"}),
    gov.Counters(qos="gold", user="bob", used={"maxjobsperuser": "1", "maxsubmitjobsperuser": "4", "maxtresperuser": "gres/gpu=2"}),
]  # fmt: skip


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    monkeypatch.setattr("cli.control.assocmgr.named", lambda name: SimpleNamespace(pw_uid=1000 + len(name)))
    return world(
        monkeypatch,
        ListTres=gov.ListTresReply(tres=[gov.TresInfo(type="cpu"), gov.TresInfo(type="mem"), gov.TresInfo(type="gres", name="gpu")]),
        ListCounters=lambda request: [gov.ListCountersReply(counters=COUNTERS)],
    )  # fmt: skip


def out(capsys, *words, status=0, err=""):
    found, shown, wrong = run_body(capsys, "scontrol", scontrol.body, "show", "assoc_mgr", *words)
    assert (found, wrong) == (status, err)
    return shown


def test_users(client, capsys):
    assert out(capsys, "flags=users", "users=bob") == (
        "Current Association Manager state\n\nUser Records\n\n"
        "UserName=bob(1003) DefAccount=bio DefWckey=w1 AdminLevel=None\n\n"
    )


def test_associations(client, capsys):
    shown = out(capsys, "flags=assoc", "accounts=bio")
    assert shown.startswith(
        "Current Association Manager state\n\nAssociation Records\n\n"
        "ClusterName=tiny Account=bio UserName= Partition= Priority=0 ID=2\n"
        "    SharesRaw/Norm/Level/Factor=10/0.00/41/0.00\n"
        "    UsageRaw/Norm/Efctv=0.00/0.00/0.00\n"
        "    ParentAccount=root(1) Lineage=/bio/ DefAssoc=No\n"
        "    GrpJobs=N(3) GrpJobsAccrue=N(0)\n"
        "    GrpSubmitJobs=N(9) GrpWall=N(41.00)\n"
        "    GrpTRES=cpu=64(12),mem=1024(4096),gres/gpu=8(2)\n"
        "    GrpTRESMins=cpu=N(77),mem=N(0),gres/gpu=N(0)\n"
        "    GrpTRESRunMins=cpu=N(0),mem=N(0),gres/gpu=N(0)\n"
        "    MaxJobs=20 MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=\n"
        "    MaxTRESPJ=\n    MaxTRESPN=\n    MaxTRESMinsPJ=\n    MinPrioThresh=\n"
        "ClusterName=tiny Account=bio UserName=bob(1003) Partition= Priority=7 ID=4\n"
        "    SharesRaw/Norm/Level/Factor=2147483647/0.00/1/0.00\n"
    )
    assert "    MaxJobs=5(2) MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=\n    MaxTRESPJ=gres/gpu=2\n" in shown
    assert list(client.calls[-1][1].accounts) == ["bio"]


def test_qos(client, capsys):
    assert out(capsys, "flags=qos", "qos=gold") == (
        "Current Association Manager state\n\nQOS Records\n\n"
        "QOS=gold(2)\n"
        "    UsageRaw=120.500000\n"
        "    GrpJobs=N(1) GrpJobsAccrue=N(0) GrpSubmitJobs=N(0) GrpWall=N(0.00)\n"
        "    GrpTRES=cpu=N(0),mem=N(0),gres/gpu=N(0)\n"
        "    GrpTRESMins=cpu=N(0),mem=N(0),gres/gpu=N(0)\n"
        "    GrpTRESRunMins=cpu=N(0),mem=N(0),gres/gpu=N(0)\n"
        "    MaxWallPJ=90\n    MaxTRESPJ=\n    MaxTRESPN=\n    MaxTRESMinsPJ=\n    MinPrioThresh=\n    MinTRESPJ=gres/gpu=1\n"
        "    PreemptMode=CANCEL,WITHIN\n    Priority=1000\n"
        "    Account Limits\n      No Accounts\n"
        "    User Limits\n      bob(1003)\n"
        "        MaxJobsPU=3(1) MaxJobsAccruePU=N(0) MaxSubmitJobsPU=N(4)\n"
        "        MaxTRESPU=cpu=N(0),mem=N(0),gres/gpu=8(2)\n"
        "        MaxTRESRunMinsPU=cpu=N(0),mem=N(0),gres/gpu=N(0)\n\n"
    )


def test_nothing_and_mistakes(client, capsys):
    assert out(capsys, "users=nobody", "qos=none", err="QOS none not found\n") == (
        "Current Association Manager state\n\nNo users currently cached in Slurm.\n\n\n"
        "No associations currently cached in Slurm.\n\n\nNo QOS currently cached in Slurm.\n\n"
    )
    client.calls.clear()
    out(capsys, "colour=red", status=1, err="invalid entity: colour=red for keyword:show assoc_mgr\n")
    out(capsys, "flags=x", status=1, err="invalid flag 'x', valid options are 'Assoc, QOS, and/or Users'\n")
    out(capsys, "users=", status=1, err="No value given for option users\n")
    assert not client.calls


def test_a_controller_that_counts_nothing(client, capsys):
    client.answers["ListCounters"] = PenstockError(2013, "Requested operation not supported on this system")
    assert "    GrpJobs=N(0) GrpJobsAccrue=N(0)\n" in out(capsys, "flags=assoc")
    client.answers["ListCounters"] = PenstockError(2002, "Access/permission denied")
    out(capsys, status=1, err="slurm_load_assoc_mgr_info error: Access/permission denied\n")
