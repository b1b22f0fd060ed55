"""Time lines and profiles: what is added is there, within bounds; what is merged keeps times, sums and maxima; what comes
from anywhere is read or refused."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.values import timeline
from penstock.values.packing import Damaged, pack
from penstock.values.profile import (
    BYTES_MAX,
    COLUMNS,
    GPU,
    HOST,
    INFLATED_BYTES_MAX,
    LINES_MAX,
    decode_profile,
    encode_profile,
)
from penstock.values.profilefigures import GpuIdleTime, figures, gpu_time, resampled
from penstock.values.timeline import POINTS_MAX, VALUE_MAX, Point, SampleLine, decode, merged

VALUES = st.one_of(st.none(), st.integers(0, VALUE_MAX), st.integers(0, 1000))
STEPS = st.lists(st.tuples(st.integers(1, 10_000), VALUES, VALUES), max_size=60)


def line_of(steps: list[tuple[int, int | None, int | None]], bytes_max: int = timeline.BYTES_MAX) -> SampleLine:
    line, at_ds = SampleLine(2), 0
    for passed_ds, *values in steps:
        at_ds += passed_ds
        line.add(at_ds, values, bytes_max)
    return line


@given(STEPS)
def test_a_line_gives_back_what_was_added(steps: list[tuple[int, int | None, int | None]]) -> None:
    points = line_of(steps).points()
    assert [point.values for point in points] == [
        tuple(None if value is None else (value, value) for value in values) for _, *values in steps
    ]
    assert [b.at_ds - a.at_ds for a, b in zip([Point(0, ()), *points], points, strict=False)] == [s[0] for s in steps]


@given(STEPS)
def test_bytes_make_the_same_line_again(steps: list[tuple[int, int | None, int | None]]) -> None:
    line = line_of(steps)
    again = SampleLine.restored(line.data, 2)
    assert (again.data, again.count, again.at_ds) == (line.data, line.count, line.at_ds)
    at_ds = line.at_ds + 7
    for one in (line, again):
        one.add(at_ds, (5, None))
    assert again.data == line.data


def weighted(points: list[Point], column: int) -> tuple[int, int]:
    """The sum of values times their times, and the times."""
    total = lasted = since_ds = 0
    for point in points:
        value = point.values[column]
        if value is not None:
            total += value[0] * (point.at_ds - since_ds)
            lasted += point.at_ds - since_ds
        since_ds = point.at_ds
    return total, lasted


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, VALUE_MAX), st.integers(0, 9)), max_size=60),
    st.integers(0, 4),
)
def test_merging_keeps_times_sums_and_maxima(steps: list[tuple[int, int, int]], times: int) -> None:
    line = line_of([*steps])
    before = line.points()
    for _ in range(times):
        line.halve()
    after = line.points()
    assert [point.at_ds for point in after] == sorted({point.at_ds for point in after})
    assert line.count == len(after) <= len(before) >> times or len(after) <= -(-len(before) >> times) + 1
    assert (after[-1].at_ds if after else 0) == (before[-1].at_ds if before else 0)
    for column in range(2):
        old, lasted = weighted(before, column)
        new, still = weighted(after, column)
        assert still == lasted  # every moment is covered as before
        assert 2 * abs(new - old) <= times * lasted  # a mean is rounded by a half each time
        most = [max((p.values[column] or (0, 0))[1] for p in points) for points in (before, after) if points]
        assert len(set(most)) <= 1
        for point in after:
            value = point.values[column]
            assert value is not None and value[0] <= value[1]


def test_an_unknown_half_leaves_the_other() -> None:
    one, other = Point(10, ((4, 4), None, None)), Point(30, ((7, 9), (3, 5), None))
    assert merged(0, one, other) == Point(30, ((6, 9), (3, 5), None))


@given(st.integers(1, 3), st.integers(60, 2_000))
def test_a_line_never_has_more_than_its_bytes(columns: int, bytes_max: int) -> None:
    line = SampleLine(columns)
    for number in range(1, 400):
        line.add(number, [number * 7919 % 100_003] * columns, bytes_max)
        assert line.size <= bytes_max or line.count == 1
    assert line.at_ds == 399


def test_a_long_step_has_at_most_so_many_points() -> None:
    line = SampleLine(4)
    for number in range(1, 3 * POINTS_MAX):
        line.add(150 * number, (4000 + number % 7, 12_000_000, number % 2 * 4096, 0))
        assert line.count <= POINTS_MAX
    assert line.count > POINTS_MAX // 2 - 1
    assert len(encode_profile([(HOST, "", line)])) < 10_000  # a job of a day in 10 kB


def test_times_that_do_not_rise_and_values_out_of_bounds() -> None:
    line = SampleLine(1)
    for at_ds, value in ((5, -3), (5, 1), (4, 1), (0, 1), (timeline.AT_DS_MAX + 1, 1), (6, VALUE_MAX * 9)):
        line.add(at_ds, (value,))
    assert line.points() == [Point(5, ((0, 0),)), Point(6, ((VALUE_MAX, VALUE_MAX),))]


@given(st.binary(max_size=200), st.integers(1, 5))
def test_any_bytes_are_a_line_or_damaged(data: bytes, columns: int) -> None:
    try:
        points = decode(data, columns)
    except Damaged:
        return
    assert len(points) <= POINTS_MAX
    assert [p.at_ds for p in points] == sorted({p.at_ds for p in points})
    for point in points:
        assert len(point.values) == columns
        assert all(v is None or 0 <= v[0] <= v[1] <= VALUE_MAX for v in point.values)


@pytest.mark.parametrize(("data", "said"), [
    (b"\x01", "cut short"),
    (b"\x01" + b"\xff" * 9, "too long"),
    (b"\x00\x01\x00", "do not rise"),
    (b"\x01\x02\x00", "out of bounds"),  # the first mean is below 0
    (b"\x01\x01\x00" * (POINTS_MAX + 1), "more than"),
    (b"\xff\xff\xff\xff\x7f\x01\x00", "far future"),
])  # fmt: skip
def test_damaged_lines(data: bytes, said: str) -> None:
    with pytest.raises(Damaged, match=said):
        decode(data, 1)


# ---- profiles


def gpu(points: int, columns: int = len(COLUMNS[GPU])) -> SampleLine:
    line = SampleLine(columns)
    for number in range(1, points + 1):
        line.add(150 * number, [(number * 7919 + column * 104_729) % 1_000_003 for column in range(columns)])
    return line


@given(st.lists(st.tuples(st.sampled_from((HOST, GPU)), st.text("abc-0", max_size=40), st.integers(0, 9)), max_size=9))
def test_a_profile_gives_back_its_lines(lines: list[tuple[str, str, int]]) -> None:
    made = [(kind, name, gpu(points, len(COLUMNS[kind]))) for kind, name, points in lines]
    data = encode_profile(made)
    kept = [(kind, name, line.points()) for kind, name, line in made if line.count]
    assert (not data and not kept) or [tuple(one) for one in decode_profile(data)] == kept


@pytest.mark.parametrize("lines", [1, 8, 64, 1000])
def test_a_profile_is_made_coarser_until_it_fits(lines: int) -> None:
    points = 1_900 if lines <= 64 else 3
    data = encode_profile([(GPU, f"GPU-{number}", gpu(points)) for number in range(lines)])
    assert 0 < len(data) <= BYTES_MAX
    found = decode_profile(data)
    assert len(found) == min(lines, LINES_MAX)
    assert {one.points[-1].at_ds for one in found} == {150 * points}  # each covers the whole step


@given(st.binary(max_size=300))
def test_any_bytes_are_a_profile_or_damaged(data: bytes) -> None:
    for sent in (data, zlib.compress(data), zlib.compress(pack([b"1", b"host", b"", data]))):
        try:
            decode_profile(sent)
        except Damaged:
            continue


@pytest.mark.parametrize(("data", "said"), [
    (b"", "cut short"),
    (b"x" * (BYTES_MAX + 1), "more than"),
    (b"no zlib", "cannot be inflated"),
    (zlib.compress(b"\0" * (INFLATED_BYTES_MAX + 1)), "too large"),
    (zlib.compress(pack([b"2"])), "not known"),
    (zlib.compress(pack([b"1", b"gpu"])), "not known"),
    (zlib.compress(pack([b"1", b"gpu", b"\x1b[2J", b""])), "no plain text"),
    (zlib.compress(pack([b"1", b"gpu", b"\xff", b""])), "no plain text"),
    (zlib.compress(pack([b"1", b"gpu", b"x" * 97, b""])), "too long"),
    (zlib.compress(pack([b"1", b"gpu", b"", b"\0" * 100_000])), "too many bytes"),
    (zlib.compress(pack([b"1", *(b"gpu", b"", b"") * (LINES_MAX + 1)])), "not known"),
    (zlib.compress(pack([b"1"])) + b"more", "cut short"),
])  # fmt: skip
def test_damaged_profiles(data: bytes, said: str) -> None:
    with pytest.raises(Damaged, match=said):
        decode_profile(data)


def test_lines_of_a_later_version_are_left_out() -> None:
    assert decode_profile(zlib.compress(pack([b"1", b"npu", b"", b"\xff"]))) == []


# ---- figures


def test_figures_weigh_by_time() -> None:
    points = [Point(10, ((100, 200),)), Point(40, ((0, 50),)), Point(50, (None,))]
    assert figures(points, 0) == (25.0, 200, 40)
    assert figures([Point(10, (None,))], 0) is None


def test_idle_and_throttled_time_of_a_gpu() -> None:
    line = SampleLine(5)
    line.add(100, (980, None, None, None, 0))
    line.add(150, (49, None, None, None, 1000))
    line.add(350, (50, None, None, None, 0))
    line.add(900, (None, None, None, None, 1000))
    (found,) = decode_profile(encode_profile([(GPU, "GPU-1", line)]))
    assert gpu_time(found) == GpuIdleTime(known_ds=350, idle_ds=50, throttled_ds=50.0)


@given(STEPS, st.integers(1, 50))
def test_parts_have_the_means_of_their_time(steps: list[tuple[int, int | None, int | None]], bins: int) -> None:
    points = line_of([(passed, 6 if value is not None else None, None) for passed, value, _ in steps]).points()
    until_ds = points[-1].at_ds if points else 0
    found = resampled(points, 0, bins, until_ds)
    assert len(found) == bins
    assert all(one is None or (abs(one[0] - 6) < 1e-6 and one[1] == 6) for one in found)
    whole = figures(points, 0)
    assert (whole is None) == all(one is None for one in found)
