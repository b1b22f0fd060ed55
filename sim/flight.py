"""`penstock sim replay`: a controller's flight record, stepped again through the core of this version.

The record (ctld/runtime/flightrec.py) holds what the core was started with, every event with its time, and a digest of
every batch. The core is a function of these, so the same version gives the same batches. The replay stops at the first
batch that differs, or at the exception that ended the controller, and shows what led there.

A record that has lost its start (two files were filled since) cannot be replayed; its events can still be read.
"""

import argparse
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import msgspec

from ctld.core import events
from ctld.core.controller import Core
from ctld.core.effects import Batch
from ctld.core.events import Event
from ctld.runtime.flightrec import BATCH, EVENT, FORMAT, LENGTH_BYTES, NAMES, NOTHING, START, Digest, Start, digest_of
from penstock.values.taskset import TaskSet

US = 1_000_000
#: Events shown before the place where a replay stops.
STORY_EVENTS = 20
LINE_CHARS = 200
EXIT_DIFFERS, EXIT_UNUSABLE = 1, 2

_EVENT_TYPES: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}


class Entry(NamedTuple):
    """One value of the record: its kind, its time or sequence, and its content, read when it is needed."""

    kind: int
    number: int
    content: msgspec.Raw


class Unusable(Exception):
    """The record cannot be replayed; the text says why."""


class Stopped(Exception):
    """The replay has come to a difference or a crash."""


def from_text(kind: type, text: Any) -> Any:
    """What `flightrec.plain` wrote."""
    if kind is TaskSet:
        return TaskSet.parse(text)
    raise NotImplementedError(kind)


def read(path: Path) -> list[Entry]:
    """The last run of a record: from its last start on. A folder: the file that was put by, then the present one."""
    files = [path / name for name in reversed(NAMES)] if path.is_dir() else [path]
    data = b"".join(file.read_bytes() for file in files if file.exists())
    if not data:
        raise Unusable(f"{path}: there is no flight record")
    entries = list(_entries(data))
    starts = [at for at, entry in enumerate(entries) if entry.kind == START]
    if not starts:
        raise Unusable(f"{path}: the start of the run is not in it any more (see docs/simulator.md)")
    return entries[starts[-1] :]


def _entries(data: bytes) -> Iterator[Entry]:
    """Whole values; one that was cut off by the end of its writer is left out."""
    at = 0
    while (begin := at + LENGTH_BYTES) <= len(data):
        at = begin + int.from_bytes(data[at:begin], "big")
        if at <= len(data):
            yield msgspec.msgpack.decode(data[begin:at], type=Entry)


class Replay:
    """One run, stepped again."""

    def __init__(self, entries: list[Entry], out: TextIO, verbose: bool = False) -> None:
        self._entries, self._out, self._verbose = entries, out, verbose
        self._begun_us = entries[0].number
        self._story: deque[str] = deque(maxlen=STORY_EVENTS)
        self.events = self.batches = 0
        self._acts: dict[int, Callable[[Core, Entry], None]] = {
            EVENT: self._step,
            BATCH: self._seal,
            NOTHING: self._rest,
        }

    def run(self) -> None:
        """Go through the record. Raises Stopped, Unusable."""
        core = self._start(self._entries[0])
        for entry in self._entries[1:]:
            self._acts[entry.kind](core, entry)

    @staticmethod
    def _try(act: Callable[..., Any], *args: Any) -> Any:
        """A call into the core; whatever it raises ended the controller."""
        try:
            return act(*args)
        except Exception as error:
            raise Stopped(f"the core fails:\n{traceback.format_exc()}") from error

    def _start(self, entry: Entry) -> Core:
        try:
            start = msgspec.msgpack.decode(entry.content, type=Start, dec_hook=from_text)
        except msgspec.ValidationError as error:
            raise Unusable(f"the start is of another version: {error}") from error
        if start.format != FORMAT:
            raise Unusable(f"the record has format {start.format}, this version reads {FORMAT}")
        self._say(f"start: epoch {start.loaded.epoch}, {len(start.loaded.jobs)} jobs")
        return self._try(Core, start.config, start.loaded, entry.number)  # type: ignore[no-any-return]

    def _step(self, core: Core, entry: Entry) -> None:
        event = decode_event(entry.content)
        self.events += 1
        self._say(f"{(entry.number - self._begun_us) / US:14.6f}  {event}")
        self._try(core.step, entry.number, event)

    def _seal(self, core: Core, entry: Entry) -> None:
        batch = self._try(core.seal)
        self.batches += 1
        wanted = msgspec.msgpack.decode(entry.content, type=Digest)
        self._compare(entry.number, wanted, batch)

    def _compare(self, sequence: int, wanted: Digest, batch: Batch | None) -> None:
        got = digest_of(batch) if batch is not None else None
        if got != wanted or batch is None or batch.sequence != sequence:
            fates = [f"{row.job_id}.{row.attempt} {row.state.name}" for row in batch.jobs] if batch else []
            raise Stopped(
                f"batch {sequence} differs: recorded {_shown(wanted)}; now {_shown(got)}"
                + (f"\nits jobs now: {', '.join(fates)}" if fates else "")
            )
        self._say(f"{'':14}  = batch {sequence}: {_shown(got)}")

    def _rest(self, core: Core, entry: Entry) -> None:
        batch = self._try(core.seal)
        if batch is not None:
            raise Stopped(f"a seal that gave nothing gives batch {batch.sequence} now: {_shown(digest_of(batch))}")

    def _say(self, line: str) -> None:
        line = line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 3] + "..."
        self._story.append(line)
        if self._verbose:
            self._out.write(line + "\n")

    def story(self) -> str:
        """The last lines."""
        return "\n".join(self._story)


def decode_event(content: msgspec.Raw) -> Event:
    """An event by its tag. Raises Unusable."""
    tag = msgspec.msgpack.decode(content).get("type", "")
    kind = _EVENT_TYPES.get(tag)
    if kind is None:
        raise Unusable(f"the record has an event {tag!r} that this version does not know")
    return msgspec.msgpack.decode(content, type=kind, dec_hook=from_text)


def _shown(digest: Digest | None) -> str:
    if digest is None:
        return "nothing"
    jobs, steps, nodes, effects, checksum = digest
    return f"{jobs} jobs, {steps} steps, {nodes} nodes, {effects} effects, fates {checksum:08x}"


def main(argv: list[str]) -> int:
    """The command. Exit status 1: the replay differs or crashes; 2: there is nothing to replay."""
    parser = argparse.ArgumentParser("penstock sim replay", description="Step a controller's flight record again.")
    parser.add_argument("file", type=Path, help="the folder `flight` of the state folder, or a file from it")
    parser.add_argument("--verbose", action="store_true", help="print every event and batch")
    args = parser.parse_args(argv)
    replay = None
    try:
        replay = Replay(read(args.file), sys.stdout, args.verbose)
        replay.run()
    except BrokenPipeError:  # whoever reads this has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Unusable, OSError) as error:
        sys.stderr.write(f"penstock sim replay: error: {error}\n")
        return EXIT_UNUSABLE
    except Stopped as stopped:
        assert replay is not None
        sys.stdout.write(f"{replay.story()}\n\nafter {replay.events} events and {replay.batches} batches: {stopped}\n")
        return EXIT_DIFFERS
    sys.stdout.write(f"{replay.events} events and {replay.batches} batches: all as recorded\n")
    return 0
