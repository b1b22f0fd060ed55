"""Spans in OTLP's protobuf form, the body of a POST to /v1/traces. Pure.

Of the protocol only what a span here has is written: some sixty lines instead of a library in the controller, whose threads and
queues have rules of their own. Tests read the result with OpenTelemetry's own messages.

Format: https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from penstock.values.tracecontext import JobTrace
from penstock.values.varint import varint

#: The type of the body.
PROTOBUF_TYPE: Final = "application/x-protobuf"
#: Of an attribute's text; a longer one is cut.
TEXT_CHARS_MAX: Final = 256
#: Encoded attributes that are kept, some 200 bytes each.
ATTRIBUTES_MAX: Final = 4_096
#: Ids that are kept, some 200 bytes each: most spans are the parent of others of their request.
IDS_MAX: Final = 4_096
_INTERNAL: Final = 1  # SpanKind
_OK, _ERROR = 1, 2  # StatusCode
_NUMBER_MASK: Final = (1 << 64) - 1  # a negative number is its complement of 64 bits
#: The tag of a field of bytes, and its length, of ids: 16 and 8 bytes.
_TRACE_ID: Final = b"\x0a\x10"
_SPAN_ID: Final = b"\x12\x08"
_PARENT_ID: Final = b"\x22\x08"
#: Fields 7 and 8, 64 bits each after its tag.
_TIMES: Final = Struct("<BQBQ")
_START_TAG: Final = 7 << 3 | 1
_END_TAG: Final = 8 << 3 | 1


#: Attributes, with their names.
SpanFacts: TypeAlias = tuple[tuple[str, str | int], ...]


class TraceSpan(NamedTuple):
    """One span. `key` is unique in its job, and names it; `parent` is the key of another one, "" = the caller's, if any.
    `job_facts`: what all spans of one row of a job say; `facts`: what this one says besides."""

    trace: JobTrace
    key: str
    parent: str
    name: str
    start_at_us: int
    end_at_us: int
    job_facts: SpanFacts
    is_failure: bool | None = None  # None: the span does not tell
    facts: SpanFacts = ()


def encode(spans: Iterable[TraceSpan], resource: Mapping[str, str | int]) -> bytes:
    """Returns an ExportTraceServiceRequest with the spans of one resource."""
    parts = [_bytes(1, _text(1, "penstock"))]  # the scope
    last: SpanFacts | None = None
    of_job = b""
    for span in spans:
        if span.job_facts is not last:  # one object is that of several spans in a row
            last = span.job_facts
            of_job = _attributes(9, last)
        parts.append(_bytes(2, _span(span, of_job)))
    return _bytes(1, _bytes(1, _attributes(1, tuple(resource.items()))) + _bytes(2, b"".join(parts)))


def _span(span: TraceSpan, of_job: bytes) -> bytes:
    trace, key, parent_key, name, start_at_us, end_at_us, _, is_failure, facts = span
    parent = _span_id(trace, parent_key) if parent_key else trace.parent
    return b"".join(
        (
            _TRACE_ID, trace.trace_id, _SPAN_ID, _span_id(trace, key), _PARENT_ID + parent if parent else b"", _named(name),
            _TIMES.pack(_START_TAG, start_at_us * 1000, _END_TAG, end_at_us * 1000), of_job,
            _kept_attributes(9, facts) if facts else b"", _STATUSES[is_failure],
        )
    )  # fmt: skip


@lru_cache(maxsize=IDS_MAX)
def _span_id(trace: JobTrace, key: str) -> bytes:
    return trace.span_id(key)


@lru_cache(maxsize=64)
def _named(name: str) -> bytes:
    """The name, of which there are ten, and the kind."""
    return _text(5, name) + _number(6, _INTERNAL)


def _attributes(field: int, facts: SpanFacts) -> bytes:
    return b"".join([_attribute(field, name, value) for name, value in facts])


#: Of most steps and attempts the same.
_kept_attributes: Final = lru_cache(maxsize=ATTRIBUTES_MAX)(_attributes)


@lru_cache(maxsize=ATTRIBUTES_MAX)
def _attribute(field: int, name: str, value: str | int) -> bytes:
    """Most attributes are those of the span before."""
    return _bytes(field, _text(1, name) + _bytes(2, _value(value)))


def _value(value: str | int) -> bytes:
    return _number(3, value) if isinstance(value, int) else _text(1, value[:TEXT_CHARS_MAX])


_varint: Final = lru_cache(maxsize=1_024)(varint)  # of tags and lengths


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + varint(value & _NUMBER_MASK)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "replace"))


_STATUSES: Final = {
    None: b"",
    False: _bytes(15, _number(3, _OK)),
    True: _bytes(15, _number(3, _ERROR)),
}
