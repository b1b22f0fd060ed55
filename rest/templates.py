"""Texts of jobs that are alike: one is made as ever, those of the others from its pieces.

    for text in job_texts().parts(form, page, make, other): ...     # the texts of a page's jobs, with commas

Of thousands of jobs most differ in their id, name, times and paths alone. What is left of a job's message without these
(DIFFERENCES) is its kind. For each kind of which two jobs come there is a template: the text of a job in whose places stand
marks, which are found again in the text. Nothing here knows what an answer looks like, and a text is used only where it is
certain:

- Two sets of marks must leave the same pieces, and the template must give the job at hand the text that `make` gives it.
- Whether a value is set (not 0, nor an empty text) is part of the kind: much depends on it.
- A text with a quote, a backslash, or anything that is no printable ASCII, and a number below 0 stay in the kind.

What is computed from values (minutes of a limit; the expected start and end) is written as a sum and a divisor (ValuePlace).

Jobs are taken apart and texts filled in by fasttexts.pyx, where it was built, else here, which gives the same texts slowly.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, cast

from penstock.v1.controller_pb2 import (
    AllocationDifferences,
    GresDifferences,
    JobDifferences,
    PageItems,
    RequestDifferences,
)
from penstock.values.cpusets import numbers_of
from rest.limits import SLICE_ITEMS

if TYPE_CHECKING:
    from google.protobuf.message import Message

try:
    from rest.fasttexts import CompiledTexts
except ModuleNotFoundError as absent:
    # A compiled module that exists and cannot be imported is an error: only a missing one leads to the oracle.
    if absent.name != "rest.fasttexts":
        raise
    CompiledTexts = None  # type: ignore[assignment,misc]  # the oracle is used then

#: Kinds of jobs that are kept, each with a text of some 5 KiB.
KINDS_MAX: Final = 1024
#: Bytes of a kind; a longer one (a job on many nodes) has no template.
KIND_BYTES_MAX: Final = 4096
_SECOND_US: Final = 1_000_000
#: A command that is shown as none: it stays in the kind.
_NO_COMMAND: Final = b"(null)"
#: Printable ASCII that JSON does not escape.
_PLAIN: Final = re.compile(rb"[ !#-\[\]-~]*")
#: Marks have what a form might split a text at.
_MARK: Final = b"~%d, /|=%d~"
_NODE_MARK: Final = b"zq%d.%d"
#: What may be one of them, or a number's.
_ANY_MARK: Final = rb"~\d+, /\|=\d+~|zq\d+\.\d+|\d+"

PartValue: TypeAlias = int | bytes
PartValues: TypeAlias = tuple[PartValue, ...]
#: A job's kind: what is set of its differences, and what is left of its message.
_Kind: TypeAlias = tuple[int, bytes]
#: The name of one node.
_NODE: Final = re.compile(rb"[A-Za-z0-9._-]+")
#: Bytes of bits.
BITS_BYTES_MAX: Final = 1024
#: Makes the text of a job's message.
MakeText: TypeAlias = Callable[[bytes], bytes]


class FieldOwner(IntEnum):
    """The message that has a field: the job's, its request, or its allocation, if that is of one node."""

    JOB = 0
    REQUEST = 1
    ALLOCATION = 2


class ValueShape(IntEnum):
    """What is in a text: any, one node's name, or bits, of which a list is written."""

    TEXT = 0
    NODE = 1
    BITS = 2


class JobDifference(NamedTuple):
    """A field in which jobs of a kind differ. `largest`: of a number, one above it stays in the kind; 0 = it is no number.
    `is_optional`: 0 is a value, too."""

    name: str
    largest: int = 0
    owner: FieldOwner = FieldOwner.JOB
    is_optional: bool = False
    shape: ValueShape = ValueShape.TEXT


_NUMBER_MAX: Final = 2**32 - 1
_TIME_MAX: Final = 2**63 - 1
#: Each stands at its place among the values of a job.
DIFFERENCES: Final = (
    JobDifference("array_task_id", _NUMBER_MAX, is_optional=True),
    *(
        JobDifference(name, _NUMBER_MAX)
        for name in ("job_id", "array_job_id", "user_id", "group_id", "cpus", "nodes", "tasks", "time_limit_s")
    ),
    *(
        JobDifference(name, _TIME_MAX)
        for name in (
            "priority", "mem_mb", "submit_at_us", "eligible_at_us", "start_at_us", "end_at_us", "last_sched_at_us",
            "planned_start_at_us",
        )
    ),
    *(
        JobDifference(name)
        for name in (
            "std_out", "std_err", "std_in", "planned_node_list", "user_name", "group_name", "partition", "batch_node",
            "tres_req", "reason_detail", "dependency",
        )
    ),
    JobDifference("node_list", shape=ValueShape.NODE),
    *(JobDifference(name, _NUMBER_MAX, FieldOwner.REQUEST) for name in ("nodes_min", "ntasks")),
    JobDifference("begin_at_us", _TIME_MAX, FieldOwner.REQUEST),
    *(
        JobDifference(name, _TIME_MAX, FieldOwner.REQUEST, is_optional=True)
        for name in ("time_limit_s", "mem_per_node_mb", "mem_per_cpu_mb")
    ),
    *(
        JobDifference(name, owner=FieldOwner.REQUEST)
        for name in (
            "name", "account", "qos", "comment", "work_dir", "std_out", "std_err", "std_in", "dependency", "submit_line",
            "submit_host", "submit_dir", "command",
        )
    ),
    JobDifference("node", owner=FieldOwner.ALLOCATION),
    *(JobDifference(name, _NUMBER_MAX, FieldOwner.ALLOCATION) for name in ("cpus", "mem_mb", "tasks")),
    JobDifference("cpu_ids", owner=FieldOwner.ALLOCATION, shape=ValueShape.BITS),
)  # fmt: skip
_PLACES: Final = {one.name: place for place, one in reversed([*enumerate(DIFFERENCES)])}
_JOB_ID: Final = _PLACES["job_id"]
_LIMIT: Final = _PLACES["time_limit_s"]
_COMMAND: Final = _PLACES["command"]
_UUID: Final = GresDifferences.DESCRIPTOR.fields_by_name["uuid"].number
_CPU_IDS: Final = _PLACES["cpu_ids"]
#: Times from which others are computed.
_BASES: Final = (_PLACES["planned_start_at_us"], _PLACES["begin_at_us"])


class TakenApart(NamedTuple):
    """A job's message."""

    kind: _Kind
    values: PartValues


class ValuePlace(NamedTuple):
    """Where a value stands in a text: as it is, or a number and `more` and seconds in microseconds, divided.

    `seconds`: the place of these among the values; -1: there are none. `between`: of bits, between two of their numbers.
    """

    value: int
    more: int = 0
    seconds: int = -1
    divisor: int = 1
    between: bytes = b""

    def text(self, values: PartValues) -> bytes:
        """What stands there."""
        value = values[self.value]
        if isinstance(value, bytes):
            return self.between.join([b"%d" % bit for bit in _bits(value)]) if self.between else value
        seconds = values[self.seconds] if self.seconds >= 0 else 0
        return b"%d" % ((value + self.more + _SECOND_US * cast("int", seconds)) // self.divisor)


class TextTemplate(NamedTuple):
    """The text of all jobs of a kind: pieces, and between two of them one of the values."""

    pieces: list[bytes]
    places: list[ValuePlace]

    def filled(self, values: PartValues) -> bytes:
        """The text of one job."""
        parts = [self.pieces[0]]
        for place, piece in zip(self.places, self.pieces[1:], strict=True):
            parts += (place.text(values), piece)
        return b"".join(parts)


class JobTexts(Protocol):
    """The templates of one daemon."""

    def parts(self, form: str, page: bytes, make: MakeText, other: MakeText) -> Iterator[bytes]:
        """The texts of a page's jobs in a form of that name, some at a time, with commas between them. `make`: how the text
        of any message is made; `other`: that of one without a template."""


class PlainTexts:
    """JobTexts in Python: the oracle of fasttexts.pyx, and what is used where it was not built."""

    def __init__(self, kinds_max: int = KINDS_MAX) -> None:
        self._kinds_max = kinds_max
        self._once: OrderedDict[tuple[str, _Kind], PartValue] = OrderedDict()  # the jobs of kinds that have come once
        self._kept: OrderedDict[tuple[str, _Kind], TextTemplate | None] = OrderedDict()  # None: there can be none

    def parts(self, form: str, page: bytes, make: MakeText, other: MakeText) -> Iterator[bytes]:
        """As in JobTexts."""
        jobs = iter(PageItems.FromString(page).items)
        while part := list(islice(jobs, SLICE_ITEMS)):
            yield b",".join([self._of(form, data, make) or other(data) for data in part])

    def _of(self, form: str, data: bytes, make: MakeText) -> bytes | None:
        job = take_apart(data)
        if len(job.kind[1]) > KIND_BYTES_MAX:
            return None
        key = form, job.kind
        if key in self._kept:
            self._kept.move_to_end(key)
            template = self._kept[key]
            return template.filled(job.values) if template is not None else None
        job_id = job.values[_JOB_ID]
        if self._once.setdefault(key, job_id) == job_id:
            if len(self._once) > self._kinds_max:
                self._once.popitem(last=False)
            return None
        del self._once[key]
        text = make(data)
        self._kept[key] = template_of(data, text, make)
        if len(self._kept) > self._kinds_max:
            self._kept.popitem(last=False)
        return text


def take_apart(data: bytes) -> TakenApart:
    """Splits a job's message into its kind and its differences."""
    job = JobDifferences.FromString(data)
    owners = _owners(job)
    values: list[PartValue] = []
    found = 0
    for place, one in enumerate(DIFFERENCES):
        owner = owners.get(one.owner)
        value: PartValue = 0 if one.largest else b""
        if owner is not None and _differs(place, getattr(owner, one.name), one, owner):
            value = getattr(owner, one.name)
            found |= 1 << place
            owner.ClearField(one.name)
        values.append(value)
    for gres in job.allocation[0].gres if len(job.allocation) == 1 else ():
        gres.ClearField("uuid")  # no text shows it
    return TakenApart((found, job.SerializeToString()), tuple(values))


def _owners(job: JobDifferences) -> "dict[FieldOwner, JobDifferences | RequestDifferences | AllocationDifferences]":
    parts = {FieldOwner.ALLOCATION: job.allocation[0]} if len(job.allocation) == 1 else {}
    return {FieldOwner.JOB: job, FieldOwner.REQUEST: job.request, **parts}


def _differs(place: int, value: PartValue, one: JobDifference, owner: "Message") -> bool:
    """Whether a value is none of the kind's."""
    if not isinstance(value, bytes):
        least = 0 if one.is_optional and owner.HasField(one.name) else 1
        return least <= value <= one.largest
    if one.shape is ValueShape.BITS:
        return len(value) <= BITS_BYTES_MAX and any(value)
    form = _NODE if one.shape is ValueShape.NODE else _PLAIN
    return bool(value) and form.fullmatch(value) is not None and (place, value) != (_COMMAND, _NO_COMMAND)


def _bits(mask: bytes) -> list[int]:
    """The numbers of the bits that are set."""
    return numbers_of(int.from_bytes(mask, "little"))


def template_of(data: bytes, text: bytes, make: MakeText) -> TextTemplate | None:
    """The template of a job's kind; None = its text is none of pieces and values. `text`: the job's own."""
    job = take_apart(data)
    one, other = (_marked(job.kind, number, make) for number in (1, 2))
    if one is None or one != other:
        return None
    return one if one.filled(job.values) == text else None


def _marked(kind: _Kind, number: int, make: MakeText) -> TextTemplate | None:
    """What is found in the text of a job with marks."""
    data = _with_marks(kind, number)
    job = take_apart(data)
    if job.kind != kind:
        return None
    text = make(data)
    marks = _marks(job.values)
    if not marks:
        return TextTemplate([text], [])
    pieces: list[bytes] = []
    places: list[ValuePlace] = []
    end = 0
    for found in re.finditer(rb"(?<!\d)(?:" + b"|".join([*_lists(job.values), _ANY_MARK]) + rb")(?!\d)", text):
        place = ValuePlace(_CPU_IDS, between=found["between"]) if found.lastgroup is not None else marks.get(found[0])
        if place is None:
            continue  # a number of the kind
        places.append(place)
        pieces.append(text[end : found.start()])
        end = found.end()
    return TextTemplate([*pieces, text[end:]], places)


def _lists(values: PartValues) -> list[bytes]:
    """What a list of the marked bits looks like: the same between each two of them."""
    bits = _bits(cast("bytes", values[_CPU_IDS]))
    if not bits:
        return []
    first, second, *more = (b"%d" % bit for bit in bits)
    return [first + rb"(?P<between>.{1,80}?)" + second + b"".join(b"(?P=between)" + bit for bit in more)]


def _marks(values: PartValues) -> dict[bytes, ValuePlace]:
    """The places of a job's values, by how they are written."""
    marks: dict[bytes, ValuePlace] = {}
    for place, value in enumerate(values):
        if value and DIFFERENCES[place].shape is not ValueShape.BITS:
            marks.setdefault(ValuePlace(place).text(values), ValuePlace(place))
    computed = [ValuePlace(_LIMIT, more=59, divisor=60)]
    computed += [ValuePlace(at, divisor=_SECOND_US) for at, one in enumerate(DIFFERENCES) if one.largest == _TIME_MAX]
    computed += [ValuePlace(place, seconds=_LIMIT, divisor=_SECOND_US) for place in _BASES]
    for one in computed:
        if values[one.value]:
            marks.setdefault(one.text(values), one)
    return marks


def _with_marks(kind: _Kind, number: int) -> bytes:
    """A message of this kind with a mark in place of each difference that is set."""
    found, rest = kind
    job = JobDifferences.FromString(rest)
    owners = _owners(job)
    for place, one in enumerate(DIFFERENCES):
        if found >> place & 1:
            setattr(owners[one.owner], one.name, _mark(place, one, number))
    return job.SerializeToString()


def _mark(place: int, one: JobDifference, number: int) -> PartValue:
    if one.largest == _NUMBER_MAX:
        return 3_000_000_000 + 100_000_000 * number + 7_919 * (place + 1)
    if one.largest:
        return (5_000_000_000 + 1_000_000_000 * number + 104_729 * (place + 1)) * _SECOND_US + 654_321
    if one.shape is ValueShape.BITS:  # of one set two bits, of the other three
        mask: int = sum(1 << 4_000 + 500 * number + 17 * bit for bit in range(1 + number))
        return mask.to_bytes(BITS_BYTES_MAX, "little")
    return (_NODE_MARK if one.shape is ValueShape.NODE else _MARK) % (number, place)


def job_texts(kinds_max: int = KINDS_MAX) -> JobTexts:
    """The templates of a daemon, compiled where that was built."""
    if CompiledTexts is None:
        return PlainTexts(kinds_max)
    messages = (JobDifferences, RequestDifferences, AllocationDifferences)
    numbers = [{field.name: field.number for field in one.DESCRIPTOR.fields} for one in messages]
    return CompiledTexts(
        [(numbers[one.owner][one.name], *one[1:]) for one in DIFFERENCES],
        (numbers[0]["request"], numbers[0]["allocation"], numbers[2]["gres"], _UUID),
        _JOB_ID, _COMMAND, _NO_COMMAND, template_of, kinds_max, SLICE_ITEMS,
    )  # fmt: skip
