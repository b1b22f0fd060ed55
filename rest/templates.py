"""Texts of jobs that are alike: one is made as ever, those of the others from its pieces.

    text = templates.of(form, data, make)

Of thousands of jobs most differ in their id, name, times and paths alone. What is left of a job's message without these is its
kind, as bytes. For each kind that comes twice there is a template: the text of a job in whose places stand marks, which are
found again in the text. Nothing here knows what an answer looks like, and a text is used only where it is certain:

- Two sets of marks must leave the same pieces, and the template must give the job at hand the text that `make` gives it.
- A value that is unset (0, or an empty text) is part of the kind: much depends on whether there is one.
- Texts with a quote, a backslash, or anything that is no printable ASCII are made as ever.

What is computed from several values (the start and end that are expected) is computed here by the functions that `make` uses.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, cast

from cli.base.jobids import end_at, start_at
from penstock.v1.controller_pb2 import JobDifferences, JobInfo

#: Kinds of jobs that are kept, each with a text of some 5 KiB.
KINDS_MAX: Final = 1024
#: Bytes of a kind; a longer one (a job on many nodes) has no template.
KIND_BYTES_MAX: Final = 4096
_SECOND_US: Final = 1_000_000
_NUMBERS: Final = ("job_id", "array_job_id", "priority")
_TIMES: Final = (
    "submit_at_us",
    "eligible_at_us",
    "start_at_us",
    "end_at_us",
    "last_sched_at_us",
    "planned_start_at_us",
)
_TEXTS: Final = ("std_out", "std_err", "std_in", "planned_node_list")
_REQUEST_TEXTS: Final = ("name", "work_dir", "submit_line", "command")
_OF_JOB: Final = (*_NUMBERS, *_TIMES, *_TEXTS)
#: Places of values: a task's number and the differences, of which times (the expected start and end are two more) come last;
#: then the same times in seconds.
_TIMES_FROM: Final = 1 + len(_NUMBERS) + len(_TEXTS) + len(_REQUEST_TEXTS)
_SECONDS_FROM: Final = _TIMES_FROM + 2 + len(_TIMES)
_numbers_of = attrgetter(*_NUMBERS)
_times_of = attrgetter(*_TIMES)
_files_of = attrgetter(*_TEXTS)
_texts_of = attrgetter(*_REQUEST_TEXTS)
#: What is set, as bits of a kind: the first difference has the highest.
_BITS: Final = tuple(1 << place for place in reversed(range(len(_OF_JOB) + len(_REQUEST_TEXTS))))
_BITS_OF_JOB: Final = _BITS[: len(_OF_JOB)]
_BITS_OF_REQUEST: Final = _BITS[len(_OF_JOB) :]
_HAS_TASK: Final = 1 << len(_OF_JOB) + len(_REQUEST_TEXTS)
#: A command that is shown as none.
_NO_COMMAND: Final = b"(null)"
#: Printable ASCII that JSON does not escape.
_PLAIN: Final = re.compile(rb"[ !#-\[\]-~]*")
#: Marks have what a form might split a text at.
_MARK: Final = "~%d, /|=%d~"

PartValue: TypeAlias = int | bytes
PartValues: TypeAlias = tuple[PartValue, ...]
#: A job's kind: what is set of its differences, and what is left of its message.
_Kind: TypeAlias = tuple[int, bytes]


class TakenApart(NamedTuple):
    """A job's message."""

    kind: _Kind
    values: PartValues
    is_plain: bool


class TextTemplate:
    """The text of all jobs of a kind: pieces, and between two of them one of the values."""

    def __init__(self, pieces: list[bytes], places: list[int]) -> None:
        """`places`: of the values, or of times in seconds; one less than pieces."""
        self.pieces = pieces
        self.places = places
        self._parts = [b""] * (2 * len(pieces) - 1)
        self._parts[::2] = pieces
        filled = list(zip(range(1, len(self._parts), 2), places, strict=True))
        self._filled = [(part, place) for part, place in filled if place < _SECONDS_FROM]
        self._seconds = [
            (part, place - _SECONDS_FROM + _TIMES_FROM) for part, place in filled if place >= _SECONDS_FROM
        ]

    def filled(self, values: PartValues) -> bytes:
        """The text of one job."""
        parts = self._parts.copy()
        for part, place in self._filled:
            value = values[place]
            parts[part] = value if isinstance(value, bytes) else b"%d" % value
        for part, place in self._seconds:
            parts[part] = b"%d" % (cast("int", values[place]) // _SECOND_US)
        return b"".join(parts)


class JobTemplates:
    """The templates of one daemon."""

    def __init__(self, kinds_max: int = KINDS_MAX) -> None:
        self._kinds_max = kinds_max
        self._once: OrderedDict[tuple[str, _Kind], None] = OrderedDict()  # kinds that have come once
        self._kept: OrderedDict[tuple[str, _Kind], TextTemplate | None] = OrderedDict()  # None: there can be none

    def of(self, form: str, data: bytes, make: Callable[[bytes], bytes]) -> bytes | None:
        """The text of a job's message in a form of that name; None = it has to be made. `make`: how, of any message."""
        job = take_apart(data)
        if not job.is_plain or len(job.kind[1]) > KIND_BYTES_MAX:
            return None
        key = form, job.kind
        if key in self._kept:
            self._kept.move_to_end(key)
            template = self._kept[key]
            return template.filled(job.values) if template is not None else None
        if key not in self._once:
            self._once[key] = None
            if len(self._once) > self._kinds_max:
                self._once.popitem(last=False)
            return None
        del self._once[key]
        text = make(data)
        self._kept[key] = template_of(job, text, make)
        if len(self._kept) > self._kinds_max:
            self._kept.popitem(last=False)
        return text


def take_apart(data: bytes) -> TakenApart:
    """Splits a job's message into its kind and its differences."""
    job = JobDifferences.FromString(data)
    # they read no other members than JobDifferences has
    start_us = start_at(cast("JobInfo", job))
    end_us = end_at(cast("JobInfo", job))
    request = job.request
    clear = job.ClearField
    numbers = _numbers_of(job)
    times = _times_of(job)
    files = _files_of(job)
    texts = _texts_of(request)
    if texts[-1] == _NO_COMMAND:  # it stays in the kind
        texts = (*texts[:-1], b"")
    found = 0
    for bit, name, value in zip(_BITS_OF_JOB, _OF_JOB, numbers + times + files, strict=True):
        if value:
            found |= bit
            clear(name)
    for bit, name, value in zip(_BITS_OF_REQUEST, _REQUEST_TEXTS, texts, strict=True):
        if value:
            found |= bit
            request.ClearField(name)
    task = 0
    if job.HasField("array_task_id"):
        found |= _HAS_TASK
        task = job.array_task_id
        clear("array_task_id")
    values: PartValues = (task, *numbers, *files, *texts, start_us, end_us, *times)
    return TakenApart((found, job.SerializeToString()), values, _PLAIN.fullmatch(b"".join(files + texts)) is not None)


def template_of(job: TakenApart, text: bytes, make: Callable[[bytes], bytes]) -> TextTemplate | None:
    """The template of a job's kind; None = its text is none of pieces and values. `text`: the job's own."""
    one, other = (_marked(job.kind, number, make) for number in (1, 2))
    if one is None or other is None or (one.pieces, one.places) != (other.pieces, other.places):
        return None
    return one if one.filled(job.values) == text else None


def _marked(kind: _Kind, number: int, make: Callable[[bytes], bytes]) -> TextTemplate | None:
    """What is found in the text of a job with marks."""
    data = _with_marks(kind, number)
    job = take_apart(data)
    if job.kind != kind:
        return None
    marks: dict[bytes, int] = {}
    seconds = [cast("int", at_us) // _SECOND_US for at_us in job.values[_TIMES_FROM:]]
    for place, value in enumerate((*job.values, *seconds)):
        if value:
            marks.setdefault(value if isinstance(value, bytes) else b"%d" % value, place)
    pieces: list[bytes] = []
    places: list[int] = []
    end = 0
    text = make(data)
    if not marks:
        return TextTemplate([text], [])
    for found in re.finditer(rb"(?<!\d)(?:" + b"|".join(map(re.escape, marks)) + rb")(?!\d)", text):
        places.append(marks[found[0]])
        pieces.append(text[end : found.start()])
        end = found.end()
    return TextTemplate([*pieces, text[end:]], places)


def _with_marks(kind: _Kind, number: int) -> bytes:
    """A message of this kind with a mark in place of each difference that is set."""
    found, rest = kind
    job = JobDifferences.FromString(rest)
    named = [(job, name) for name in _OF_JOB] + [(job.request, name) for name in _REQUEST_TEXTS]
    for place, (owner, name) in enumerate(reversed(named)):
        if not found >> place & 1:
            continue
        mark: PartValue
        if name in _NUMBERS:
            mark = 3_000_000_000 + 100_000_000 * number + 7_919 * (place + 1)
        elif name in _TIMES:
            mark = (5_000_000_000 + 1_000_000_000 * number + 104_729 * (place + 1)) * _SECOND_US + 654_321
        else:
            mark = (_MARK % (number, place)).encode()
        setattr(owner, name, mark)
    if found & _HAS_TASK:
        job.array_task_id = 2_900_000_000 + number
    return job.SerializeToString()
