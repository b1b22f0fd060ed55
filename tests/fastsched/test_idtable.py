"""The compiled table of ids against its oracle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import _fastsched
from _fastsched import idtable, idtable_reference

#: Few, so that moves meet; some that have the same slot in a small table, and the largest.
ids = st.integers(1, 40) | st.sampled_from([1 << 31, (1 << 32) + 7, 2**63 - 1])
moves = st.lists(st.tuples(st.sampled_from(["put", "drop"]), ids, st.integers(0, 2**31 - 1)), max_size=120)


@given(moves)
def test_both_answer_the_same(drawn):
    compiled, plain = idtable.IdTable(), idtable_reference.PlainIdTable()
    for move, key, number in drawn:
        if move == "put":
            compiled.put(key, number)
            plain.put(key, number)
        else:
            assert compiled.drop(key) == plain.drop(key)
        assert len(compiled) == len(plain)
        assert compiled.ids() == plain.ids()
        assert [compiled.get(one) for one in range(42)] == [plain.get(one) for one in range(42)]
        assert [one in compiled for one in range(42)] == [one in plain for one in range(42)]


def test_a_table_grows_and_shrinks():
    table = idtable.IdTable()
    for key in range(1, 50_001):
        table.put(key * 7, key)
    assert all(table.get(key * 7) == key for key in range(1, 50_001)) and len(table) == 50_000
    assert [table.drop(key * 7) for key in range(1, 49_991)] == list(range(1, 49_991))
    assert table.ids() == [key * 7 for key in range(49_991, 50_001)]
    assert all(table.get(key * 7) == key for key in range(49_991, 50_001))


@pytest.mark.parametrize("kind", [idtable.IdTable, idtable_reference.PlainIdTable])
@pytest.mark.parametrize(("key", "number"), [(0, 1), (-1, 1), (1, -1)])
def test_other_ids_and_numbers_are_refused(kind, key, number):
    table = kind()
    with pytest.raises(ValueError, match="out of range"):
        table.put(key, number)
    assert not len(table) and 0 not in table and table.get(0) == table.drop(0) == -1


def test_the_compiled_one_is_used():
    assert _fastsched.IDTABLE_COMPILED and _fastsched.IdTable is idtable.IdTable
