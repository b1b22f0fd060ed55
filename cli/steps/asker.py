"""Questions to a step's supervisors, one on each of its nodes: what it uses, which processes it has.

    answers = ask(client.cluster, attached, "pids")
    answers.found     node -> what it answered
    answers.missing   node -> why it did not

The controller only says where to ask and gives the key (AttachStep); it is not in the way of the data. A node that does
not answer in time is left out and named, so that one that is gone does not hide the others.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from cli.steps.loop import Loop
from cli.steps.streamclient import Place, Stream, Ticket
from cli.steps.trust import Trust
from penstock.values.packing import Damaged, load
from penstock.values.stepframes import Kind, Role, frame

if TYPE_CHECKING:
    from penstock.cluster import ClusterFile
    from penstock.v1.steps_pb2 import AttachStepReply

ANSWER_LIMIT_S = 5.0
#: Connections that are refused one after the other say that nobody is there: the step has just ended.
FAILURES_MAX = 4


class Answers(NamedTuple):
    """What the nodes said, and which of them did not."""

    found: dict[str, dict[str, Any]]
    missing: dict[str, str]


def places(attached: "AttachStepReply") -> list[Place]:
    """Where the step's streams are, in the order of its nodes."""
    index = {node: i for i, node in enumerate(attached.plan.nodes)}
    found = [Place(s.node, s.host, s.port, s.tls, index.get(s.node, i)) for i, s in enumerate(attached.streams)]
    return sorted(found, key=lambda place: place.node_index)


def ticket(attached: "AttachStepReply", role: Role) -> Ticket:
    """What lets one in."""
    return Ticket(attached.job_id, attached.attempt, attached.step_id, attached.io_key, role)


def ask(cluster: "ClusterFile", attached: "AttachStepReply", word: str, limit_s: float = ANSWER_LIMIT_S) -> Answers:
    """Ask all nodes at once and wait for all."""
    asking = _Asking(word)
    loop, trust = Loop(), Trust(cluster)
    for place in places(attached):
        if not place.port:
            asking.answers.missing[place.node] = "it has no port for streams"
            continue
        asking.open[place.node] = Stream(loop, place, ticket(attached, Role.ASKER), trust, asking)
    for stream in list(asking.open.values()):
        stream.open()
    loop.at(limit_s, asking.give_up)
    while asking.open:
        loop.once()
    loop.close()
    return asking.answers


class _Asking:
    """The handler of all streams of one question."""

    def __init__(self, word: str) -> None:
        self.answers = Answers({}, {})
        self.open: dict[str, Stream] = {}
        self._question = frame(Kind.QUESTION, word.encode())
        self._reasons: dict[str, str] = {}

    def on_welcome(self, stream: Stream) -> None:
        stream.send(self._question, keep=False)

    def on_frame(self, stream: Stream, kind: int, channel: int, task: int, payload: bytes) -> None:
        if kind != Kind.ANSWER:
            return
        try:
            answer = load(payload)
        except (Damaged, ValueError) as error:
            self._end(stream, f"its answer cannot be read: {error}")
            return
        if isinstance(answer, dict):
            self.answers.found[stream.place.node] = answer
            self._end(stream)
        else:
            self._end(stream, "its answer cannot be read")

    def on_broken(self, stream: Stream, reason: str) -> None:
        self._reasons[stream.place.node] = reason
        if stream.failures >= FAILURES_MAX:
            self._end(stream, reason)

    def on_distrust(self, stream: Stream, reason: str) -> None:
        self._end(stream, reason)

    def give_up(self) -> None:
        """The time is up."""
        for node, stream in list(self.open.items()):
            self._end(stream, self._reasons.get(node) or "no answer in time")

    def _end(self, stream: Stream, reason: str = "") -> None:
        node = stream.place.node
        stream.close()
        if self.open.pop(node, None) is not None and reason:
            self.answers.missing[node] = reason
