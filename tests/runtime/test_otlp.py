"""Spans as OTLP: OpenTelemetry's own messages read what is written."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ctld.delivery.otlp import TEXT_CHARS_MAX, TraceSpan, encode
from penstock.values.tracecontext import JobTrace

VALUES = st.text(max_size=400) | st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(0, 2**53)


@given(st.text(max_size=20), TIMES, TIMES, st.dictionaries(st.text(max_size=20), VALUES, max_size=4), st.booleans())
def test_all_fields_are_read_back(
    key: str, start_us: int, end_us: int, facts: dict[str, str | int], failed: bool
) -> None:
    trace = JobTrace(b"t" * 16, b"s" * 16, b"caller..")
    spans = [
        TraceSpan(trace, key, "job", "n", start_us, end_us, tuple(facts.items()), failed, (("more", 7),)),
        TraceSpan(trace, "job", "", "j", 1, 2, ()),
    ]
    sent = ExportTraceServiceRequest.FromString(encode(spans, {"service.name": "penstock"}))
    (resource,) = sent.resource_spans
    assert [(one.key, one.value.string_value) for one in resource.resource.attributes] == [("service.name", "penstock")]
    first, second = resource.scope_spans[0].spans
    assert first.trace_id == second.trace_id == b"t" * 16 and first.span_id == trace.span_id(key)
    assert first.parent_span_id == second.span_id and second.parent_span_id == b"caller.."
    assert (first.start_time_unix_nano, first.end_time_unix_nano) == (start_us * 1000, end_us * 1000)
    found = {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in first.attributes}
    said = {name: value[:TEXT_CHARS_MAX] if isinstance(value, str) else value for name, value in facts.items()}
    assert found == said | {"more": 7}
    assert first.status.code == (2 if failed else 1) and not second.HasField("status")


def test_spans_that_share_their_attributes_are_each_complete() -> None:
    """Attributes are encoded once for several spans in a row."""
    trace, other = JobTrace(b"t" * 16, b"s" * 16), JobTrace(b"u" * 16, b"v" * 16)
    facts = (("job", 1),)
    spans = [
        TraceSpan(of, key, "job", key, 1, 2, each) for of in (trace, other) for key in "ab" for each in (facts, ())
    ]
    sent = ExportTraceServiceRequest.FromString(encode(spans, {}))
    (scope,) = sent.resource_spans[0].scope_spans
    assert scope.scope.name == "penstock"
    assert [[one.key for one in span.attributes] for span in scope.spans] == [["job"], []] * 4
    assert [span.span_id for span in scope.spans] == [span.trace.span_id(span.key) for span in spans]
    assert [span.parent_span_id for span in scope.spans] == [trace.span_id("job")] * 4 + [other.span_id("job")] * 4
