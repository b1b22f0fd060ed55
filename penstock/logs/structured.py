"""A record of the log as fields: a line of JSON for whoever ships logs, and what the journal gets.

    {"time": "2026-11-28T22:30:00.123456Z", "level": "info", "daemon": "ctld", "event": "node_registered", "message": "..."}

Each event's own fields follow (events.py names them), `job` beside a step's name, of a traced job `trace_id` and `span_id`,
and a stack trace as `exception`. Rules:

- One record is one line, whatever texts of users are in it: JSON escapes what is not ASCII, and control characters are shown
  as numbers as in the text form. Bytes that are no UTF-8 are numbers too, since strict readers of JSON refuse them.
- Values that are numbers stay numbers, so that a shipper can compare them. All texts have a limit: shippers drop longer lines.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from penstock.logs.events import OTHER, event_of
from penstock.logtext import Lines
from penstock.values.text import clean_block, clean_line_breaks

#: Characters of a message and of a stack trace, up to 12 bytes each: a line stays below the 256 KiB that Loki takes.
TEXT_CHARS_MAX: Final = 4096
#: Characters of any other field.
FIELD_CHARS_MAX: Final = 1024
_JOB_OF_STEP: Final = re.compile(r"\d+")
_encode: Final = msgspec.json.Encoder().encode
#: Several times as slow: escapes what is not ASCII.
_encode_escaped: Final = json.JSONEncoder(separators=(",", ":")).encode

LogValue = str | int | float
LogFields = dict[str, LogValue]


class SpanIds(NamedTuple):
    """The trace and the span that a line belongs to, in hexadecimal digits as OpenTelemetry has them in logs."""

    trace_id: str
    span_id: str


#: Returns the place in a trace of a line with these fields, None of one that has none.
SpanOf = Callable[[Mapping[str, LogValue]], SpanIds | None]


def no_span(fields: Mapping[str, LogValue]) -> None:
    """The place in a trace of every line, where there are no traces."""


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON, `Lines` as one each."""

    def __init__(self, daemon: str, node: str = "", span_of: SpanOf = no_span) -> None:
        super().__init__()
        self._span_of = span_of
        self._base = _encoded({"daemon": daemon, **({"node": node} if node else {})})[1:-1]
        self._daemon = daemon
        self._second = -1
        self._second_text = ""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines: what they share is encoded once."""
        head = f'{{"time":"{self._time(record.created)}","level":"{record.levelname.lower()}",{self._base},'
        return "\n".join([head + _encoded(own)[1:] for own in self._own(record)])

    def _time(self, created_s: float) -> str:
        second, us = divmod(round(created_s * 1_000_000), 1_000_000)
        if second != self._second:
            self._second = second
            self._second_text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._second_text}.{us:06d}Z"

    def _own(self, record: logging.LogRecord) -> Iterator[LogFields]:
        """Yields what the line says besides, or each of the record's `Lines`."""
        if isinstance(record.msg, Lines):
            for line, facts in zip(record.msg.lines, record.msg.facts, strict=True):
                own: LogFields = {name: _cleaned(value, FIELD_CHARS_MAX) for name, value in facts.items()}
                own.update(self._span(own))
                own["message"] = str(_cleaned(line, TEXT_CHARS_MAX))
                yield own
            return
        own = self._facts(record)
        own.update(self._span(own))
        own["message"] = _cleaned(record.getMessage(), TEXT_CHARS_MAX)
        if record.exc_info:
            own["exception"] = _valid(clean_block(self.formatException(record.exc_info)[-TEXT_CHARS_MAX:]))
        yield own

    def _span(self, facts: LogFields) -> dict[str, str]:
        ids = self._span_of(facts) if "job" in facts else None
        return ids._asdict() if ids is not None else {}

    def _facts(self, record: logging.LogRecord) -> LogFields:
        """The event and what its arguments are."""
        event = event_of(self._daemon, record.msg)
        name = str(getattr(record, "event", event.name))
        facts: LogFields = {"event": name}
        if name == OTHER:
            facts["logger"] = record.name
        arguments = record.args if isinstance(record.args, tuple) else ()
        for field, argument in zip(event.fields, arguments, strict=False):
            if field != "-" and name == event.name:
                facts[field] = _cleaned(argument, FIELD_CHARS_MAX)
        for field in ("job", "step"):
            if isinstance(text := facts.get(field), str) and (number := _JOB_OF_STEP.match(text)):
                facts["job"] = int(number[0])
        return facts


def _encoded(fields: LogFields) -> str:
    """A JSON object, in ASCII."""
    data = _encode(fields)
    return data.decode() if data.isascii() else _encode_escaped(fields)


def _cleaned(value: object, chars_max: int) -> LogValue:
    """A value as a field has it."""
    if type(value) is str and len(value) <= chars_max and value.isascii() and value.isprintable():
        return value  # nearly all are so
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value) if isinstance(value, int) else float(value)
    return clean_line_breaks(_valid(clean_block(_cut(str(value), chars_max))))


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[:chars_max]}... ({len(text)} characters)"


def _valid(text: str) -> str:
    """The text without what is not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
