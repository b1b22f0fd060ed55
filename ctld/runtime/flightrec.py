"""The flight recorder: what the core was started with, every (time, event), and a digest of every batch, in a rotating
local file.

For looking at what happened before something broke, and for replaying it (`penstock sim replay`, sim/flight.py). Not
load-bearing: not synced, and an error while writing turns it off with one line in the log. Scripts and environments
are not written, only their hash and sizes: the database has them, and they hold people's secrets. Nothing else of a
submission is a secret that `scontrol show job` would not tell.

A replay needs the start. A file is put by (`flight.old.msgpack`) when a controller starts and when it is full, so the
start is there until two files have been filled since.

Format: a length of LENGTH_BYTES, big end first, and a msgpack value [kind, now_us or sequence, content], again and again:
    0 = event            [0, now_us, event]
    1 = batch            [1, sequence, [jobs, steps, nodes, effects, checksum of the jobs' fates]]
    2 = start            [2, now_us, {config, loaded, version}]
    3 = a seal that gave no batch (its scheduling pass ran all the same)    [3, 0, null]
"""

import logging
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec

from ctld.core.effects import Batch
from ctld.core.events import AnyEvent, PlanReady, SubmitJob, UpdateCrontab
from ctld.core.model import SpecRow
from ctld.core.recover import Loaded
from penstock.values.config import Config
from penstock.values.taskset import TaskSet

log = logging.getLogger("penstock.ctld")

#: One file's size; there are at most two (current, previous): some 400,000 events.
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
NAMES: Final = ("flight.msgpack", "flight.old.msgpack")
_BUFFER_BYTES: Final = 256 * 1024
EVENT, BATCH, START, NOTHING = 0, 1, 2, 3
LENGTH_BYTES: Final = 4
#: Rises when a record can no longer be read as before.
FORMAT: Final = 2


class Start(msgspec.Struct, frozen=True):
    """What `Core` was made from."""

    config: Config
    loaded: Loaded
    format: int = FORMAT


Digest = tuple[int, int, int, int, int]


def plain(value: Any) -> str:
    """What msgpack does not know, as text."""
    return value.format() if isinstance(value, TaskSet) else str(value)


_encode = msgspec.msgpack.Encoder(enc_hook=plain).encode


def _entry(kind: int, number: int, content: Any) -> bytes:
    payload = _encode((kind, number, content))
    return len(payload).to_bytes(LENGTH_BYTES, "big") + payload


def digest_of(batch: Batch) -> Digest:
    """Counts of a batch and a checksum of the jobs' fates."""
    fates = _encode([(r.job_id, r.attempt, r.state, r.start_at_us, r.end_at_us) for r in batch.jobs])
    return len(batch.jobs), len(batch.steps), len(batch.nodes), len(batch.effects), zlib.crc32(fates)


class FlightRecorder:
    """Writes to a folder. `folder` None records nothing."""

    def __init__(self, folder: Path | None, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._folder = folder
        self._bytes_max = file_bytes_max
        self._started_at_byte = 0  # where the events behind the start begin
        self._buffer = bytearray()
        self._file: Any = None
        if folder is not None:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._open()

    def start(self, now_us: int, config: Config, loaded: Loaded) -> None:
        """Note what a core is about to be made from; what was recorded of earlier runs is put by."""
        if self._file is None:
            return
        try:
            if self._file.tell():
                self._rotate()
            crontabs = [crontab._replace(text="") for crontab in loaded.crontabs]
            self._file.write(_entry(START, now_us, Start(config, loaded._replace(crontabs=crontabs))))
            self._started_at_byte = self._file.tell()
        except OSError as error:
            self._give_up(error)

    def event(self, now_us: int, event: AnyEvent) -> None:
        """Note what came in."""
        if self._file is None:
            return
        if type(event) is SubmitJob:
            event = msgspec.structs.replace(event, spec=_without_content(event.spec))
        elif type(event) is PlanReady:
            event = msgspec.structs.replace(event, forecast=None)
        elif type(event) is UpdateCrontab:
            replace = msgspec.structs.replace
            entries = tuple(replace(entry, spec=_without_content(entry.spec)) for entry in event.entries)
            event = replace(event, text=None if event.text is None else "", entries=entries)
        self._buffer += _entry(EVENT, now_us, event)
        if len(self._buffer) > _BUFFER_BYTES:
            self.flush()

    def sealed(self, batch: Batch | None) -> None:
        """Note what a seal led to, and hand all to the system unless that is nothing."""
        if self._file is None:
            return
        if batch is None:
            self._buffer += _NOTHING
            return
        self._buffer += _entry(BATCH, batch.sequence, digest_of(batch))
        self.flush()

    def flush(self) -> None:
        """Hand what is buffered to the system: it survives this process, not this machine."""
        if self._file is None or not self._buffer:
            return
        try:
            self._file.write(self._buffer)
            self._buffer.clear()
            if self._file.tell() > self._started_at_byte + self._bytes_max:
                self._rotate()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.warning("the flight recorder is off: %s", error)
        self._file = None
        self._buffer.clear()

    def close(self) -> None:
        """Write the rest and close."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _rotate(self) -> None:
        assert self._folder is not None
        self._file.close()
        (self._folder / NAMES[0]).replace(self._folder / NAMES[1])
        self._started_at_byte = 0
        self._open()

    def _open(self) -> None:
        assert self._folder is not None
        self._file = open(self._folder / NAMES[0], "ab", buffering=0, opener=_private)  # noqa: SIM115 (kept open)


_NOTHING: Final = _entry(NOTHING, 0, None)


def _private(path: str, flags: int) -> int:
    import os

    return os.open(path, flags, 0o600)


def _without_content(spec: SpecRow) -> SpecRow:
    """The same hash with sizes in place of content."""
    size = sum(map(len, spec.environment))
    return SpecRow(spec.spec_hash, b"%d" % len(spec.script), (b"%d" % len(spec.argv),), (b"%d" % size,))
