"""`penstock db dead-letters`: the events that a receiver did not take, from their file in the state folder."""

from collections.abc import Iterator
from pathlib import Path

from ctld.store.deadletters import DeadLetter, dead_letters
from penstock.values.dates import format_date
from penstock.values.text import clean_line


def letters_since(state_folder: Path, since_us: int) -> Iterator[DeadLetter]:
    """Yields those that were given up since then. Raises OSError."""
    return (letter for letter in dead_letters(state_folder) if letter.at_us >= since_us)


def text_of(letter: DeadLetter) -> str:
    """Returns a line."""
    event = f"{letter.kind} {letter.sequence}" if letter.sequence else "-"
    return clean_line(f"{format_date(letter.at_us)} {letter.receiver}: {event}: {letter.why}")
