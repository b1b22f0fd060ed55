"""A small made-up accounting world for sacctmgr's tests: accounts, users, QOS, with a controller that answers from it."""

from typing import Any

from cli import sacctmgr
from penstock.clusterfile import ClusterFile
from penstock.v1 import controller_pb2 as pb
from penstock.v1.shares_pb2 import AccountInfo, Association, ChangeAccountsReply, ListAssociationsReply, UserInfo
from tests.cli.fake_controller import FakeClient, run_body

ASSOCIATIONS = [
    Association(id=1, account="root", shares=1, limits={"maxwalldurationperjob": "2880"}, own_qos=["normal"], qos=["normal"]),
    Association(id=9, account="root", user="root", shares=1, depth=1, qos=["normal"]),
    Association(
        id=2, account="bio", parent="root", shares=10, depth=1, limits={"grptres": "cpu=64,mem=1G,gres/gpu=8", "maxjobs": "20"},
        own_qos=["normal", "gold"], qos=["normal", "gold"], default_qos="gold",
    ),
    Association(
        id=4, account="bio", user="bob", parent="bio", shares=-1, depth=2, qos=["normal", "gold"], priority=7,
        limits={"maxjobs": "5", "maxtresperjob": "gres/gpu=2"},
    ),
    Association(
        id=6, account="bio", user="bob", parent="bio", shares=1, depth=2, partition="gpu", qos=["gold"], own_qos=["gold"],
    ),
    Association(id=3, account="physics", parent="root", shares=30, depth=1, qos=["normal"], budget="1000gpu-hours/month"),
    Association(id=5, account="physics", user="ann", parent="physics", shares=1, depth=2, qos=["normal"]),
    Association(id=7, account="optics", parent="physics", shares=1, depth=2, qos=["normal"]),
]  # fmt: skip
TREE = ListAssociationsReply(
    associations=ASSOCIATIONS,
    accounts=[
        AccountInfo(name="root", description="default root account", organization="root"),
        AccountInfo(name="bio", description="Bio lab", organization="root", coordinators=["bob"]),
        AccountInfo(name="physics", description="physics", organization="science"),
        AccountInfo(name="optics", description="optics", organization="physics"),
    ],
    users=[
        UserInfo(name="root", default_account="root", admin_level="Administrator"),
        UserInfo(name="bob", default_account="bio", admin_level="None", default_wckey="w1", coordinator_of=["bio"]),
        UserInfo(name="ann", default_account="physics", admin_level="Operator"),
    ],
    cluster="tiny", multifactor=True, fair_tree=True, controller_host="ctl", controller_port=6817,
)  # fmt: skip
NORMAL = pb.Qos(
    id=1, name="normal", description="Normal QOS default", preempt_exempt_time_s=-1, usage_factor_ppm=1_000_000,
    usage_threshold_ppm=-1, limit_factor_ppm=-1,
)  # fmt: skip
GOLD = pb.Qos(
    id=2, name="gold", priority=1000, preempt=["low", "normal"], preempt_mode=["CANCEL", "WITHIN"], grace_time_s=90,
    preempt_exempt_time_s=600, flags=["NoDecay"], usage_factor_ppm=1_500_000, usage_threshold_ppm=250_000,
    limit_factor_ppm=2_000_000,
    limits={"maxtresperuser": "gres/gpu=8", "maxwalldurationperjob": "90", "maxjobsperuser": "3", "mintresperjob": "gres/gpu=1"},
)  # fmt: skip


def world(monkeypatch: Any, **answers: Any) -> FakeClient:
    """Installs the made-up cluster in place of the real client; `answers` replace or add to its answers."""
    base: dict[str, Any] = {
        "ListAssociations": lambda request: [TREE],
        "ListQos": pb.ListQosReply(qos=[GOLD, NORMAL]),
        "ChangeQos": pb.Empty(),
        "ChangeAccounts": ChangeAccountsReply(),
    }
    fake = FakeClient(**(base | answers))
    fake.cluster = ClusterFile("tiny")
    return fake.install(monkeypatch)


def changes_of(client: FakeClient) -> list[Any]:
    """The requests that change something, without the preceding queries."""
    wanted = ("ChangeAccounts", "ChangeMany", "ChangeQos", "Purge", "FixRunaway", "UpdateJobs")
    return [request for name, request in client.calls if name in wanted and not getattr(request, "check_only", False)]


def out(capsys: Any, *argv: str, status: int = 0, err: str = "") -> str:
    """The output of sacctmgr, after asserting its status and errors."""
    found, shown, wrong = run_body(capsys, "sacctmgr", sacctmgr.body, *argv)
    assert (found, wrong) == (status, err), shown
    return shown
