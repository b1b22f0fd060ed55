"""The loop of stepds and of srun: which handlers are called, and in which turn."""

import os

import pytest

from penstock.eventloop import READ, WRITE, Loop


@pytest.fixture
def loop():
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def pipes():
    ends = [*os.pipe(), *os.pipe()]
    yield ends
    for fd in ends:
        os.close(fd)


def at_once(loop: Loop) -> None:
    """A turn that need not wait."""
    loop.after(0, lambda: None)
    loop.turn()


def test_a_handler_hears_of_what_it_waits_for_when_it_is_called(loop, pipes):
    first, first_end, second, second_end = pipes
    heard = []

    def hear(number):
        def handler(events):
            heard.append((number, events))
            loop.change(second if number == first else first, 0)  # the other's event is of the same turn

        return handler

    loop.watch(first, hear(first))
    loop.watch(second, hear(second))
    os.write(first_end, b"x")
    os.write(second_end, b"x")
    loop.turn()
    assert len(heard) == 1 and heard[0][1] == READ


def test_what_happened_to_a_closed_descriptor_is_not_told_to_the_next_of_its_number(loop):
    told: list[int] = []
    ours, theirs = os.pipe()
    other, other_end = os.pipe()

    def replace(events):
        loop.forget(ours)
        loop.forget(other)
        spare = os.dup(theirs)  # nobody has written to what this is
        os.dup2(spare, other)
        os.close(spare)
        loop.watch(other, told.append, READ | WRITE)

    loop.watch(ours, replace)
    loop.watch(other, replace)
    os.write(theirs, b"x")
    os.write(other_end, b"x")
    loop.turn()
    assert told == []
    at_once(loop)
    assert told == [WRITE]
    for fd in (ours, theirs, other, other_end):
        os.close(fd)


def test_watching_again_changes_handler_and_events(loop, pipes):
    read, write, *_ = pipes
    old: list[object] = []
    new: list[object] = []
    loop.watch(read, old.append)
    loop.watch(write, old.append, 0)
    loop.watch(write, new.append, WRITE)
    loop.watch(read, new.append)
    at_once(loop)
    assert (old, new) == ([], [WRITE])


def test_a_regular_file_is_always_ready_until_it_is_forgotten(loop, tmp_path):
    told: list[int] = []
    with open(tmp_path / "file", "w+") as file:
        loop.watch(file.fileno(), told.append)
        loop.turn()
        loop.turn()
        loop.forget(file.fileno())
        at_once(loop)
    assert told == [READ, READ]


def test_what_a_turn_adds_is_for_the_next(loop):
    order = []

    def again():
        order.append("soon")
        if len(order) < 10:
            loop.soon(again)
            loop.after(0, lambda: order.append("timer"))

    loop.soon(again)
    loop.turn()
    assert order in (["soon"], ["soon", "timer"])
    cancelled = loop.after(0, lambda: order.append("never"))
    cancelled.cancel()
    at_once(loop)
    assert order[:1] == ["soon"] and order.count("soon") == 2 and "never" not in order


def test_an_error_is_told_without_being_asked_for(loop):
    told: list[int] = []
    read, write = os.pipe()
    loop.watch(write, told.append, 0)
    os.close(read)
    loop.turn()
    loop.forget(write)
    os.close(write)
    assert told and not told[0] & READ
