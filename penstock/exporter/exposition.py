"""Metric families as text: Prometheus' text format 0.0.4, and OpenMetrics 1.0 for those who ask for it.

The two differ in four things: OpenMetrics names a counter's family without `_total`, has a `# EOF` at the end, forbids a
timestamp in milliseconds (none is written here), and alone has exemplars: what one observation of a bucket belongs to.
Values of labels are shown as on a terminal, where a page is read with curl: control characters and what is not UTF-8 as
numbers. Pure: families in, text out.

Formats: https://prometheus.io/docs/instrumenting/exposition_formats/ and https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import isinf, isnan
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock.values.text import clean_line

#: Samples of one piece of text: about a millisecond's work.
PIECE_SAMPLES: Final = 2_000
TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
#: The value of a label that stands for all that are over a limit.
OTHER: Final = "other"

MetricValue = int | float
#: The labels of a sample as text, as `labels` returns it, and its value.
MetricSample = tuple[str, MetricValue]

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})  # of the help in OpenMetrics, too


class MetricType(StrEnum):
    """Types of families."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class MetricFamily(NamedTuple):
    """One metric with its samples. `name` is that of a counter without `_total`. The samples of a histogram have the
    suffix of their series before the labels; `exemplars`: the text of some, by the text of their samples' labels."""

    name: str
    kind: MetricType
    help: str
    samples: Iterable[MetricSample]
    exemplars: Mapping[str, str] = MappingProxyType({})


def labels(pairs: Mapping[str, str]) -> str:
    """Returns `{name="value",...}`, with the values cleaned and escaped; "" without labels."""
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{clean_line(value).translate(_ESCAPES)}"' for name, value in pairs.items()) + "}"


def gauge(name: str, help_text: str, value: MetricValue) -> MetricFamily:
    """Returns a gauge with one sample without labels."""
    return MetricFamily(name, MetricType.GAUGE, help_text, (("", value),))


def counter(name: str, help_text: str, value: MetricValue) -> MetricFamily:
    """Returns a counter with one sample without labels."""
    return MetricFamily(name, MetricType.COUNTER, help_text, (("", value),))


def bucket_labels(pairs: Mapping[str, str], bound: float) -> str:
    """Returns what the sample of a histogram's bucket has as its labels."""
    return "_bucket" + labels({**pairs, "le": number(bound)})


def exemplar(pairs: Mapping[str, str], value: MetricValue, at_s: float) -> str:
    """Returns an observation as an exemplar: its labels (128 characters at most, says OpenMetrics), value and time."""
    return f"{labels(pairs)} {number(value)} {at_s:.3f}"


def buckets(
    pairs: Mapping[str, str], bounds: Sequence[MetricValue], counts: Sequence[int], total: MetricValue
) -> Iterator[MetricSample]:
    """Yields the samples of one histogram. `counts`: of each bucket alone, one more than `bounds`; `total`: the sum of
    the observations."""
    sofar = 0
    for bound, count in zip((*bounds, float("inf")), counts, strict=True):
        sofar += count
        yield bucket_labels(pairs, float(bound)), sofar
    yield "_sum" + labels(pairs), total
    yield "_count" + labels(pairs), sofar


def number(value: MetricValue) -> str:
    """Formats a value."""
    if isinstance(value, int):
        return str(value)
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def pieces(families: Iterable[MetricFamily], is_open: bool) -> Iterator[str]:
    """Yields the text in pieces of at most PIECE_SAMPLES samples. `is_open`: as OpenMetrics."""
    for family in families:
        series = f"{family.name}_total" if family.kind is MetricType.COUNTER else family.name
        head = family.name if is_open else series
        lines = [f"# HELP {head} {family.help.translate(_ESCAPES if is_open else _HELP_ESCAPES)}\n"]
        lines.append(f"# TYPE {head} {family.kind.value}\n")
        for labelled, value in family.samples:
            more = family.exemplars.get(labelled) if is_open else None
            lines.append(f"{series}{labelled} {number(value)}{f' # {more}' if more else ''}\n")
            if len(lines) >= PIECE_SAMPLES:
                yield "".join(lines)
                lines.clear()
        yield "".join(lines)
    if is_open:
        yield "# EOF\n"


_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


def is_open_wanted(accept: str) -> bool:
    """Whether an Accept header asks for OpenMetrics. Prometheus lists what it prefers first."""
    return "application/openmetrics-text" in accept.lower()
