"""The flight recorder: every (time, event) and a digest of every batch, in a rotating local file.

For looking at what happened before something broke, and for replaying it. Not load-bearing: not synced, and an error
while writing turns it off with one line in the log. Scripts and environments are not written, only their hash and
sizes: the database has them, and they hold people's secrets. Nothing else of a submission is a secret that
`scontrol show job` would not tell.

Format: a stream of msgpack values, each [kind, now_us or sequence, content]: kind 0 = event, 1 = batch.
"""

import logging
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec

from ctld.core.effects import Batch
from ctld.core.events import AnyEvent, PlanReady, SubmitJob
from ctld.core.model import SpecRow

log = logging.getLogger("penstock.ctld")

#: One file's size; there are at most two (current, previous): some 400,000 events.
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
NAMES: Final = ("flight.msgpack", "flight.old.msgpack")
_BUFFER_BYTES: Final = 256 * 1024


class FlightRecorder:
    """Writes to a folder. `folder` None records nothing."""

    def __init__(self, folder: Path | None, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._folder = folder
        self._bytes_max = file_bytes_max
        self._encode = msgspec.msgpack.Encoder(enc_hook=str).encode
        self._buffer = bytearray()
        self._file: Any = None
        if folder is not None:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._open()

    def event(self, now_us: int, event: AnyEvent) -> None:
        """Note what came in."""
        if self._file is None:
            return
        if type(event) is SubmitJob:
            event = msgspec.structs.replace(event, spec=_without_content(event.spec))
        elif type(event) is PlanReady:
            event = msgspec.structs.replace(event, forecast=None)
        self._buffer += self._encode((0, now_us, event))
        if len(self._buffer) > _BUFFER_BYTES:
            self.flush()

    def batch(self, batch: Batch) -> None:
        """Note what it led to, as counts and a checksum of the jobs' fates, and hand all to the system."""
        if self._file is None:
            return
        fates = self._encode([(r.job_id, r.attempt, r.state, r.start_at_us, r.end_at_us) for r in batch.jobs])
        content = (len(batch.jobs), len(batch.steps), len(batch.nodes), len(batch.effects), zlib.crc32(fates))
        self._buffer += self._encode((1, batch.sequence, content))
        self.flush()

    def flush(self) -> None:
        """Hand what is buffered to the system: it survives this process, not this machine."""
        if self._file is None or not self._buffer:
            return
        try:
            self._file.write(self._buffer)
            self._buffer.clear()
            if self._file.tell() > self._bytes_max:
                self._rotate()
        except OSError as error:
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
        self._open()

    def _open(self) -> None:
        assert self._folder is not None
        self._file = open(self._folder / NAMES[0], "ab", buffering=0, opener=_private)  # noqa: SIM115 (kept open)


def _private(path: str, flags: int) -> int:
    import os

    return os.open(path, flags, 0o600)


def _without_content(spec: SpecRow) -> SpecRow:
    """The same hash with sizes in place of content."""
    size = sum(map(len, spec.environment))
    return SpecRow(spec.spec_hash, b"%d" % len(spec.script), (b"%d" % len(spec.argv),), (b"%d" % size,))
