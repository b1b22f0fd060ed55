"""The text of metrics is read by Prometheus' own parsers as what was said."""

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from penstock.exporter import exposition
from penstock.exporter.exposition import (
    MetricFamily,
    MetricType,
    bucket_labels,
    buckets,
    exemplar,
    gauge,
    labels,
    pieces,
)
from penstock.values.text import clean_line

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}x", fullmatch=True)
#: What a name of an account or node could hold at worst.
TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)
NUMBERS = st.one_of(st.integers(-(10**15), 10**15), st.floats())


def read(families: list[MetricFamily], is_open: bool) -> dict:
    parse = parse_open if is_open else parse_text
    found = {}
    for family in parse("".join(pieces(families, is_open))):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = (family.type, sample.value)
    return found


@given(NAMES, st.dictionaries(NAMES, TEXTS, max_size=3), NUMBERS, st.booleans())
def test_a_gauge_comes_back(name, pairs, value, is_open):
    found = read([MetricFamily(name, MetricType.GAUGE, "what \\ it\nsays", [(labels(pairs), value)])], is_open)
    kind, shown = found[name, tuple(sorted((label, clean_line(text)) for label, text in pairs.items()))]
    assert kind == "gauge" and (shown == float(value) or (math.isnan(shown) and math.isnan(value)))


@given(NAMES, st.integers(0, 10**12), st.booleans())
def test_a_counter_has_its_suffix_once(name, value, is_open):
    found = read([exposition.counter(name, "text", value)], is_open)
    assert found == {(f"{name}_total", ()): ("counter", float(value))}


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4), st.booleans())
def test_a_histogram_is_cumulative(counts, is_open):
    samples = list(buckets({"kind": "a"}, (1, 2.5, 10), counts, 7.5))
    found = read([MetricFamily("took_seconds", MetricType.HISTOGRAM, "text", samples)], is_open)
    steps = [found["took_seconds_bucket", (("kind", "a"), ("le", le))][1] for le in ("1.0", "2.5", "10.0", "+Inf")]
    assert steps == [sum(counts[: i + 1]) for i in range(4)]
    assert found["took_seconds_count", (("kind", "a"),)][1] == sum(counts)
    assert found["took_seconds_sum", (("kind", "a"),)][1] == 7.5


def test_exemplars_are_for_those_who_ask_for_openmetrics():
    samples = list(buckets({"kind": "a"}, (1, 2.5), [1, 0, 2], 7.5))
    found = {bucket_labels({"kind": "a"}, float("inf")): exemplar({"trace_id": "ab" * 16}, 3.5, 1700000000.25)}
    family = MetricFamily("took_seconds", MetricType.HISTOGRAM, "text", samples, found)
    assert "# {" not in "".join(pieces([family], False))
    [parsed] = parse_open("".join(pieces([family], True)))
    [one] = [(sample.labels["le"], sample.exemplar) for sample in parsed.samples if sample.exemplar]
    assert one[0] == "+Inf" and (one[1].labels, one[1].value) == ({"trace_id": "ab" * 16}, 3.5)
    assert float(one[1].timestamp) == 1700000000.25


def test_long_families_come_in_pieces():
    family = MetricFamily("many", MetricType.GAUGE, "text", ((labels({"n": str(i)}), i) for i in range(5000)))
    texts = list(pieces([family, gauge("one", "text", 1)], False))
    assert max(text.count("\n") for text in texts) <= exposition.PIECE_SAMPLES
    assert "".join(texts).count("\n") == 5000 + 1 + 4
