"""Queries a step's supervisors, one on each of its nodes: its usage, its processes.

    answers = ask(client.cluster, attached, "pids")
    answers.found     node -> its answer
    answers.missing   node -> why it has none

The controller only gives the addresses and the key (AttachStep); the data do not pass through it. A node that does not
answer in time is listed as missing, so that it does not hide the others.
"""

from collections.abc import Mapping, Sequence

# Any: the answer to each question has values of its own
from typing import TYPE_CHECKING, Any, NamedTuple

from cli.steps.streamclient import StepStream, StreamEndpoint, Ticket
from cli.steps.trust import Trust
from penstock.eventloop import Loop
from penstock.values.packing import Damaged, load
from penstock.values.stepframes import FrameKind, StreamRole, frame

if TYPE_CHECKING:
    from penstock.clusterfile import ClusterFile
    from penstock.v1.steps_pb2 import AttachStepReply

ANSWER_LIMIT_S = 5.0
#: After this many refused connections in a row nothing listens: the step has just ended.
FAILURES_MAX = 4


class Answers(NamedTuple):
    """The answers of the nodes, and the nodes that did not answer."""

    found: dict[str, dict[str, Any]]
    missing: dict[str, str]


class SeriesAnswers(NamedTuple):
    """The answers of the nodes to several questions, in their order; and why a node has not answered all of them."""

    found: dict[str, list[Mapping[str, object]]]
    missing: dict[str, str]


def endpoints(attached: "AttachStepReply") -> list[StreamEndpoint]:
    """The addresses of the step's streams, in the order of its nodes."""
    index = {node: i for i, node in enumerate(attached.plan.nodes)}
    found = [
        StreamEndpoint(s.node, s.host, s.port, s.tls, index.get(s.node, i)) for i, s in enumerate(attached.streams)
    ]
    return sorted(found, key=lambda endpoint: endpoint.node_index)


def ticket(attached: "AttachStepReply", role: StreamRole) -> Ticket:
    """The secret for the step's streams."""
    return Ticket(attached.job_id, attached.attempt, attached.step_id, attached.io_key, role)


def ask(cluster: "ClusterFile", attached: "AttachStepReply", word: str, limit_s: float = ANSWER_LIMIT_S) -> Answers:
    """Queries all nodes at once and waits for all."""
    series = ask_in_turn(cluster, attached, (word,), limit_s)
    return Answers({node: dict(answers[0]) for node, answers in series.found.items()}, series.missing)


def ask_in_turn(
    cluster: "ClusterFile", attached: "AttachStepReply", words: Sequence[str], limit_s: float
) -> SeriesAnswers:
    """Asks all nodes several questions, each node on one connection, and waits for all. A node is asked the next question when it
    has answered the one before."""
    asking = _Query(words)
    loop, trust = Loop(), Trust(cluster)
    for endpoint in endpoints(attached):
        if not endpoint.port:
            asking.answers.missing[endpoint.node] = "it has no port for streams"
            continue
        asking.open[endpoint.node] = StepStream(loop, endpoint, ticket(attached, StreamRole.QUERY), trust, asking)
    for stream in list(asking.open.values()):
        stream.open()
    loop.after(limit_s, asking.give_up)
    while asking.open:
        loop.turn()
    loop.close()
    return asking.answers


class _Query:
    """The handler of all streams of one query."""

    def __init__(self, words: Sequence[str]) -> None:
        self.answers = SeriesAnswers({}, {})
        self.open: dict[str, StepStream] = {}
        self._questions = [frame(FrameKind.QUESTION, word.encode()) for word in words]
        self._reasons: dict[str, str] = {}

    def on_welcome(self, stream: StepStream) -> None:
        stream.send(self._questions[0], keep=False)

    def on_frame(self, stream: StepStream, kind: int, channel: int, task: int, payload: bytes) -> None:
        if kind != FrameKind.ANSWER:
            return
        try:
            answer = load(payload)
        except (Damaged, ValueError) as error:
            self._end(stream, f"its answer cannot be read: {error}")
            return
        if not isinstance(answer, dict):
            self._end(stream, "its answer cannot be read")
            return
        answers = self.answers.found.setdefault(stream.place.node, [])
        answers.append(answer)
        if len(answers) < len(self._questions):
            stream.send(self._questions[len(answers)], keep=False)
        else:
            self._end(stream)

    def on_broken(self, stream: StepStream, reason: str) -> None:
        self._reasons[stream.place.node] = reason
        if stream.failures >= FAILURES_MAX or stream.place.node in self.answers.found:
            self._end(stream, reason)

    def on_untrusted_peer(self, stream: StepStream, reason: str) -> None:
        self._end(stream, reason)

    def give_up(self) -> None:
        """Handles the time-out."""
        for node, stream in list(self.open.items()):
            self._end(stream, self._reasons.get(node) or "no answer in time")

    def _end(self, stream: StepStream, reason: str = "") -> None:
        node = stream.place.node
        stream.close()
        if self.open.pop(node, None) is not None and reason:
            self.answers.missing[node] = reason
