"""Trace contexts: the grammar of W3C to the letter, and the ids of jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values.tracecontext import checked_traceparent, job_trace

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (GOOD, GOOD),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        (f"00-{TRACE}-{SPAN}-ff", GOOD),  # flags of later versions are not passed on
        (f"01-{TRACE}-{SPAN}-01", GOOD),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", GOOD),
    ],
)
def test_contexts(text: str, kept: str) -> None:
    assert checked_traceparent(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "", "00", GOOD[:-1], GOOD + "0", GOOD + "-x", GOOD + "\n", " " + GOOD, GOOD.upper(), GOOD.replace("-", "_"),
        f"ff-{TRACE}-{SPAN}-01", f"01-{TRACE}-{SPAN}-01.x", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01", f"00-{TRACE}-{SPAN}-0x", "cc" + GOOD[2:] + "-" + "x" * 1000,
        GOOD.replace("0af", "\u0660af"), GOOD.replace("-01", "-\uff10\uff11"),
    ],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    assert checked_traceparent(text) == ""


@given(st.text(max_size=80))
def test_what_is_kept_is_kept_again(text: str) -> None:
    found = checked_traceparent(text)
    assert found == "" or checked_traceparent(found) == found


def test_ids_differ_by_cluster_job_and_submission_and_in_one_trace() -> None:
    places = [("c", 1, 2), ("d", 1, 2), ("c", 2, 2), ("c", 1, 3)]
    alone = [job_trace(*place, 1) for place in places]
    below = [job_trace(*place, 1, GOOD) for place in places]
    assert len({one.trace_id for one in alone if one}) == 4
    assert {one.trace_id.hex() for one in below if one} == {TRACE} and {one.parent.hex() for one in below if one} == {
        SPAN
    }
    assert len({one.span_id("job") for one in (*alone, *below) if one}) == 4  # the same span of a job, whoever called


def test_a_caller_decides_whether_its_job_is_sampled() -> None:
    assert all(job_trace("c", number, 1, 1000, GOOD) for number in range(50))
    assert not any(job_trace("c", number, 1, 1, GOOD[:-1] + "0") for number in range(50))
    assert sum(job_trace("c", number, 1, 10) is not None for number in range(1000)) in range(50, 200)
