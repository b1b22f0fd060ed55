"""GPUs one by one on a whole cluster of pretended ones: shown, drained by hand, not given, resumed; after a restart too."""

import json

import pytest
from livecluster import CTLD, ClusterConf, LiveCluster, load_json


def states(cluster: LiveCluster, name: str = "n1") -> list[str]:
    return [gpu.state for gpu in cluster.node(name).gpus]


def update(cluster: LiveCluster, *words: str):
    return cluster.run("scontrol", "update", "NodeName=n1", *words)


def test_a_drained_gpu_is_given_to_nobody(cluster: LiveCluster) -> None:
    first = cluster.sbatch("-w", "n1", "--gres=gpu:1", "--wrap", "sleep 300")
    cluster.wait_state(first, "RUNNING")
    update(cluster, "gres=gpu:0,gpu:2", "state=drain", "reason=loud fan").ok()
    try:
        assert states(cluster) == ["DRAINED", "HEALTHY", "DRAINED", "HEALTHY"]
        others = [cluster.sbatch("-w", "n1", "--gres=gpu:1", "--wrap", "sleep 300") for _ in range(3)]
        for job_id in others[:2]:
            cluster.wait_state(job_id, "RUNNING")
        assert cluster.job(others[2]).state == "PENDING"
        assert cluster.job(first).state == "RUNNING"  # what has it keeps it
        held = {gpu.index: list(gpu.job_ids) for gpu in cluster.node("n1").gpus}
        assert held == {0: [first], 1: [others[0]], 2: [], 3: [others[1]]}
        text = cluster.run("scontrol", "-d", "show", "node", "n1").ok().out
        assert "Gres=gpu:h200:4\n" in text and "GresDrain=gpu:h200:2(IDX:0,2)" in text
        assert "GresUsed=gpu:h200:3(IDX:0-1,3)" in text and "Health=DRAINED Jobs=(null) Why=loud fan [" in text
        listed = load_json(cluster.run("penstock", "gpus", "--json", "--state=drained"))["gpus"]
        assert [(gpu["node"], gpu["index"], gpu["reason"]) for gpu in listed] == [
            ("n1", 0, "loud fan"),
            ("n1", 2, "loud fan"),
        ]
        assert "State=MIXED " in text  # the node itself is in service
    finally:
        update(cluster, "gres=gpu", "state=resume").ok()
    cluster.wait_state(others[2], "RUNNING")
    assert states(cluster) == ["HEALTHY"] * 4


def test_what_cannot_be_done_is_said(cluster: LiveCluster) -> None:
    for words, text in (
        (("gres=gpu:9", "state=drain", "reason=x"), "gpu:9 is not on node n1; it has gpu:0 (GPU-pretended-n1-0)"),
        (("gres=gpu:1", "state=resume"), "gpu:1 of n1 is not drained"),
        (("gres=gpu:1", "state=drain"), "You must specify a reason"),
        (("gres=gpu:1", "state=down", "reason=x"), "Valid states of a GPU"),
    ):
        done = update(cluster, *words)
        assert (done.status, done.out) == (1, "") and text in done.err, str(done)
    assert states(cluster) == ["HEALTHY"] * 4


@pytest.mark.root
def test_a_user_drains_no_gpu(cluster: LiveCluster) -> None:
    done = cluster.run("scontrol", "update", "nodename=n1", "gres=gpu:1", "state=drain", "reason=x", uid=65534)
    assert done.status == 1 and "Access/permission denied" in done.err
    assert states(cluster) == ["HEALTHY"] * 4


def test_an_administrators_word_outlives_daemons(new_cluster) -> None:
    cluster = new_cluster(1, ClusterConf(gpus=2))
    uuid = cluster.node("n1").gpus[1].uuid
    update(cluster, f"gres=gpu:{uuid}", "state=drain", "reason=to be replaced").ok()
    cluster.kill(CTLD, "n1")
    cluster.start_controller()
    cluster.start_node("n1")
    cluster.wait_nodes()
    first, second = cluster.node("n1").gpus
    assert (first.state, second.state, second.reason) == ("HEALTHY", "DRAINED", "to be replaced")
    assert second.reason_user and second.since_us
    job_id = cluster.sbatch("--gres=gpu:1", "--wrap", "echo $CUDA_VISIBLE_DEVICES")
    cluster.wait_state(job_id, "COMPLETED")
    assert json.loads((cluster.work / f"slurm-{job_id}.out").read_text()) == 0
