"""The compiled sharing of equal values against its oracle."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import _fastsched
from _fastsched import sharing, sharing_reference

NAMES = ("name", "size", "features")
REPEATED = ("line",)
#: Equal values of different types, and texts that are a new object each time.
values = st.sampled_from((0, 1, False, True, 300, 70_000, None, ("a", 1), ())) | st.text("ab", max_size=3)
records = st.lists(st.tuples(*(values for _ in (*NAMES, *REPEATED))), max_size=12)


def fresh(value: object) -> object:
    """An equal value that is another object where the language lets it be one."""
    if isinstance(value, str):
        return "".join(list(value))
    if isinstance(value, tuple):
        return tuple(list(value))
    return value if value is None or isinstance(value, bool) else int(str(value))


def record(of: tuple[object, ...]) -> SimpleNamespace:
    return SimpleNamespace(**{name: fresh(value) for name, value in zip((*NAMES, *REPEATED), of, strict=True)})


@given(records)
def test_both_share_the_same(drawn):
    """A record keeps its values; what is one object of several records is so in both."""
    usual = record((0, 0, (), ""))
    found = []
    for kind in (sharing.Sharing, sharing_reference.PlainSharing):
        known: dict[object, object] = {}
        share = kind(known, NAMES, REPEATED, usual, setattr)
        made = [record(one) for one in drawn]
        for one in made:
            share(one)
        assert [list(map(repr, vars(one).values())) for one in made] == [list(map(repr, one)) for one in drawn]
        flat = [value for one in made for value in vars(one).values()]
        numbers = {id(value): number for number, value in reversed(list(enumerate(flat)))}
        found.append(([numbers[id(value)] for value in flat], list(known)))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", [sharing.Sharing, sharing_reference.PlainSharing])
def test_only_the_neighbour_shares_what_mostly_differs(kind):
    share = kind({}, NAMES, REPEATED, record(("", 0, (), "")), setattr)
    made = [record(("n", 300, ("a",), line)) for line in ("x y", "x y", "z", "x y")]
    for one in made:
        share(one)
    first, second, _, fourth = made
    assert first.name is second.name is fourth.name and first.size is fourth.size and first.features is fourth.features
    assert first.line is second.line and first.line is not fourth.line
    usual = record(("n", 300, ("a",), ""))
    share, made = kind({}, NAMES, REPEATED, usual, setattr), [record(("n", 300, ("a",), "")) for _ in range(2)]
    for one in made:
        share(one)
    assert made[0].features is made[1].features is not usual.features, "an encoder would omit it"
    assert _fastsched.SHARING_COMPILED and _fastsched.Sharing is sharing.Sharing


@pytest.mark.parametrize("kind", [sharing.Sharing, sharing_reference.PlainSharing])
def test_an_error_is_the_callers(kind):
    """A record without a field, a value that is no key, a field that cannot be set."""

    def refuse(*_: object) -> None:
        raise RuntimeError("frozen")

    share = kind({}, NAMES, REPEATED, record(("", 0, (), "")), refuse)
    with pytest.raises(AttributeError):
        share(SimpleNamespace(name="a"))
    with pytest.raises(TypeError):
        share(SimpleNamespace(name=[], size=1, features=(), line=""))
    for name in ("other", "more"):
        share(record((name, 1, (), "c")))
    with pytest.raises(RuntimeError, match="frozen"):
        share(record(("other", 1, (), "c")))
