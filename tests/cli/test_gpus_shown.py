"""GPUs one by one in `scontrol show node`, its JSON, `penstock gpus`; and `scontrol update ... gres=`."""

import json
from typing import Any

import pytest

from cli.base.run import CommandError
from cli.control.update import read_update
from cli.scontrol import body
from cli.subcommands import gpus
from penstock.clusterfile import ClusterFile
from penstock.v1 import controller_pb2 as pb
from penstock.v1.common_pb2 import GpuXid, GresCount, GresIndices
from tests.cli.fake_controller import FakeClient, run_body

T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20 UTC
A, B, C = (f"GPU-{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")
H200: dict[str, Any] = {"type": "h200", "memory_mb": 143771}
READINGS = [
    pb.GpuReadingInfo(
        node="n1", uuid=A, index=0, at_us=T0, utilization_percent=97, memory_used_mb=92_000, power_w=650, temperature_c=71,
        ecc_corrected=12, ecc_uncorrected=0,
    ),
    pb.GpuReadingInfo(node="n1", uuid=B, index=1, at_us=T0, utilization_percent=0, temperature_c=31),
    pb.GpuReadingInfo(node="n2", uuid=C, index=2, at_us=T0, power_w=1),
]  # fmt: skip


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def node(name="n1", **more):
    base: dict[str, Any] = {
        "base_state": "MIXED", "cpus": 8, "gres": [GresCount(name="gpu", type="h200", count=3)], "version": "1",
        "gres_used": [GresIndices(name="gpu", type="h200", index=[0])], "gpu_driver": "580.159.04",
        "cuda_version": "13.0", "nvml_version": "13.580.159.04", "gpu_constraint": "cgroup/v2",
        "gpus": [
            pb.GpuInfo(uuid=A, state="HEALTHY", job_ids=[12, 15], idle_job_id=12, idle_since_us=T0, **H200),
            pb.GpuInfo(uuid=B, index=1, slot=1, state="DRAINED", reason="loud fan", reason_user="root", since_us=T0, **H200),
            pb.GpuInfo(uuid=C, index=2, slot=2, state="FAILED", reason="XID 79 (off the bus)", since_us=T0, **H200),
        ],
    }  # fmt: skip
    return pb.NodeInfo(name=name, **(base | more))


def ask(monkeypatch, *nodes):
    return FakeClient(
        ListNodes=pb.ListNodesReply(nodes=nodes), ListGpuReadings=pb.ListGpuReadingsReply(readings=READINGS)
    ).install(monkeypatch)


def show(monkeypatch, capsys, given, *options):
    ask(monkeypatch, given)
    status, out, err = run_body(capsys, "scontrol", body, *options, "show", "node", given.name)
    assert (status, err) == (0, "")
    return [line.strip() for line in out.splitlines()]


def test_scontrol_has_a_line_for_each(monkeypatch, capsys):
    lines = show(monkeypatch, capsys, node(), "-d")
    assert "Gres=gpu:h200:3" in lines  # those that are drained too
    assert "GresDrain=gpu:h200:2(IDX:1-2)" in lines
    assert "GresUsed=gpu:h200:1(IDX:0)" in lines
    assert lines[-5:] == [
        "GpuDriver=580.159.04 CudaVersion=13.0 NvmlVersion=13.580.159.04 GpuConstraint=cgroup/v2",
        f"Gpu=0 UUID={A} Type=h200 Memory=143771 Health=HEALTHY Jobs=12,15",
        f"Gpu=1 UUID={B} Type=h200 Memory=143771 Health=DRAINED Jobs=(null) Why=loud fan [root@2023-11-14T22:13:20]",
        f"Gpu=2 UUID={C} Type=h200 Memory=143771 Health=FAILED Jobs=(null) "
        "Why=XID 79 (off the bus) [node@2023-11-14T22:13:20]",
        "",
    ]


def with_xids():
    given = node()
    given.gpus[0].notes.append("ecc_pending")
    given.gpus[0].xids.extend([GpuXid(xid=13, times=4, last_us=T0), GpuXid(xid=63, times=1)])
    return given


def test_xids_stand_in_the_line_of_their_gpu(monkeypatch, capsys):
    lines = show(monkeypatch, capsys, with_xids(), "-d")
    assert f"Gpu=0 UUID={A} Type=h200 Memory=143771 Health=HEALTHY Jobs=12,15 Xids=13(x4),63" in lines
    assert sum("Xids=" in line for line in lines) == 1


def test_our_lines_hide_none_of_slurms(monkeypatch, capsys):
    """A program that looks for the first `Reason=` or `State=` finds the node's, or none."""
    (line, *_) = show(monkeypatch, capsys, node(), "-o")
    assert "Reason=" not in line and line.count("State=") == 1


def test_what_is_done_to_a_gpu(monkeypatch, capsys):
    given = node(
        gres_used=[],
        gpus=[
            pb.GpuInfo(uuid=A, state="HEALTHY", work="check", **H200),
            pb.GpuInfo(
                uuid=B, index=1, slot=1, state="DRAINED", many_only=True, reason="NVLink 3 is down", since_us=T0
            ),
            pb.GpuInfo(uuid=C, index=2, slot=-1, state="HEALTHY"),
        ],
    )
    lines = show(monkeypatch, capsys, given, "-d")
    assert "GresDrain=gpu:h200:1(IDX:0)" in lines and "GresUsed=gpu:h200:0(IDX:N/A)" in lines
    health = [word for line in lines for word in line.split() if word.startswith("Health=")]
    assert health == ["Health=HEALTHY+CHECK", "Health=DRAINED+SINGLE", "Health=HEALTHY+NOT_GIVEN"]


def mig():
    small: dict[str, Any] = {"type": "1g.18gb", "memory_mb": 18432, "parent_uuid": A}
    return node(
        gres=[GresCount(name="gpu", type="1g.18gb", count=2)],
        gres_used=[GresIndices(name="gpu", type="1g.18gb", index=[1])],
        gpus=[
            pb.GpuInfo(uuid=A, state="HEALTHY", slot=-1, job_ids=[7], **H200),
            pb.GpuInfo(uuid="MIG-1", state="DRAINED", slot=0, reason="x", since_us=T0, **small),
            pb.GpuInfo(uuid="MIG-2", state="HEALTHY", slot=1, job_ids=[7], **small),
        ],
    )


def test_instances_stand_below_their_gpu(monkeypatch, capsys):
    lines = show(monkeypatch, capsys, mig(), "-d")
    assert "GresDrain=gpu:1g.18gb:1(IDX:0)" in lines
    assert [line.split(" UUID")[0] for line in lines if "UUID=" in line] == ["Gpu=0", "Mig=0:0", "Mig=0:1"]
    assert "NOT_GIVEN" not in " ".join(lines)  # it is, in parts


def test_what_is_wrong_with_a_gpu_is_wrong_with_its_instances(monkeypatch, capsys):
    given = mig()
    given.gpus[0].state, given.gpus[1].state = "FAILED", "HEALTHY"
    assert "GresDrain=gpu:1g.18gb:2(IDX:0-1)" in show(monkeypatch, capsys, given, "-d")


def test_drained_ones_are_counted_as_they_are_configured(monkeypatch, capsys):
    """Without a type, though the card has one."""
    lines = show(monkeypatch, capsys, node(gres=[GresCount(name="gpu", count=3)], gres_used=[]), "-d")
    assert {"Gres=gpu:3", "GresDrain=gpu:2(IDX:1-2)", "GresUsed=gpu:0(IDX:N/A)"} <= set(lines)


def test_why_nothing_is_known_is_told_where_there_should_be_gpus(monkeypatch, capsys):
    why = {"gpus": [], "gpu_driver": "", "cuda_version": "", "nvml_version": "", "gpu_why": "NVML: Driver Not Loaded"}
    lines = show(monkeypatch, capsys, node(**why))
    assert "GpuConstraint=cgroup/v2 GpuWhy=NVML: Driver Not Loaded" in lines
    assert not any("Gpu" in line for line in show(monkeypatch, capsys, node(gres=[], gres_used=[], **why)))


def test_a_node_as_json(monkeypatch, capsys):
    ask(monkeypatch, node())
    monkeypatch.setattr("cli.control.entities.find_cluster", lambda: ClusterFile("tiny"))
    status, out, err = run_body(capsys, "scontrol", body, "show", "node", "--json")
    found = json.loads(out)["nodes"][0]
    assert (status, err, found["name"], found["state"]) == (0, "", "n1", ["MIXED"])
    assert (found["gres"], found["gres_used"], found["gres_drained"]) == (
        "gpu:h200:3", "gpu:h200:1(IDX:0)", "gpu:h200:2(IDX:1-2)",
    )  # fmt: skip
    assert [gpu["state"] for gpu in found["gpus"]] == ["HEALTHY", "DRAINED", "FAILED"]
    assert (found["gpus"][0]["idle_job_id"], found["gpus"][0]["idle_since"]["number"]) == (12, T0 // 1_000_000)
    assert found["gpus"][1]["since"]["number"] == T0 // 1_000_000 and found["gpu_driver"] == "580.159.04"


# ---- penstock gpus -------------------------------------------------------------------------------------------------


def listed(monkeypatch, capsys, *words, nodes=None):
    client = ask(monkeypatch, *([node()] if nodes is None else nodes))
    status, out, err = run_body(capsys, "penstock", gpus.main, *words)
    return status, out, err, client


def test_all_gpus_of_the_cluster(monkeypatch, capsys):
    status, out, err, _ = listed(monkeypatch, capsys, nodes=[node(), mig()])
    assert (status, err) == (0, "")
    assert out == """\
NODE  GPU  TYPE     MEMORY  STATE    JOBS   SINCE                UUID          UTIL  POWER  TEMP  ECC   REASON
n1    0    h200     140G    HEALTHY  12,15  -                    GPU-aaaaaaaa  97%   650W   71C   12/0
n1    1    h200     140G    DRAINED  -      2023-11-14T22:13:20  GPU-bbbbbbbb  0%    -      31C   -     loud fan [root]
n1    2    h200     140G    FAILED   -      2023-11-14T22:13:20  GPU-cccccccc  -     -      -     -     XID 79 (off the bus)
n1    0    h200     140G    HEALTHY  7      -                    GPU-aaaaaaaa  97%   650W   71C   12/0
n1    0:0  1g.18gb  18G     DRAINED  -      2023-11-14T22:13:20  MIG-1         -     -      -     -     x
n1    0:1  1g.18gb  18G     HEALTHY  7      -                    MIG-2         -     -      -     -
"""  # fmt: skip


def test_some_of_them(monkeypatch, capsys):
    _, out, _, client = listed(monkeypatch, capsys, "-N", "n[1-1]", "--state=drained,Failed", "--long")
    assert [(method, list(request.names)) for method, request in client.calls] == [
        ("ListNodes", ["n1"]),
        ("ListGpuReadings", ["n1"]),
    ]
    assert client.calls[0][1].gpus
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["1", "2"] and B in out and "SERIAL" in out
    assert listed(monkeypatch, capsys, "--state=suspect")[1] == "no GPU is in such a state\n"


def test_xids_are_in_the_long_list_and_for_programs(monkeypatch, capsys):
    _, out, _, _ = listed(monkeypatch, capsys, "--long", nodes=[with_xids()])
    head, first, *_ = out.splitlines()
    at = head.index("XIDS")
    assert first[at:].split()[0] == "13(x4),63"
    assert first[head.index("NOTES") :].split()[0] == "ecc_pending"
    monkeypatch.setattr("cli.control.entities.find_cluster", lambda: ClusterFile("tiny"))
    _, out, _, _ = listed(monkeypatch, capsys, "--json", nodes=[with_xids()])
    first, second, _ = json.loads(out)["gpus"]
    assert [(one["xid"], one["times"], one["last"]["number"]) for one in first["xids"]] == [
        (13, 4, T0 // 1_000_000), (63, 1, 0),
    ]  # fmt: skip
    assert (first["notes"], second["xids"], second["notes"]) == (["ecc_pending"], [], [])


def test_what_gpus_do_is_for_programs_too(monkeypatch, capsys):
    first, second, third = json.loads(listed(monkeypatch, capsys, "--json")[1])["gpus"]
    assert first["reading"].pop("at")["number"] == T0 // 1_000_000
    assert first["reading"] == {
        "utilization_percent": 97, "memory_used_mb": 92_000, "power_w": 650, "temperature_c": 71, "ecc_corrected": 12,
        "ecc_uncorrected": 0,
    }  # fmt: skip
    assert (second["reading"]["power_w"], second["reading"]["utilization_percent"], third["reading"]) == (None, 0, None)


def test_uuids_are_cut_where_they_still_differ(monkeypatch, capsys):
    """A pretended GPU's differ at the end."""
    many = [pb.GpuInfo(uuid=f"GPU-pretended-n1-{i}", index=i, slot=i, state="HEALTHY") for i in range(2)]
    out = listed(monkeypatch, capsys, nodes=[node(gpus=many)])[1]
    assert "GPU-pretended-n1-0" in out and "GPU-pretended-n1-1" in out


def test_nothing_to_list_is_said(monkeypatch, capsys):
    assert listed(monkeypatch, capsys, nodes=[])[:3] == (0, "the cluster has no GPUs\n", "")
    counted = node(gpus=[], gpu_why="NVML: no")
    assert (
        listed(monkeypatch, capsys, nodes=[counted])[1] == "n1: gpu:h200:3, of which nothing more is known (NVML: no)\n"
    )


def test_gpus_as_json(monkeypatch, capsys):
    found = json.loads(listed(monkeypatch, capsys, "--json", "--state=failed")[1])["gpus"]
    assert [(gpu["node"], gpu["uuid"], gpu["state"]) for gpu in found] == [("n1", C, "FAILED")]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["x"], "unexpected extra argument (x)"),
        (["--state=bad"], "--state=BAD: is no state of a GPU; known: HEALTHY"),
        (["-N", "n7"], "Node n7 not found"),
        (["-N", "n["], "n["),
    ],
)
def test_what_cannot_be_listed(monkeypatch, capsys, words, text):
    status, out, err, _ = listed(monkeypatch, capsys, *words)
    assert (status, out) == (1, "") and text in err


# ---- scontrol update -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["gpu", "gpu:3", "gpu:1,gpu:3", f"gpu:{A}", "gpu:GPU-aaaaaaaa"])
def test_one_gpu_is_drained_and_resumed(which):
    drain = read_update(["NodeName=n1", f"Gres={which}", "State=drain", "Reason=loud fan"])
    assert drain[:3] == ("node", "n1", {"gres": which, "state": "drain", "reason": "loud fan"})
    assert read_update(["nodename=n1", f"gres={which}", "state=resume"]).changes == {"gres": which, "state": "resume"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["gres=gpu:3", "state=drain"], "You must specify a reason when DOWNING or DRAINING a node. Request denied"),
        (["gres=gpu:3", "state=down", "reason=x"], "Valid states of a GPU are: DRAIN RESUME UNDRAIN"),
        (["gres=gpu:3", "state=foo", "reason=x"], "Valid states of a GPU are: DRAIN RESUME UNDRAIN"),
        (["gres=shard:3", "state=drain", "reason=x"], "write gres=gpu:INDEX"),
        (["gres=gpu:", "state=resume"], "write gres=gpu:INDEX"),
    ],
)
def test_what_cannot_be_done_to_a_gpu(words, text):
    with pytest.raises(CommandError, match=text.split(".")[0]):
        read_update(["nodename=n1", *words])
