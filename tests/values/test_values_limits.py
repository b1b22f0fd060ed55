"""Limits as text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.errors import BadValue
from penstock.values.limits import LIMITS, NO_LIMITS, OF_ASSOC, OF_QOS, LimitKind, Limits, change, from_texts, texts

_TRES = st.dictionaries(st.sampled_from(("cpu", "mem", "node", "billing", "gres/gpu", "gres/gpu:h200")),
                        st.integers(0, 10**6)).map(lambda d: tuple(sorted(d.items())))  # fmt: skip
_VALUES = {limit.field: _TRES if limit.kind is LimitKind.TRES else st.integers(-1, 10**6) for limit in LIMITS}


@given(st.builds(Limits, **{name: values for name, values in _VALUES.items() if name in Limits._fields}))
def test_texts_come_back(limits: Limits) -> None:
    assert from_texts(texts(limits)) == limits


def test_every_field_has_one_row() -> None:
    assert sorted(limit.field for limit in LIMITS) == sorted(Limits._fields)
    assert len({limit.name for limit in LIMITS}) == len(LIMITS)


def test_only_what_is_named_is_changed() -> None:
    limits = change(NO_LIMITS, OF_ASSOC["grptres"], "cpu=10,gres/gpu=4,mem=2G")
    assert limits.grp_tres == (("cpu", 10), ("gres/gpu", 4), ("mem", 2048))
    limits = change(limits, OF_ASSOC["grptres"], "cpu=-1,gres/gpu=8")
    assert limits.grp_tres == (("gres/gpu", 8), ("mem", 2048))
    assert change(limits, OF_ASSOC["grptres"], "-1") == NO_LIMITS


def test_spellings() -> None:
    assert OF_ASSOC["maxtres"] is OF_QOS["maxtrespj"] is OF_QOS["maxtresperjob"]
    assert OF_QOS["maxjobs"].field == "max_jobs_per_user" and OF_ASSOC["maxjobs"].field == "max_jobs"
    assert change(NO_LIMITS, OF_QOS["maxwall"], "1-00:00:00").max_wall_min == 1440
    assert change(NO_LIMITS, OF_QOS["maxwall"], "90").max_wall_min == 90
    assert change(NO_LIMITS, OF_QOS["maxwall"], "UNLIMITED") == NO_LIMITS


@pytest.mark.parametrize(
    ("name", "text"),
    [("grptres", "cpu"), ("grptres", "cpu=x"), ("grpjobs", "-2"), ("grpjobs", "9" * 20), ("maxwall", "soon"),
     ("grptres", "=4"), ("grptres", "cpu=1," * 200)],
)  # fmt: skip
def test_nonsense_is_refused(name: str, text: str) -> None:
    with pytest.raises(BadValue):
        change(NO_LIMITS, OF_ASSOC[name], text)
