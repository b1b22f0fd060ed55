"""scontrol show topology, topoconf and licenses; what scontrol show job says of places; the variables of sbatch."""

import pytest

from cli.base.options import Command, parse
from cli.jobs.jobopts import JOB_OPTIONS, with_environment
from cli.jobs.jobrequest import job_request
from cli.listings.show import ShownReport, job_record
from cli.scontrol import body
from penstock.v1 import controller_pb2 as pb
from penstock.v1.common_pb2 import JobRequest
from tests.cli.fake_controller import FakeClient, run_body

TREE = pb.ShowTopologyReply(
    kind="tree",
    switches=[
        pb.SwitchInfo(name="s1", level=0, nodes="n[1-2]", node_count=2),
        pb.SwitchInfo(name="s2", level=0, nodes="n[3-4]", node_count=2),
        pb.SwitchInfo(name="top", level=1, nodes="n[1-4]", node_count=4, children="s[1-2]"),
    ],
)
BLOCKS = pb.ShowTopologyReply(
    kind="block",
    switches=[
        pb.SwitchInfo(name="b1", level=0, nodes="n[1-2]", node_count=2),
        pb.SwitchInfo(name="b2", level=0, nodes="n[3-4]", node_count=2),
        pb.SwitchInfo(name="b[1-2]", level=1, nodes="n[1-4]", node_count=4, children="b[1-2]"),
    ],
    block_sizes=[2, 4],
)
S1 = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
S2 = "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
TOP = "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]\n"


def run(capsys, monkeypatch, *argv, **answers):
    FakeClient(**answers).install(monkeypatch)
    return run_body(capsys, "scontrol", body, *argv)


@pytest.mark.parametrize(
    ("words", "expected"),
    [((), S1 + S2 + TOP), (("s2",), S2), (("n3",), S2 + TOP), (("node=n1",), S1 + TOP), (("unit=top",), TOP)],
)
def test_topology(capsys, monkeypatch, words, expected):
    assert run(capsys, monkeypatch, "show", "topology", *words, ShowTopology=TREE) == (0, expected, "")


def test_blocks(capsys, monkeypatch):
    expected = (
        "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
        "BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
        "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=4\n"
    )
    assert run(capsys, monkeypatch, "show", "topology", ShowTopology=BLOCKS) == (0, expected, "")


def test_the_length_of_lines_is_a_variables(capsys, monkeypatch):
    whole = run(capsys, monkeypatch, "show", "topology", ShowTopology=TREE)[1]
    monkeypatch.setenv("SLURM_TOPO_LEN", "12")
    _, shown, _ = run(capsys, monkeypatch, "show", "topology", ShowTopology=TREE)
    assert shown == "".join(f"{line[:12]}\n" for line in whole.splitlines())
    monkeypatch.setenv("SLURM_TOPO_LEN", "many")
    assert run(capsys, monkeypatch, "show", "topology", ShowTopology=TREE)[1] == whole


def test_topology_of_nothing(capsys, monkeypatch):
    flat = pb.ShowTopologyReply(kind="flat")
    assert run(capsys, monkeypatch, "show", "topology", ShowTopology=flat) == (
        0,
        "",
        "scontrol: error: No topology information available\n",
    )
    assert run(capsys, monkeypatch, "show", "topoconf", ShowTopology=flat) == (0, "", "")
    text = "scontrol: error: Topology information contains no switch or node named n9\n"
    assert run(capsys, monkeypatch, "show", "topology", "n9", ShowTopology=TREE) == (1, "", text)


def test_topoconf(capsys, monkeypatch):
    tree = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=top Switches=s[1-2]\n"
    assert run(capsys, monkeypatch, "show", "topoconf", ShowTopology=TREE) == (0, tree, "")
    blocks = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n"
    assert run(capsys, monkeypatch, "show", "topoconf", ShowTopology=BLOCKS) == (0, blocks, "")


LICENSES = pb.ListLicensesReply(
    licenses=[pb.LicenseInfo(name="matlab", total=10, used=2, reserved=3), pb.LicenseInfo(name="idl", total=1)]
)
MATLAB = "LicenseName=matlab\n    Total=10 Used=2 Free=8 Reserved=3 Remote=no\n"
IDL = "LicenseName=idl\n    Total=1 Used=0 Free=1 Reserved=0 Remote=no\n"
#: A hierarchical resource: an entry for each layer.
LAYERS = """\
LicenseName=flat
    Total=20 Used=2 Free=18 Reserved=0 Remote=no
    LayerName=top Nodes=n[1-4] Mode=2 DisableHRES=false DisableLayer=false ConfTotal=24 BaseUsage=4
    Base=disks:3,fans:1
LicenseName=flat
    Total=INFINITE Used=0 Free=INFINITE Reserved=0 Remote=no
    LayerName=low Nodes=(null) Mode=2 DisableHRES=false DisableLayer=false ConfTotal=INFINITE BaseUsage=0
    Base=(null)
"""


def test_licenses(capsys, monkeypatch):
    assert run(capsys, monkeypatch, "show", "licenses", ListLicenses=LICENSES) == (0, IDL + MATLAB, "")
    assert run(capsys, monkeypatch, "show", "lic", "idl", ListLicenses=LICENSES) == (0, IDL, "")
    one_line = MATLAB.replace("\n    ", " ")
    assert run(capsys, monkeypatch, "-o", "show", "license", "matlab", ListLicenses=LICENSES) == (0, one_line, "")
    assert run(capsys, monkeypatch, "show", "licenses", "x", ListLicenses=LICENSES) == (1, "", "License x not found\n")
    layers = pb.ListLicensesReply(
        licenses=[
            pb.LicenseInfo(
                name="flat", total=20, used=2, layer_name="top", nodes="n[1-4]", mode=2, count_configured=24,
                base=["disks:3", "fans:1"],
            ),
            pb.LicenseInfo(name="flat", layer_name="low", mode=2, count_configured=-1),
        ]
    )  # fmt: skip
    assert run(capsys, monkeypatch, "show", "license", "flat", ListLicenses=layers) == (0, LAYERS, "")
    none = pb.ListLicensesReply()
    assert run(capsys, monkeypatch, "show", "licenses", ListLicenses=none) == (
        0,
        "No licenses configured in Slurm.\n",
        "",
    )


def test_what_a_job_says_of_places():
    asked = JobRequest(
        name="j", switches_max=1, switches_wait_s=300, segment=2, prefer="b", features="a", licenses="matlab:2",
        sockets_per_node=2, cores_per_socket=4, threads_per_core=1, mincpus=8, tmp_disk_mb=2048, ntasks_per_core=1,
        ntasks_per_socket=2, time_min_s=600, deadline_at_us=1_700_000_000_000_000, exclusive_user=True,
    )  # fmt: skip
    record = job_record(pb.JobInfo(job_id=1, state="PENDING", request=asked), ShownReport(0, "%s"))
    words = " ".join(record).split(" ")
    for word in (
        "Switches=1@00:05:00", "SegmentSize=2", "Prefer=b", "Features=a", "Licenses=matlab:2", "Socks/Node=2",
        "ReqB:S:C:T=0:0:4:1", "NtasksPerN:B:S:C=0:0:2:1", "MinCPUsNode=8", "MinTmpDiskNode=2G", "TimeMin=00:10:00",
        "Deadline=1700000000", "OverSubscribe=USER",
    ):  # fmt: skip
        assert word in words
    plain = " ".join(job_record(pb.JobInfo(job_id=1, state="PENDING", request=JobRequest()), ShownReport(0))).split(" ")
    for word in (
        "ReqB:S:C:T=0:0:*:*", "Socks/Node=*", "NtasksPerN:B:S:C=0:0:*:*", "MinCPUsNode=1", "MinTmpDiskNode=0",
        "TimeMin=N/A", "Deadline=N/A", "OverSubscribe=OK", "Licenses=(null)",
    ):  # fmt: skip
        assert word in plain
    assert not any(word.startswith(("Switches=", "SegmentSize=", "Prefer=")) for word in plain)


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("HINT", "nomultithread", "threads_per_core", 1),
        ("THREADS_PER_CORE", "2", "threads_per_core", 2),
        ("SPREAD_JOB", "1", "spread_job", True),
        ("USE_MIN_NODES", "1", "use_min_nodes", True),
        ("REQ_SWITCH", "3", "switches_max", 3),
        ("SEGMENT_SIZE", "4", "segment", 4),
    ],
)
def test_variables(name, value, field, expected):
    command = Command("sbatch", "", with_environment(JOB_OPTIONS, "SBATCH_"))
    values = parse(command, [], {f"SBATCH_{name}": value}).values
    assert getattr(job_request(values), field) == expected
