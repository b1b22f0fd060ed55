"""The table of log events is that of the code, and docs/logs.md has it."""

import re

import pytest

from penstock.logs.events import BY_DAEMON, NAMED, OTHER, RESERVED
from tools.logevents import PACKAGES, PAGE, calls, job_words, page

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
#: The only line whose events come with it: the changes of jobs.
OF_JOBS = "ctld/runtime/logs.py"


@pytest.mark.parametrize("daemon", PACKAGES)
def test_each_line_of_a_daemon_has_an_event(daemon: str) -> None:
    table = BY_DAEMON[daemon]
    for call in calls(PACKAGES[daemon]):
        if call.event is not None:
            assert call.event in NAMED, f"{call.where}: add {call.event} to NAMED of penstock/logs/events.py"
        elif call.text is None:
            assert call.where.startswith(OF_JOBS), f"{call.where}: log a constant text, or name it by `extra`"
        else:
            assert call.text in table, (
                f"{call.where}: name this text in penstock/logs/events.py, run tools/logevents.py: {call.text}"
            )
            assert len(table[call.text].fields) == call.arguments, (
                f"{call.where}: its arguments in penstock/logs/events.py"
            )


def test_each_event_is_logged() -> None:
    logged = list(calls({package for packages in PACKAGES.values() for package in packages}))
    texts, named = {call.text for call in logged}, {call.event for call in logged}
    unused = {text for table in BY_DAEMON.values() for text in table} - texts
    assert unused == {"%d messages were dropped here: the log could not be written"}  # of the log's own thread
    assert NAMED.keys() <= named


def test_names_are_words_and_fields_are_not_those_of_each_line() -> None:
    events = {event for table in BY_DAEMON.values() for event in table.values()}
    for event in events:
        assert NAME.fullmatch(event.name) and event.name != OTHER
        assert not set(event.fields) & set(RESERVED)
        assert all(field == "-" or NAME.fullmatch(field) for field in event.fields)
    assert all(NAME.fullmatch(name) for name in job_words() | NAMED.keys())
    assert not job_words() & ({event.name for event in events} | NAMED.keys()) - {"job_not_shown"}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python tools/logevents.py"
