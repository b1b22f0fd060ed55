"""Blobs of nodes brought together: whatever their sizes, in whatever order they come, once or twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values import exchange
from penstock.values.stepframes import PAYLOAD_BYTES_MAX


@given(st.lists(st.binary(max_size=100), max_size=6))
def test_what_is_joined_is_split(blobs: list[bytes]) -> None:
    assert exchange.split(exchange.join(blobs)) == blobs


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.randoms(use_true_random=False), st.booleans())
def test_all_nodes_get_all_blobs(sizes: list[int], random, again: bool) -> None:
    hub = exchange.Hub(len(sizes))
    joiners = [exchange.Joiner() for _ in sizes]
    for round_ in range(3):
        blobs = [bytes([round_, at]) * (size * 50_000) for at, size in enumerate(sizes)]
        queues = [exchange.parts(round_, blob) for blob in blobs]
        if again:  # a stream broke in the middle: it is said from its beginning
            queues = [queue[:1] + queue for queue in queues]
        answers: list[bytes] = []
        while waiting := [at for at, queue in enumerate(queues) if queue]:
            node = random.choice(waiting)
            answer = hub.receive(node, queues[node].pop(0))
            assert not (answer and answers)
            answers = answer or answers
        assert answers and hub.last == answers
        assert all(len(payload) <= PAYLOAD_BYTES_MAX for payload in answers)
        for joiner in joiners:
            whole = [joiner.take(payload) for payload in (answers + answers if again else answers)]
            (joined,) = [blob for blob in whole if blob is not None]
            assert exchange.split(joined) == blobs


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\1" * 19,
        exchange.parts(1, b"early")[0],
        exchange.PART.pack(0, exchange.BLOB_BYTES_MAX + 1, 0),
        exchange.PART.pack(0, 10, 5) + b"hole",
        exchange.PART.pack(0, 2, 0) + b"too much",
    ],
)
def test_what_does_not_follow_is_refused(payload: bytes) -> None:
    with pytest.raises(exchange.BadExchange):
        exchange.Joiner().take(payload)


@pytest.mark.parametrize(
    "joined", [b"", b"\1\0\0\0", b"\1\0\0\0" + b"\3" + b"\0" * 7 + b"ab", b"\xff" * 4, b"\0\0\0\0x"]
)
def test_what_was_not_joined_is_refused(joined: bytes) -> None:
    with pytest.raises(exchange.BadExchange):
        exchange.split(joined)


def test_the_first_abort_counts() -> None:
    hub = exchange.Hub(2)
    assert hub.receive(1, exchange.abort_part(-3, b"no \xff luck")) == []
    hub.receive(0, exchange.abort_part(7, b"later"))
    assert hub.aborted == (1, -3, "no \\xff luck")
    with pytest.raises(exchange.BadExchange):
        hub.receive(0, b"\xff" * 20)
