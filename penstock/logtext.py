"""The format of daemons' log lines: one record is one line (or some `Lines`), and no control sequence reaches the
terminal that shows it.

Messages contain texts of users and of other machines. A line break would let such a text forge a line of the log;
control characters are shown as numbers (penstock.values.text). Stack traces keep their lines.
"""

import logging
from collections.abc import Mapping, Sequence

from penstock.values.text import clean_block, clean_line_breaks


class Lines:
    """A message of several lines: each is a line of the log, with the time and level of the record."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    @property
    def facts(self) -> Sequence[Mapping[str, str | int]]:
        """The fields of each line, in a form of the log that has fields: the event first (penstock/logs/events.py)."""
        return [{}] * len(self.lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)


class CleanFormatter(logging.Formatter):
    """The formatter of all our log handlers."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Formats the line itself, or each of `Lines`."""
        shown = []
        for line in record.msg.lines if isinstance(record.msg, Lines) else (record.message,):
            record.message = clean_line_breaks(line)
            shown.append(super().formatMessage(record))
        return "\n".join(shown)

    def format(self, record: logging.LogRecord) -> str:
        """Formats the record with a stack trace, if there is one."""
        return clean_block(super().format(record))
