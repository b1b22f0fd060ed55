"""What a stepd keeps for its owner: against a plain byte string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodedaemon.base.kept import CHUNK_BYTES, SMALL_BYTES, Kept

SIZES = st.integers(1, 40) | st.sampled_from([SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, 3 * SMALL_BYTES])


def rest(kept: Kept, position: int) -> bytes:
    """Everything from a position on, as a connection reads it."""
    number, offset = kept.find(position)
    found = b""
    while number < kept.next:
        piece = bytes(kept.read(number, offset))
        found += piece
        offset += len(piece)
        if not kept.is_read(number, offset):
            assert number == kept.next - 1
            break
        number, offset = number + 1, 0
    return found


@given(st.lists(st.tuples(SIZES, st.integers(0, 100)), max_size=60))
def test_what_is_not_acknowledged_is_there(steps):
    kept, all_of_it, ends = Kept(), b"", [0]
    for number, (size, percent) in enumerate(steps):
        piece = bytes([number % 251]) * size
        kept.append(piece)
        all_of_it += piece
        ends.append(len(all_of_it))
        acknowledged = ends[len(ends) * percent // 101]
        kept.acknowledge(acknowledged)
        assert kept.end == len(all_of_it) and kept.base <= kept.acknowledged
        assert kept.size == len(all_of_it) - max(acknowledged, kept.acknowledged)
        assert kept.acknowledged - kept.base <= max(CHUNK_BYTES, size)
        for end in ends[-5:]:
            if end >= kept.base:
                assert rest(kept, end) == all_of_it[end:]


def test_what_is_dropped_counts_as_lost_once():
    kept = Kept()
    for _ in range(3):
        kept.append(b"x" * 20_000)
    kept.acknowledge(25_000)
    assert (kept.first, kept.base, kept.size) == (1, 20_000, 35_000)
    assert kept.drop_first() == 15_000
    assert (kept.base, kept.acknowledged, kept.size) == (40_000, 40_000, 20_000)
    assert kept.find(0) == (2, 0)
    kept.acknowledge(10**9)
    assert (kept.size, kept.first, kept.next) == (0, 3, 3)


@pytest.mark.parametrize("size", [1, 60, 5000])
def test_small_frames_cost_little(size):
    kept = Kept()
    for _ in range(1000):
        kept.append(b"y" * size)
    assert kept.next - kept.first <= 1 + 1000 * size // (CHUNK_BYTES - SMALL_BYTES)
