"""Questions to the supervisors of a step, against stand-ins for its nodes."""

from typing import Any

import pytest
from standnode import KEY, StandNode

from cli.steps.stepquery import ask
from penstock.clusterfile import ClusterFile
from penstock.v1.steps_pb2 import AttachStepReply, StepPlan, StreamAddress
from penstock.values.packing import dump
from penstock.values.stepframes import FrameKind, frame

CLUSTER = ClusterFile("c")


def attached(*nodes):
    places = [node.endpoint() for node in nodes]
    streams = [StreamAddress(node=p.node, host=p.host, port=p.port, tls=p.tls) for p in places]
    return AttachStepReply(
        job_id=12, step_id=3, plan=StepPlan(nodes=[p.node for p in places]), streams=streams, io_key=KEY
    )


def test_all_nodes_are_asked():
    answer: dict[str, Any] = {"pids": [1, 2], "tasks": [[0, 1]]}
    with StandNode("n1") as one, StandNode("n2", index=1) as two:
        for node in (one, two):
            node.play(
                frame(FrameKind.DATA, b"output that is not queried", 0, 1),
                frame(FrameKind.ANSWER, dump(answer)),
            )
        answers = ask(CLUSTER, attached(one, two), "pids")
        assert answers.found == {"n1": answer, "n2": answer}
        assert answers.missing == {}
        one.wait_for(FrameKind.QUESTION)  # it answers without having read
        assert one.of(FrameKind.QUESTION) == [b"pids"]
        assert one.greetings == [b"PENSTOCK-STEP/1 12.0.3\n"]


def test_who_does_not_answer_hides_nobody():
    with StandNode("gone") as gone:
        where = attached(gone).streams[0]
    with StandNode("n1") as node, StandNode("mute") as mute, StandNode("odd") as odd:
        node.play(frame(FrameKind.ANSWER, dump({"tasks": 1})))
        odd.play(frame(FrameKind.ANSWER, b"?"))
        reply = attached(node, mute, odd)
        reply.streams.append(where)
        reply.streams.add(node="none", port=0)
        answers = ask(CLUSTER, reply, "usage", limit_s=1.0)
    assert answers.found == {"n1": {"tasks": 1}}
    assert answers.missing.pop("odd").startswith("its answer cannot be read")
    assert answers.missing == {
        "mute": "no answer in time", "gone": "ECONNREFUSED", "none": "it has no port for streams",
    }  # fmt: skip


@pytest.mark.parametrize("answer", [dump([1]), dump(None), b""])
def test_an_answer_is_a_dictionary(answer):
    with StandNode("n1") as node:
        node.play(frame(FrameKind.ANSWER, answer))
        assert ask(CLUSTER, attached(node), "usage").missing["n1"].startswith("its answer cannot be read")
