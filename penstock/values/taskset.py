"""Sets of array task ids, kept as ranges: `0-9,12,20-30:2`.

An array of 100,000 tasks is one record, so every operation on a set takes time and memory by the number of ranges, not
of ids. A TaskSet is immutable; each operation returns a new one.

The ranges (first, last, step) are sorted, their spans do not overlap, and equal sets have equal ranges. This canonical
form is the result of one greedy pass over the sorted ids: a run is extended while the distance stays the same; two ids
form a run only if they are adjacent, three or more at any equal distance. `_Builder` makes that pass over whole ranges
at a time.

Few ids are removed in time independent of the number of ranges: the new set shares the ranges and notes the removed
ids. Its own ranges are computed when they are needed, once for all ids that have been removed one after the other.

Limits are checked on the numbers as written, before memory is allocated. Where two progressions interleave (0-9:2 with
1-9:3), ids are processed one by one; the number of these per text is limited.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappushpop, heapreplace
from math import gcd
from operator import itemgetter

from penstock.values.allowance import IDS_COST, Allowance
from penstock.values.errors import BadValue
from penstock.values.numbers import is_digits, parse_int
from penstock.values.text import shown

TASK_ID_MAX = 4_000_000  # Slurm's largest possible task id (MaxArraySize is at most one more)
TASKSET_TEXT_MAX = 32 * 1024 * 1024  # more than the worst set over all task ids needs
ARRAY_TEXT_MAX = 128 * 1024  # Linux's limit for a single argument
FEW_RANGES = 4  # sets of so few are rebuilt at once when an id is removed
FEW_IDS = 64  # sets of so many are looked up and removed id by id
INTERLEAVED_IDS_MAX = 5_000  # ids processed one by one per text: about 20 ms of work

Range = tuple[int, int, int]  # first, last (included), step; step is 1 for a single id

_first = itemgetter(0)


class _Builder:
    """Builds the canonical form of a union, from sorted ranges whose spans do not overlap."""

    __slots__ = ("_count", "_first", "_last", "_step", "ranges")

    def __init__(self) -> None:
        self.ranges: list[Range] = []
        self._first = 0
        self._last = 0
        self._step = 0
        self._count = 0

    def push(self, first: int, last: int, step: int) -> None:
        # After three ids of one distance the open run has this distance, and the rest is appended to it at once.
        for task_id in range(first, min(last, first + 2 * step) + 1, step):
            self._push_id(task_id)
        if last > self._last:
            self._count += (last - self._last) // step
            self._last = last

    def _push_id(self, task_id: int) -> None:
        distance = task_id - self._last
        if self._count == 0:
            self._first = task_id
            self._count = 1
        elif self._count == 1:
            self._step = distance
            self._count = 2
        elif distance == self._step:
            self._count += 1
        elif self._count == 2 and self._step > 1:  # two distant ids are not a run; the second may start one
            self.ranges.append((self._first, self._first, 1))
            self._first = self._last
            self._step = distance
        else:
            self.ranges.append((self._first, self._last, self._step))
            self._first = task_id
            self._count = 1
        self._last = task_id

    def done(self) -> "TaskSet":
        if self._count == 2 and self._step > 1:
            self.ranges += ((self._first, self._first, 1), (self._last, self._last, 1))
        elif self._count:
            self.ranges.append((self._first, self._last, self._step if self._count > 1 else 1))
        return TaskSet._make(tuple(self.ranges))


class TaskSet:
    """An immutable set of task ids. `TaskSet()` is empty; others are created with `parse`, `of` and the operations."""

    __slots__ = ("_count", "_holes", "_lacks", "_ranges")

    def __init__(self) -> None:
        self._ranges: tuple[Range, ...] = ()
        self._count = 0
        # Removed from `_ranges`: the first `_lacks` of these ids, each with its position. Later ones belong to sets that
        # were made from this one: they share the dict and only append to it. None = nothing.
        self._holes: dict[int, int] | None = None
        self._lacks = 0

    @classmethod
    def _make(cls, ranges: tuple[Range, ...], count: int = -1) -> "TaskSet":
        """Creates a set from ranges that are in canonical form."""
        made = cls()
        made._ranges = ranges
        made._count = count if count >= 0 else sum((last - first) // step + 1 for first, last, step in ranges)
        return made

    @classmethod
    def of(cls, ids: Iterable[int]) -> "TaskSet":
        builder = _Builder()
        for task_id in sorted(set(ids)):
            if not 0 <= task_id <= TASK_ID_MAX:
                raise BadValue(f"Invalid task id {task_id} (allowed: 0 to {TASK_ID_MAX})")
            builder.push(task_id, task_id, 1)
        return builder.done()

    @classmethod
    def parse(cls, text: str, allowance: Allowance | None = None) -> "TaskSet":
        """Parses `0-9,12,20-30:2` in any order, overlaps allowed; "" is the empty set, as `format` writes it. Raises
        BadValue.
        """
        if not text:
            return cls()
        if len(text) > TASKSET_TEXT_MAX:
            raise BadValue(f"Invalid task list: {len(text)} characters, the limit is {TASKSET_TEXT_MAX}")
        if allowance is not None:
            allowance.read(text)
            allowance.spend(text.count(","))
        return _union(_parse_items(text, TASK_ID_MAX, "task id"), INTERLEAVED_IDS_MAX, allowance)

    @property
    def ranges(self) -> tuple[Range, ...]:
        holes = self._holes
        if holes is not None:  # in one step of `list`, since another thread may read while the dict grows
            removed = TaskSet.of(list(holes)[: self._lacks])._ranges
            self._ranges = _build(_difference(self._ranges, _intersection(self._ranges, removed)))._ranges
            self._holes = None
        return self._ranges

    def __len__(self) -> int:
        return self._count

    def __contains__(self, task_id: object) -> bool:
        if not isinstance(task_id, int):
            return False
        holes = self._holes
        if holes is not None and holes.get(task_id, self._lacks) < self._lacks:
            return False
        at = bisect_right(self._ranges, task_id, key=_first) - 1
        if at < 0:
            return False
        first, last, step = self._ranges[at]
        return task_id <= last and (task_id - first) % step == 0

    def __iter__(self) -> Iterator[int]:
        for first, last, step in self.ranges:
            yield from range(first, last + 1, step)

    def __bool__(self) -> bool:
        return self._count > 0

    def __eq__(self, other: object) -> bool:
        return self.ranges == other.ranges if isinstance(other, TaskSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __repr__(self) -> str:
        return f"TaskSet({self.format()!r})"

    def first(self) -> int:
        """The lowest id. Raises IndexError if the set is empty."""
        return self.ranges[0][0]

    def last(self) -> int:
        """The highest id. Raises IndexError if the set is empty."""
        return self.ranges[-1][1]

    def without(self, task_id: int) -> "TaskSet":
        if self._holes is None and len(self._ranges) <= FEW_RANGES:  # as for an array whose tasks start in order
            return _build(_difference(self._ranges, [(task_id, task_id, 1)])) if task_id in self else self
        return self._without_few([task_id]) if task_id in self else self

    def minus(self, other: "TaskSet") -> "TaskSet":
        if len(other) <= FEW_IDS:
            common_ids = [task_id for task_id in other if task_id in self]
            return self._without_few(common_ids) if common_ids else self
        common = _intersection(self.ranges, other.ranges)
        return _build(_difference(self.ranges, common)) if common else self

    def _without_few(self, ids: list[int]) -> "TaskSet":
        """Returns the set without ids that are in it."""
        if self._holes is not None and len(self._holes) == self._lacks:
            ranges, holes = self._ranges, self._holes
        else:
            ranges, holes = self.ranges, {}
        for task_id in ids:
            holes[task_id] = len(holes)
        made = TaskSet._make(ranges, self._count - len(ids))
        made._holes = holes
        made._lacks = len(holes)
        return made

    def has_any(self, other: "TaskSet") -> bool:
        """Whether the sets have an id in common."""
        if not (self._count and other._count):
            return False
        ours, theirs = self._ranges, other._ranges
        if theirs[-1][1] < ours[0][0] or theirs[0][0] > ours[-1][1]:  # holes only narrow these bounds
            return False
        if other._count <= FEW_IDS:
            return any(task_id in self for task_id in other)
        if self._count <= FEW_IDS:
            return any(task_id in other for task_id in self)
        return bool(_intersection(self.ranges, other.ranges))

    def intersect(self, other: "TaskSet") -> "TaskSet":
        if len(other) <= FEW_IDS:
            common_ids = [task_id for task_id in other if task_id in self]
            if not common_ids:
                return TaskSet()
            return other if len(common_ids) == len(other) else _build((one, one, 1) for one in common_ids)
        if len(self) <= FEW_IDS:
            return other.intersect(self)
        return _build(_intersection(self.ranges, other.ranges))

    def union(self, other: "TaskSet") -> "TaskSet":
        if not (self and other):
            return self or other
        return _union([*self.ranges, *other.ranges], self._count + other._count)

    def pop_first(self, n: int) -> tuple[list[int], "TaskSet"]:
        """Returns the n lowest ids (all, if there are fewer) and the set without them."""
        taken: list[int] = []
        for at, (first, last, step) in enumerate(self.ranges):
            room = n - len(taken)
            if room <= 0:
                return taken, TaskSet._make(self.ranges[at:], self._count - len(taken))
            taken.extend(range(first, min(last, first + (room - 1) * step) + 1, step))
            if taken[-1] < last:
                head = (taken[-1] + step, last, step)
                rest = (head, *self.ranges[at + 1 :])
                # The rest of a run is canonical if it is long enough to be a run by itself.
                whole = last - head[0] >= (step if step == 1 else 2 * step)
                return taken, TaskSet._make(rest, self._count - len(taken)) if whole else _build(rest)
        return taken, TaskSet()

    def format(self) -> str:
        return ",".join(_format_range(*r) for r in self.ranges)


def _format_range(first: int, last: int, step: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if step == 1 else f"{first}-{last}:{step}"


def _build(ranges: Iterable[Range]) -> TaskSet:
    builder = _Builder()
    for first, last, step in ranges:
        builder.push(first, last, step)
    return builder.done()


def _intersection(ours: tuple[Range, ...], theirs: tuple[Range, ...]) -> list[Range]:
    found: list[Range] = []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        both = _common(ours[i], theirs[j])
        if both:
            found.append(both)
        if ours[i][1] <= theirs[j][1]:
            i += 1
        else:
            j += 1
    return found


def _common(a: Range, b: Range) -> Range | None:
    """Returns the ids in both progressions: again a progression, with the least common multiple as its step."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    shared = gcd(a[2], b[2])
    if low > high or (b[0] - a[0]) % shared:
        return None
    step = a[2] // shared * b[2]
    # Solve a.first + k * a.step = b.first (modulo b.step) for the smallest k.
    modulus = b[2] // shared
    k = (b[0] - a[0]) // shared * pow(a[2] // shared, -1, modulus) % modulus if modulus > 1 else 0
    first = a[0] + k * a[2]
    first += -(-(low - first) // step) * step
    if first > high:
        return None
    last = high - (high - first) % step
    return (first, last, step if last > first else 1)


def _difference(ranges: tuple[Range, ...], holes: list[Range]) -> Iterator[Range]:
    """Yields `ranges` without `holes`; each hole is part of one range, and both are sorted."""
    at = 0
    for first, last, step in ranges:
        begin = first
        while at < len(holes) and holes[at][0] <= last:
            hole_first, hole_last, hole_step = holes[at]
            if begin < hole_first:
                yield (begin, hole_first - step, step)
            if hole_first < hole_last:
                yield from _between(hole_first, hole_last, hole_step, step)
            begin = hole_last + step
            at += 1
        if begin <= last:
            yield (begin, last, step)


def _between(first: int, last: int, hole_step: int, step: int) -> Iterator[Range]:
    """Yields the ids of a progression of `step` between those of a hole of `hole_step`."""
    if hole_step == 2 * step:
        yield (first + step, last - step, hole_step)
    elif hole_step > step:
        for hole in range(first, last, hole_step):
            yield (hole + step, hole + hole_step - step, step)


def _union(ranges: list[Range], budget: int, allowance: Allowance | None = None) -> TaskSet:
    """Returns the union of ranges in any order. Raises BadValue if more than `budget` ids must be processed one by one."""
    builder = _Builder()
    heapify(ranges)
    current = heappop(ranges)
    while ranges:
        first, last, step = current
        after = ranges[0]
        if last < after[0]:
            builder.push(first, last, step)
            current = heappop(ranges)
            continue
        if after[2] % step == 0 and (after[0] - first) % step == 0:  # `after` adds nothing up to `last`
            beyond = last + 1 + (after[0] - last - 1) % after[2]
            if beyond <= after[1]:
                heapreplace(ranges, (beyond, after[1], after[2]))
            else:
                heappop(ranges)
            continue
        # Emit what precedes the next range (nothing if both start with the same id, which is then emitted once).
        cut = max(first, after[0] - 1 - (after[0] - 1 - first) % step)
        if first < after[0]:
            builder.push(first, cut, step)
        budget -= 1
        if allowance is not None:
            allowance.spend(IDS_COST)
        if budget < 0:
            raise BadValue(
                f"Invalid task list: ranges interleave at more than {INTERLEAVED_IDS_MAX} ids; use simpler ranges"
            )
        current = heappushpop(ranges, (cut + step, last, step)) if cut + step <= last else heappop(ranges)
    builder.push(*current)
    return builder.done()


def _parse_items(text: str, id_max: int, what: str) -> list[Range]:
    return [_parse_item(item, id_max, what) for item in text.split(",")]


def _parse_item(item: str, id_max: int, what: str) -> Range:
    span, colon, step_text = item.partition(":")
    low_text, dash, high_text = span.partition("-")
    if not is_digits(low_text) or (dash and not is_digits(high_text)) or (colon and not dash):
        raise BadValue(f"{shown(item)} is not a task id, a range first-last or a range with a step first-last:step")
    low = parse_int(low_text, 0, id_max, what)
    if not dash:
        return (low, low, 1)
    high = parse_int(high_text, 0, id_max, what)
    step = parse_int(step_text, 1, id_max + 1, "step of the task range") if colon else 1
    if high < low:
        raise BadValue(f"range {shown(item)} runs backwards")
    last = high - (high - low) % step
    return (low, last, step if last > low else 1)


def parse_array(text: str, max_array_size: int) -> tuple[TaskSet, int]:
    """Parses --array: the tasks, and how many may run at once (`%N`; 0 = no limit). Ids go up to max_array_size - 1."""
    try:
        if len(text) > ARRAY_TEXT_MAX:
            raise BadValue(f"{len(text)} characters, the limit is {ARRAY_TEXT_MAX}")
        ids, percent, throttle_text = text.partition("%")
        throttle = parse_int(throttle_text, 1, TASK_ID_MAX, "limit after '%'") if percent else 0
        what = f"task id (MaxArraySize is {max_array_size})"
        return _union(_parse_items(ids, max_array_size - 1, what), INTERLEAVED_IDS_MAX), throttle
    except BadValue as error:
        raise BadValue(f"Invalid job array specification: {error}") from None
