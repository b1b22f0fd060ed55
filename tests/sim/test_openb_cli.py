"""`penstock sim openb` on lists of a few lines: the protocol by hand, what is printed and written, and bad files."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from penstock.values.errors import BadValue
from sim.__main__ import main
from sim.openb import OpenbWorkload, arrivals_of, frequent_classes, make_workload, recorded_arrivals, replay, summarise
from sim.openb_files import OpenbPod, read_openb_nodes, read_openb_pods

NODES = "sn,cpu_milli,memory_mib,gpu,model\nb,64000,262144,2,T4\na,96000,393216,4,G2\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n"
    "p3,4000,1024,1,500,,LS,3,9\np1,2000,1024,2,1000,G2|T4,LS,1,5\np2,1000,512,0,0,,BE,2,\np4,4000,1024,1,500,A10,LS,4,9\n"
)


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return tmp_path


def workload_of(folder: Path) -> OpenbWorkload:
    return make_workload(read_openb_nodes(str(folder / "nodes.csv")), read_openb_pods(str(folder / "pods.csv")))


def test_what_is_read(lists: Path) -> None:
    assert [node.name for node in read_openb_nodes(str(lists / "nodes.csv"))] == ["b", "a"]
    pods = read_openb_pods(str(lists / "pods.csv"))
    assert pods[0] == OpenbPod("p3", 4000, 1024, 1, 500, "", 3, 9)
    assert pods[1].gpu_milli == 2000 and pods[2].share_milli == 0 and pods[2].deletion_s is None
    (lists / "pods.csv.gz").write_bytes(gzip.compress(PODS.encode()))
    assert read_openb_pods(str(lists / "pods.csv.gz")) == pods


def test_columns_are_in_order_of_name(lists: Path) -> None:
    workload = workload_of(lists)
    assert workload.nodes.cpu_milli.tolist() == [96_000, 64_000]
    assert workload.nodes.free_milli.tolist() == [[1000] * 4, [1000, 1000, 0, 0]]
    assert workload.gpu_milli == 6000
    assert workload.shape_milli[workload.pod_shape].tolist() == [2000, 0, 500, 500]
    masks = workload.shapes.models[workload.pod_shape].tolist()
    assert masks == [3, 2**64 - 1, 2**64 - 1, 0], "G2 or T4; any; any; a model that no node has"


def test_arrivals_reach_but_do_not_pass_the_limit(lists: Path) -> None:
    workload = workload_of(lists)
    milli = workload.shape_milli[workload.pod_shape]
    for seed in range(20):
        arrivals = arrivals_of(workload, seed)
        assert sorted(arrivals.pods[:4].tolist()) == [0, 1, 2, 3]
        assert sorted(arrivals.rank.tolist()) == [0, 1]
        # 130 % of 6000; one more GPU of a pod with two is what the study's check forgets
        assert 7800 - 1000 < milli[arrivals.pods].sum() <= 7800 + 1000


def test_too_many_pods_are_removed(lists: Path) -> None:
    (lists / "pods.csv").write_text(PODS + "".join(f"q{n},1000,512,2,1000,,LS,1,2\n" for n in range(9)))
    workload = workload_of(lists)
    arrivals = arrivals_of(workload, 3)
    assert len(set(arrivals.pods.tolist())) == len(arrivals.pods) < 13
    assert workload.shape_milli[workload.pod_shape][arrivals.pods].sum() <= 7800


def test_the_curve_by_hand(lists: Path) -> None:
    workload = workload_of(lists)
    arrivals = arrivals_of(workload, 1)._replace(pods=np.array([0, 0, 2, 3, 0, 0], np.int32))
    found = summarise(workload, arrivals, "bestfit", 1, replay(workload, arrivals, "bestfit"))
    # arrived 2000, 4000, 4500, 5000 (failed: no such model), 7000 (failed: one whole GPU is left), 9000 (beyond the curve)
    assert (found.failed_pods, found.allocated_gpu_milli) == (3, 4500)
    curve = found.allocated_curve
    assert {n: round(float(curve[n]), 2) for n in np.flatnonzero(~np.isnan(curve))} == {
        33: 33.33,
        67: 66.67,
        75: 75.0,
        83: 75.0,
        117: 75.0,
    }
    assert found.gpus_touched == 5 and len(curve) == 131


def test_the_distribution_covers_the_most_frequent(lists: Path) -> None:
    pod = read_openb_pods(str(lists / "pods.csv"))[0]
    many = [pod] * 94 + [OpenbPod("x", 1, 1, 1, 100 + n, "", None, None) for n in range(6)]
    classes = frequent_classes(many, ["G2"])
    assert classes.weight.tolist() == [94, 1], "94 are not 95 %; of the rare ones the largest request comes first"
    assert classes.share_milli.tolist() == [500, 105]
    assert sum(classes.probability) == pytest.approx(1)
    assert frequent_classes([pod], ["G2"]).weight.tolist() == [1]


def test_the_command(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["openb", "--nodes", str(lists / "nodes.csv"), "--pods", str(lists / "pods.csv"), "--seeds", "1-3"]
    files = {name: str(lists / name) for name in ("o.json", "c.csv", "p.png")}
    written = ["--out", files["o.json"], "--curves", files["c.csv"], "--picture", files["p.png"]]
    assert main([*words, "--policy", "fgd", "--policy", "steer", *written]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0].startswith("GPUs allocated, % of the cluster, mean of 3 seeds")
    assert [line.split()[0] for line in lines if line.startswith(("fgd", "steer"))] == ["fgd", "steer"] * 2
    rows = json.loads(Path(files["o.json"]).read_text())
    assert [(row["policy"], row["seed"]) for row in rows] == [(p, s) for s in (1, 2, 3) for p in ("fgd", "steer")]
    curves = Path(files["c.csv"]).read_text().splitlines()
    assert len(curves) == 1 + 2 * 6 and curves[0].startswith("policy,seed,curve,0,1,2,")
    assert Path(files["p.png"]).read_bytes().startswith(b"\x89PNG")


def test_recorded_orders(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(lists / "order.npz")
    np.savez(
        path,
        seq5=np.array([3, 0, 0], np.int16),
        rank5=np.array([1, 0], np.int16),
        seq6=[9],
        rank6=[0, 1],
        seq7=[0],
        rank7=[0, 0],
    )
    workload = workload_of(lists)
    assert recorded_arrivals(workload, path, 5).pods.tolist() == [3, 0, 0]
    for seed, said in (
        (4, "no seq4 and rank4"),
        (6, "not a row of numbers of the 4 pods"),
        (7, "not an order of the 2 nodes"),
    ):
        with pytest.raises(BadValue, match=said):
            recorded_arrivals(workload, path, seed)
    words = [
        "openb",
        "--nodes",
        str(lists / "nodes.csv"),
        "--pods",
        str(lists / "pods.csv"),
        "--seeds",
        "5",
        "--sequences",
    ]
    assert main([*words, path]) == 0
    assert main([*words, str(lists / "pods.csv")]) == 1
    assert "not an archive of numpy arrays" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "nodes.csv",
            "sn,cpu_milli,memory_mib,gpu\na,1,1,1\n",
            "nodes.csv:1: no column model; the first line must name",
        ),
        ("nodes.csv", NODES + "c,64000,262144,33,T4\n", "nodes.csv:4: 33 GPUs; a node can have 32"),
        ("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\n", "nodes.csv: no node in it"),
        ("nodes.csv", NODES + "c,64000\n", "nodes.csv:4: fewer fields than columns"),
        ("nodes.csv", "\x1f\x8bnonsense", "nodes.csv: broken gzip file"),
        ("nodes.csv", "\udcff\udcfe", "nodes.csv: not a text file"),
        ("pods.csv", PODS + "p5,-4,1024,1,500,,LS,4,9\n", "pods.csv:6: cpu_milli is '-4', which is not a number"),
        (
            "pods.csv",
            PODS + "p5,4,1024,1,1500,,LS,4,9\n",
            "pods.csv:6: gpu_milli is 1500; of each GPU a pod gets 1 to 1000",
        ),
        ("pods.csv", PODS.splitlines()[0] + "\np,1,1,0,0,,LS,1,2\n", "no pod requests a GPU"),
        ("pods.csv", None, "No such file"),
    ],
)
def test_bad_files(lists: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None, said: str) -> None:
    if text is None:
        (lists / name).unlink()
    else:
        (lists / name).write_bytes(text.encode("latin-1" if text.startswith("\x1f") else "utf-8", "surrogateescape"))
    assert main(["openb", "--nodes", str(lists / "nodes.csv"), "--pods", str(lists / "pods.csv")]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("penstock sim openb: error: ") and said in printed.err


@pytest.mark.parametrize("seeds", ["x", "3-", "5-2", "1-5000"])
def test_bad_seeds(lists: Path, capsys: pytest.CaptureFixture[str], seeds: str) -> None:
    assert main(["openb", "--nodes", "n", "--pods", "p", "--seeds", seeds]) == 2
    assert f"{seeds!r} " in capsys.readouterr().err
