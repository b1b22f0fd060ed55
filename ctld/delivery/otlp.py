"""Spans in OTLP's protobuf form, the body of a POST to /v1/traces. Pure.

Of the protocol only what a span here has is written: some sixty lines instead of a library in the controller, whose threads and
queues have rules of their own. Tests read the result with OpenTelemetry's own messages.

Format: https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.values.tracecontext import JobTrace
from penstock.values.varint import varint

#: The type of the body.
PROTOBUF_TYPE: Final = "application/x-protobuf"
#: Of an attribute's text; a longer one is cut.
TEXT_CHARS_MAX: Final = 256
#: Encoded attributes that are kept, some 200 bytes each.
ATTRIBUTES_MAX: Final = 4_096
_INTERNAL: Final = 1  # SpanKind
_OK, _ERROR = 1, 2  # StatusCode
_NUMBER_MASK: Final = (1 << 64) - 1  # a negative number is its complement of 64 bits


class TraceSpan(NamedTuple):
    """One span. `key` is unique in its job, and names it; `parent` is the key of another one, "" = the caller's, if any."""

    trace: JobTrace
    key: str
    parent: str
    name: str
    start_at_us: int
    end_at_us: int
    attributes: Mapping[str, str | int]
    is_failure: bool | None = None  # None: the span does not tell


def encode(spans: Iterable[TraceSpan], resource: Mapping[str, str | int]) -> bytes:
    """Returns an ExportTraceServiceRequest with the spans of one resource."""
    scope = _bytes(1, _text(1, "penstock")) + b"".join(_bytes(2, _span(span)) for span in spans)
    return _bytes(1, _bytes(1, _attributes(1, resource)) + _bytes(2, scope))


def _span(span: TraceSpan) -> bytes:
    trace = span.trace
    parts = [_bytes(1, trace.trace_id), _bytes(2, trace.span_id(span.key))]
    if parent := trace.span_id(span.parent) if span.parent else trace.parent:
        parts.append(_bytes(4, parent))
    parts += [_text(5, span.name), _number(6, _INTERNAL), _time(7, span.start_at_us), _time(8, span.end_at_us)]
    parts.append(_attributes(9, span.attributes))
    if span.is_failure is not None:
        parts.append(_bytes(15, _number(3, _ERROR if span.is_failure else _OK)))
    return b"".join(parts)


def _attributes(field: int, pairs: Mapping[str, str | int]) -> bytes:
    return b"".join([_attribute(field, name, value) for name, value in pairs.items()])


@lru_cache(maxsize=ATTRIBUTES_MAX)
def _attribute(field: int, name: str, value: str | int) -> bytes:
    """Most attributes are those of the span before."""
    return _bytes(field, _text(1, name) + _bytes(2, _value(value)))


def _value(value: str | int) -> bytes:
    return _number(3, value) if isinstance(value, int) else _text(1, value[:TEXT_CHARS_MAX])


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value & _NUMBER_MASK)


def _time(field: int, at_us: int) -> bytes:
    return varint(field << 3 | 1) + (at_us * 1000).to_bytes(8, "little")


def _bytes(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "replace"))
