"""The flight recorder: the core's initial state, every (time, event), and a digest of every batch, in a rotating local
file.

For examining the events before a failure, and for replaying them (`penstock sim replay`, sim/flight.py). It is not
essential: it is not synced, and what cannot be encoded or written turns it off with one line in the log. Scripts and
environments are not written, only their hash and sizes: the database has them, and they contain users' secrets. Everything
else of a submission is shown by `scontrol show job`, too.

A replay needs the start. A file is renamed (`flight.old.jsonl`) when a controller starts and when it is full, so the
start is available until two files have been filled since.

Format: a line of JSON for each record, [kind, now_us or sequence, content] (JSON, since masks of CPUs have more than 64
bits):
    0 = event            [0, now_us, event]
    1 = batch            [1, sequence, [jobs, steps, nodes, effects, checksum of the jobs' results]]
    2 = start            [2, now_us, {config, loaded, waiting, format}]
    3 = a seal without a batch (its scheduling pass ran nevertheless)    [3, 0, null]
    4 = waiting jobs     [4, number, [row, ...]]

Records are encoded by the loop (`sealed` queues them) and written by another thread (`write_out`): a write blocks as long
as the file system waits for its device, and the loop must not.

The compact rows of waiting jobs belong to the start, but are written after it, some at each seal: with a long queue they
take a tenth of a second and 50 MB, and the controller should answer before. They do not change meanwhile.
"""

import logging
import threading
import zlib
from collections import deque
from collections.abc import Sequence
from io import FileIO
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

from ctld.core.records.effects import Batch
from ctld.core.records.events import Event, PlanReady, StepProfiled, SubmitJob, UpdateCrontab
from ctld.core.records.job import JobRow, SpecRow
from ctld.core.records.waiting_row import is_compact
from ctld.core.recover import LoadedState
from ctld.core.state.stored import spec_bytes
from penstock.values.config import Config
from penstock.values.taskset import TaskSet

log = logging.getLogger("penstock.ctld")

#: Maximum size of a file; there are at most two (current, previous): some 400,000 events.
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
NAMES: Final = ("flight.jsonl", "flight.old.jsonl")
#: Of earlier versions, which no other reads.
NAMES_OLD: Final = ("flight.msgpack", "flight.old.msgpack")
_BUFFER_BYTES: Final = 256 * 1024
#: Maximum size of records that wait for the disk: beyond it the recorder gives up.
UNWRITTEN_BYTES_MAX: Final = 64 * 1024 * 1024
#: How long the end of the process waits for another thread's write.
FLUSH_S: Final = 2.0
#: Waiting jobs in one record: some milliseconds of the loop.
WAITING_EACH: Final = 2_000
EVENT = 0
BATCH = 1
START = 2
NOTHING = 3
WAITING = 4
#: Incremented when the format of records changes incompatibly.
FORMAT: Final = 4
#: What encoding a value may raise.
_UNENCODABLE: Final = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)


class RecordedStart(msgspec.Struct, frozen=True):
    """The inputs from which `Core` was created."""

    config: Config
    loaded: LoadedState  # without the waiting jobs that have compact rows
    waiting: int  # how many those are
    format: int = FORMAT

    def whole(self, waiting: Sequence[JobRow]) -> LoadedState:
        """Returns the loaded state with these jobs, too."""
        jobs = sorted([*self.loaded.jobs, *waiting], key=attrgetter("job_id"))
        return self.loaded._replace(jobs=jobs)


Digest = tuple[int, int, int, int, int]


def as_text(value: object) -> str:
    """Converts values that JSON does not support to text."""
    return value.format() if isinstance(value, TaskSet) else str(value)


_NO_SPEC: Final = SpecRow(b"", b"", (), ())
_encode = msgspec.json.Encoder(enc_hook=as_text).encode


def _entry(kind: int, number: int, content: object) -> bytes:
    return _encode((kind, number, content)) + b"\n"


def digest_of(batch: Batch) -> Digest:
    """Returns counts of a batch and a checksum of the jobs' end states."""
    results = _encode([(r.job_id, r.attempt, r.state, r.start_at_us, r.end_at_us) for r in batch.jobs])
    return len(batch.jobs), len(batch.steps), len(batch.nodes), len(batch.effects), zlib.crc32(results)


class FlightRecorder:
    """Writes to a folder. `folder` None records nothing.

    `start`, `event` and `sealed` belong to one thread; `write_out` may be called by any.
    """

    def __init__(self, folder: Path | None, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._folder = folder
        self._bytes_max = file_bytes_max
        self._is_on = folder is not None
        self._event_bytes = 0  # in the present file, without the start
        self._buffer = bytearray()
        self._waiting: list[JobRow] = []  # of the start, not yet encoded; the next are at the end
        self._queued: deque[bytes | bytearray] = deque()  # b"" = the file is full
        # since the start; each is changed by one thread only
        self._queued_bytes = 0
        self._written_bytes = 0
        self._file: FileIO | None = None
        self._writing = threading.Lock()
        self._spec = self._spec_sizes = _NO_SPEC  # of the last submission: the next one often has the same
        if folder is not None:
            try:
                self._begin(folder)
            except OSError as error:
                self._give_up(error)

    def start(self, now_us: int, config: Config, loaded: LoadedState) -> None:
        """Records the inputs of a new core; the record of earlier runs is renamed."""
        if not self._is_on:
            return
        if self._file is not None and self._file.tell():
            self._queue(b"")
        self._waiting = [row for row in reversed(loaded.jobs) if is_compact(row)]
        jobs = [row for row in loaded.jobs if not is_compact(row)]
        crontabs = [crontab._replace(text="") for crontab in loaded.crontabs]
        loaded = loaded._replace(jobs=jobs, crontabs=crontabs)
        self._queue(self._encoded(START, now_us, RecordedStart(config, loaded, len(self._waiting))))
        self._queue_waiting()
        self.write_out()

    def event(self, now_us: int, event: Event) -> None:
        """Records an event."""
        if not self._is_on:
            return
        if type(event) is SubmitJob:
            if event.spec is not self._spec:
                self._spec = event.spec
                self._spec_sizes = _without_content(event.spec)
            event = msgspec.structs.replace(event, spec=self._spec_sizes)
        elif type(event) is PlanReady:
            event = msgspec.structs.replace(event, forecast=None)
        elif type(event) is StepProfiled:
            event = msgspec.structs.replace(event, profile=b"")
        elif type(event) is UpdateCrontab:
            replace = msgspec.structs.replace
            entries = tuple(replace(entry, spec=_without_content(entry.spec)) for entry in event.entries)
            event = replace(event, text=None if event.text is None else "", entries=entries)
        self._buffer += self._encoded(EVENT, now_us, event)
        if len(self._buffer) > _BUFFER_BYTES:
            self._queue_buffer()

    def sealed(self, batch: Batch | None) -> bool:
        """Records the result of a seal, and queues everything for `write_out`. Returns whether that is due although
        nothing is committed: much is queued.
        """
        if not self._is_on:
            return False
        if self._waiting:
            self._queue_waiting()
        self._buffer += _NOTHING if batch is None else _entry(BATCH, batch.sequence, digest_of(batch))
        if batch is not None:
            self._queue_buffer()
        return self._queued_bytes - self._written_bytes > _BUFFER_BYTES

    def write_out(self) -> None:
        """Writes what is queued."""
        with self._writing:
            self._write_queued()

    def flush(self) -> None:
        """Writes everything, without sync: it survives this process, not this machine. Waits FLUSH_S at most for a write
        in progress.
        """
        while self._is_on and self._waiting:
            self._queue_waiting()
        self._queue_buffer()
        if self._writing.acquire(timeout=FLUSH_S):
            self._write_queued()
            self._writing.release()

    def close(self) -> None:
        """Writes the rest and closes."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _encoded(self, kind: int, number: int, content: object) -> bytes:
        try:
            return _entry(kind, number, content)
        except _UNENCODABLE as error:
            self._give_up(f"{type(content).__name__} cannot be encoded: {error}")
            return b""

    # ---- the queue -------------------------------------------------------------------------------------------------

    def _queue_waiting(self) -> None:
        rows = self._waiting[: -WAITING_EACH - 1 : -1]
        del self._waiting[-WAITING_EACH:]
        if rows:
            self._queue(self._encoded(WAITING, len(rows), rows))

    def _queue_buffer(self) -> None:
        if not self._buffer:
            return
        self._event_bytes += len(self._buffer)
        self._queue(self._buffer)
        self._buffer = bytearray()
        if self._event_bytes > self._bytes_max:
            self._event_bytes = 0
            self._queue(b"")

    def _queue(self, data: bytes | bytearray) -> None:
        if not self._is_on:  # it may just have given up
            return
        self._queued.append(data)
        self._queued_bytes += len(data)
        unwritten_bytes = self._queued_bytes - self._written_bytes
        if unwritten_bytes > UNWRITTEN_BYTES_MAX:
            self._give_up(f"{unwritten_bytes} bytes wait for the disk")

    def _give_up(self, error: object) -> None:
        log.warning("the flight recorder is off: %s", error)
        self._is_on = False
        self._waiting.clear()
        self._buffer.clear()

    # ---- the file --------------------------------------------------------------------------------------------------

    def _write_queued(self) -> None:
        try:
            while self._queued:  # no other thread takes from it
                data = self._queued.popleft()
                if not self._is_on or self._file is None:
                    continue
                if data:
                    self._file.write(data)
                    self._written_bytes += len(data)
                else:
                    self._rotate()
        except OSError as error:
            self._give_up(error)

    def _begin(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        for name in NAMES_OLD:
            (folder / name).unlink(missing_ok=True)
        self._open()

    def _rotate(self) -> None:
        assert self._folder is not None and self._file is not None
        self._file.close()
        (self._folder / NAMES[0]).replace(self._folder / NAMES[1])
        self._open()

    def _open(self) -> None:
        assert self._folder is not None
        self._file = open(self._folder / NAMES[0], "ab", buffering=0, opener=_private)  # noqa: SIM115 (kept open)


_NOTHING: Final = _entry(NOTHING, 0, None)


def _private(path: str, flags: int) -> int:
    import os

    return os.open(path, flags, 0o600)


def _without_content(spec: SpecRow) -> SpecRow:
    """Returns the same hash with sizes in place of content."""
    size = sum(map(len, spec.environment))
    sizes = (b"%d" % len(spec.script), (b"%d" % len(spec.argv),), (b"%d" % size,))
    return SpecRow(spec.spec_hash, *sizes, spec_bytes(spec))
