"""A stream of a step, as its client sees it: against a stand-in for the node."""

import time
from pathlib import Path

import pytest
from patience import END_S
from standnode import KEY, StandNode

from cli.steps.streamclient import State, StepStream, StreamEndpoint, Ticket
from cli.steps.trust import Trust
from penstock.clusterfile import ClusterFile
from penstock.eventloop import Loop
from penstock.security.ca import create_ca, issue_to_folder
from penstock.values.packing import pack_values
from penstock.values.stepframes import FrameKind, frame

TICKET = Ticket(12, 0, 3, KEY)


class Notes:
    """A handler that records its calls."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, int, int, bytes]] = []
        self.welcomes = 0
        self.broken: list[str] = []
        self.distrust: list[str] = []

    def on_welcome(self, stream: StepStream) -> None:
        self.welcomes += 1

    def on_frame(self, stream: StepStream, kind: int, channel: int, task: int, payload: bytes) -> None:
        self.frames.append((kind, channel, task, payload))

    def on_broken(self, stream: StepStream, reason: str) -> None:
        self.broken.append(reason)

    def on_untrusted_peer(self, stream: StepStream, reason: str) -> None:
        self.distrust.append(reason)


class Bench:
    """A loop with one stream to a stand-in."""

    def __init__(self, place: StreamEndpoint, cluster: ClusterFile | None = None, ticket: Ticket = TICKET) -> None:
        self.loop = Loop()
        self.notes = Notes()
        self.stream = StepStream(self.loop, place, ticket, Trust(cluster or ClusterFile("c")), self.notes)
        self.stream.open()

    def until(self, condition) -> None:
        deadline = time.monotonic() + END_S
        guard = self.loop.after(END_S, lambda: None)
        while not condition():
            assert time.monotonic() < deadline, (self.stream.state, self.notes.frames[:5], self.notes.broken)
            self.loop.turn()
        guard.cancel()


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    authority = create_ca(tmp_path / "ca", "c", time.time_ns() // 1000)
    issue_to_folder(authority, tmp_path / "n1", "node", "n1", time.time_ns() // 1000)
    issue_to_folder(authority, tmp_path / "ctl", "controller", "n1", time.time_ns() // 1000, ("localhost",))
    return tmp_path


def cluster_of(folder: Path, name: str = "c") -> ClusterFile:
    return ClusterFile(name, ca=str(folder / "ca" / "ca.pem"))


def test_frames_come_in_order_and_the_end_is_acknowledged() -> None:
    sent = [frame(FrameKind.DATA, b"a" * n, n % 3, 1 + n % 2) for n in (0, 1, 1000, 200_000)]
    with StandNode() as node:
        node.play(*sent, frame(FrameKind.END))
        bench = Bench(node.endpoint())
        bench.until(lambda: bench.stream.state == State.ENDED)
        assert node.greetings == [b"PENSTOCK-STEP/1 12.0.3\n"]
        assert [f[3] for f in bench.notes.frames] == [b"", b"a", b"a" * 1000, b"a" * 200_000, b""]
        assert [f[2] for f in bench.notes.frames[:4]] == [0, 1, 1, 2]
        node.wait_for(FrameKind.ACK)
        assert node.of(FrameKind.ACK) == [b"%d" % len(node.said)]


def test_a_broken_connection_goes_on_where_it_was() -> None:
    sent = [frame(FrameKind.DATA, b"%d" % n, 0, 1) for n in range(1000)]
    with StandNode(cut_at=7777) as node:
        node.play(*sent, frame(FrameKind.END))
        bench = Bench(node.endpoint())
        bench.until(lambda: bench.stream.state == State.ENDED)
        assert [f[3] for f in bench.notes.frames[:-1]] == [b"%d" % n for n in range(1000)]
        assert bench.notes.welcomes == 2
        assert len(node.froms) == 2 and 7700 < node.froms[1] <= 7777


def test_frames_for_a_broken_connection_are_kept_if_they_say_something_new() -> None:
    with StandNode(cut_at=30) as node:
        node.play(frame(FrameKind.DATA, b"x" * 100, 0, 1))
        bench = Bench(node.endpoint())
        bench.until(lambda: bench.notes.broken)
        bench.stream.send(frame(FrameKind.SIGNAL, b"15"))
        bench.stream.send(frame(FrameKind.STDIN, b"lost"), keep=False)
        bench.until(lambda: bench.stream.state == State.OPEN)
        bench.until(lambda: bench.notes.frames)
        assert node.wait_for(FrameKind.SIGNAL)[3] == b"15"
        assert node.of(FrameKind.STDIN) == []


def test_nobody_listens_and_then_somebody_does() -> None:
    with StandNode() as node:
        place = node.endpoint()
    bench = Bench(place)
    bench.until(lambda: len(bench.notes.broken) >= 2)
    assert bench.notes.broken[0] == "ECONNREFUSED"
    bench.stream.close()


def test_a_node_that_does_not_know_the_step_says_so() -> None:
    with StandNode() as node:
        node.refusal = b"no such step here"
        bench = Bench(node.endpoint())
        bench.until(lambda: bench.notes.broken)
        node.refusal = b""
        bench.until(lambda: bench.notes.welcomes)
        assert bench.notes.broken[0] == "no such step here"
        bench.stream.close()


def test_a_node_proves_who_it_is(certs: Path) -> None:
    with StandNode(certs=certs / "n1") as node:
        node.play(frame(FrameKind.DATA, b"secret", 0, 1), frame(FrameKind.END))
        bench = Bench(node.endpoint(), cluster_of(certs))
        bench.until(lambda: bench.stream.state == State.ENDED)
        assert bench.notes.frames[0][3] == b"secret"


@pytest.mark.parametrize(
    ("holder", "cluster", "node", "words"),
    [
        ("n1", "c", "n2", "it has shown the certificate of penstock://c/node/n1, not of penstock://c/node/n2"),
        ("ctl", "c", "n1", "it has shown the certificate of penstock://c/controller/n1, not of penstock://c/node/n1"),
        ("n1", "other", "n1", "it has shown the certificate of penstock://c/node/n1, not of penstock://other/node/n1"),
    ],
)
def test_who_is_not_the_node_hears_no_key(certs: Path, holder: str, cluster: str, node: str, words: str) -> None:
    with StandNode(certs=certs / holder) as stand:
        bench = Bench(stand.endpoint()._replace(node=node), cluster_of(certs, cluster))
        bench.until(lambda: bench.notes.distrust)
        assert bench.notes.distrust == [words]
        assert bench.stream.state == State.ENDED
        assert stand.heard == [] and stand.froms == []


def test_another_ca_is_not_believed(certs: Path, tmp_path: Path) -> None:
    create_ca(tmp_path / "foreign" / "ca", "c", time.time_ns() // 1000)
    with StandNode(certs=certs / "n1") as stand:
        bench = Bench(stand.endpoint(), cluster_of(tmp_path / "foreign"))
        bench.until(lambda: bench.notes.distrust)
        assert bench.notes.distrust == ["certificate signature failure"]


def test_a_paused_stream_takes_nothing(certs: Path) -> None:
    with StandNode(certs=certs / "n1") as node:
        bench = Bench(node.endpoint(), cluster_of(certs))
        bench.until(lambda: bench.stream.state == State.OPEN)
        bench.stream.pause(True)
        node.play(frame(FrameKind.DATA, b"x" * 50_000, 0, 1), frame(FrameKind.END))
        bench.loop.after(0.05, lambda: None)
        bench.loop.turn()
        assert bench.notes.frames == []
        bench.stream.pause(False)
        bench.until(lambda: bench.stream.state == State.ENDED)
        assert len(bench.notes.frames) == 2


def test_what_is_no_frame_breaks_the_connection() -> None:
    with StandNode() as node:
        node.play(b"\x21\x01\x00\x00" + b"\xff" * 8)
        bench = Bench(node.endpoint())
        bench.until(lambda: bench.notes.broken)
        assert "the limit is" in bench.notes.broken[0]
        bench.stream.close()


def test_a_question_is_answered_beside_the_count() -> None:
    with StandNode() as node:
        bench = Bench(node.endpoint())
        bench.until(lambda: bench.stream.state == State.OPEN)
        bench.stream.send(frame(FrameKind.QUESTION, b"pids"))
        node.wait_for(FrameKind.QUESTION)
        node.play(frame(FrameKind.ANSWER, pack_values(1, 2)))
        bench.until(lambda: bench.notes.frames)
        assert bench.stream.counted == 0
        bench.stream.close()
