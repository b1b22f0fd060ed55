"""The rules of a request over all its attempts, as both clients follow them: no sockets, and a time that stands still."""

import pytest

from penstock.calls import (
    LIMITED_MAX_S,
    LOCAL_HINT,
    PAUSE_FIRST_S,
    PAUSE_MAX_S,
    Attempts,
    CallFailed,
    Contact,
    TryAgain,
    final_error,
)
from penstock.errors import NotKnown, PenstockError, Unreachable
from penstock.lost import MAY_BE_REPEATED, SENT_BEFORE
from penstock.values.refusals import TEXT, Code


def call_failed(status: str, number: str = "", details: str = "words", is_sent: bool = True) -> CallFailed:
    failed = CallFailed(status, details, number)
    failed.is_sent = is_sent
    return failed


def absent() -> TryAgain:
    return TryAgain(Unreachable(detail="/a: nobody listens"), seen=False)


def test_pauses_grow_to_a_second_and_end_at_the_deadline():
    attempts = Attempts("Ping", Contact(False, False), 1000.0)
    pauses = [attempts.failed(call_failed("UNAVAILABLE"), 0.0) for _ in range(12)]
    assert [one.pause_s for one in pauses] == sorted(one.pause_s for one in pauses)
    assert (pauses[0].pause_s, pauses[-1].pause_s) == (PAUSE_FIRST_S, PAUSE_MAX_S)
    assert all(one.reconnect and not one.notice for one in pauses)
    with pytest.raises(Unreachable) as caught:
        attempts.failed(call_failed("UNAVAILABLE"), 999.5)
    assert type(caught.value) is Unreachable and caught.value.detail == "words"


def test_09_a_call_that_was_cancelled_on_the_way_is_tried_again():
    """By gRPC itself, when others send it very many calls; the user has cancelled nothing."""
    attempts = Attempts("ListJobs", Contact(False, False), 10.0)
    assert attempts.failed(call_failed("CANCELLED"), 0.0).pause_s == PAUSE_FIRST_S
    with pytest.raises(Unreachable):
        attempts.failed(call_failed("CANCELLED"), 9.99)
    keyed = Attempts("SubmitJob", Contact(False, True), 10.0)
    assert keyed.failed(call_failed("CANCELLED"), 0.0).reconnect
    with pytest.raises(NotKnown):
        Attempts("UpdateJobs", Contact(False, True), 10.0).failed(call_failed("CANCELLED"), 0.0)


@pytest.mark.parametrize("is_local", [False, True])
def test_a_controller_that_nobody_has_seen_is_not_waited_for(is_local):
    contact = Contact(is_local, False)
    with pytest.raises(Unreachable) as caught:
        Attempts("Ping", contact, 10.0).failed(absent(), 0.0)
    assert caught.value.detail == "/a: nobody listens" + LOCAL_HINT * is_local
    Attempts("Ping", contact, 10.0).succeeded()
    assert Attempts("Ping", contact, 10.0).failed(absent(), 0.0).pause_s == PAUSE_FIRST_S


def test_time_that_the_controller_asks_for_does_not_count_to_the_deadline():
    attempts = Attempts("Ping", Contact(False, False), 5.0)
    limited = call_failed("RESOURCE_EXHAUSTED", str(int(Code.RATE_LIMITED)), "RPC rate limit exceeded: 30000")
    for number in range(int(LIMITED_MAX_S / 30)):
        pause = attempts.failed(limited, 0.0)
        assert (pause.pause_s, pause.reconnect) == (30.0, False) and f"limited {number + 1} time(s)" in pause.notice
    assert attempts.deadline == 5.0 + LIMITED_MAX_S
    with pytest.raises(PenstockError) as caught:
        attempts.failed(limited, 0.0)
    assert caught.value.code == Code.RATE_LIMITED


def test_a_refusal_ends_it_and_says_what_an_earlier_attempt_may_have_done():
    refused = call_failed("NOT_FOUND", str(int(Code.INVALID_JOB_ID)), "Invalid job id specified")
    with pytest.raises(PenstockError) as caught:
        Attempts("CancelJobs", Contact(False, True), 10.0).failed(refused, 0.0)
    assert (caught.value.code, caught.value.detail) == (Code.INVALID_JOB_ID, "")
    attempts = Attempts("CancelJobs", Contact(False, True), 10.0)
    attempts.failed(call_failed("UNAVAILABLE"), 0.0)
    with pytest.raises(PenstockError) as caught:
        attempts.failed(refused, 0.0)
    assert caught.value.detail == SENT_BEFORE


def test_what_would_do_more_the_second_time_is_sent_once():
    with pytest.raises(NotKnown):
        Attempts("UpdateJobs", Contact(False, True), 10.0).failed(call_failed("UNAVAILABLE"), 0.0)
    unsent = call_failed("UNAVAILABLE", is_sent=False)
    assert Attempts("UpdateJobs", Contact(False, True), 10.0).failed(unsent, 0.0).pause_s == PAUSE_FIRST_S


def test_silence_is_not_tried_again():
    with pytest.raises(NotKnown) as caught:
        Attempts("SubmitJob", Contact(False, True), 10.0).failed(call_failed("DEADLINE_EXCEEDED"), 10.0)
    assert caught.value.detail == MAY_BE_REPEATED


def test_what_is_not_tried_again_is_told_in_the_same_words():
    assert isinstance(final_error(call_failed("UNAVAILABLE")), Unreachable)
    error = final_error(call_failed("UNIMPLEMENTED"))
    assert (error.code, error.text) == (Code.NOT_SUPPORTED, TEXT[Code.NOT_SUPPORTED])
