"""`penstock sim replay`: replays a controller's flight record through the core of this version. The record
(ctld/runtime/flightrec.py) has the core's initial state, every event with its time, and a digest of every batch. The
core is a function of these, so the same version gives the same batches. The replay stops at the first batch that
differs, or at the exception that ended the controller, and shows the events before it.

A record that has lost its start (two files were filled since) cannot be replayed; its events can still be read.
"""

import json
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

# Any: plain values of the flight recorder, and results of any call
from typing import Any, NamedTuple, TextIO, TypeVar

import click
import msgspec

from ctld.core.controller import Core
from ctld.core.records import events
from ctld.core.records.effects import Batch
from ctld.core.records.events import Event
from ctld.core.records.job import JobRow
from ctld.core.records.waiting_row import WaitingType
from ctld.runtime.flightrec import (
    BATCH,
    EVENT,
    FORMAT,
    NAMES,
    NOTHING,
    START,
    WAITING,
    Digest,
    RecordedStart,
    digest_of,
)
from penstock.boundedfile import read_bounded
from penstock.commandline import CommandLine, invoke
from penstock.values.taskset import TaskSet

T = TypeVar("T")

US = 1_000_000
#: The events shown before the point where a replay stops.
STORY_EVENTS = 20
LINE_CHARS = 200
EXIT_DIFFERS, EXIT_UNUSABLE = 1, 2
#: A file ends at some 64 MiB, but begins with all jobs that there are.
RECORD_BYTES_MAX = 4 * 1024**3

_EVENT_TYPES: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}


class FlightEntry(NamedTuple):
    """One value of the record: its kind, its time or sequence, and its content, read when it is needed."""

    kind: int
    number: int
    content: msgspec.Raw


class Unusable(Exception):
    """The record cannot be replayed; the text says why."""


class Stopped(Exception):
    """The replay has reached a difference or a crash."""


def from_text(kind: type, text: Any) -> object:
    """Parses the output of `flightrec.as_text`."""
    if kind is TaskSet:
        return TaskSet.parse(text)
    raise NotImplementedError(kind)


def read(path: Path) -> list[FlightEntry]:
    """The last run of a record: from its last start on. For a folder: the rotated file, then the current one."""
    files = [path / name for name in reversed(NAMES)] if path.is_dir() else [path]
    data = b"".join(read_bounded(file, RECORD_BYTES_MAX) for file in files if file.exists())
    if not data:
        raise Unusable(f"{path}: there is no flight record")
    entries = list(_entries(data))
    starts = [at for at, entry in enumerate(entries) if entry.kind == START]
    if not starts:
        raise Unusable(f"{path}: the start of the run is not in it any more (see docs/simulator.md)")
    return entries[starts[-1] :]


def _entries(data: bytes) -> Iterator[FlightEntry]:
    """Complete records; one that its writer did not finish is left out."""
    for line in data.split(b"\n")[:-1]:
        yield msgspec.json.decode(line, type=FlightEntry)


class Replay:
    """The replay of one run."""

    def __init__(self, entries: list[FlightEntry], out: TextIO, verbose: bool = False) -> None:
        self._entries = entries
        self._out = out
        self._verbose = verbose
        self._begun_us = entries[0].number
        self._story: deque[str] = deque(maxlen=STORY_EVENTS)
        self.events = 0
        self.batches = 0
        self._acts: dict[int, Callable[[Core, FlightEntry], None]] = {
            EVENT: self._step,
            BATCH: self._seal,
            NOTHING: self._rest,
        }

    def run(self) -> None:
        """Replays the record. Raises Stopped, Unusable."""
        core = self._start(self._entries[0])
        for entry in self._entries[1:]:
            if entry.kind != WAITING:
                self._acts[entry.kind](core, entry)

    @staticmethod
    def _try(act: Callable[..., T], *args: object) -> T:
        """Calls the core; an exception is the one that ended the controller."""
        try:
            return act(*args)
        except Exception as error:
            raise Stopped(f"the core fails:\n{traceback.format_exc()}") from error

    def _start(self, entry: FlightEntry) -> Core:
        try:
            start = msgspec.json.decode(entry.content, type=RecordedStart, dec_hook=from_text)
        except msgspec.ValidationError as error:
            raise Unusable(f"the start is of another version: {error}") from error
        if start.format != FORMAT:
            raise Unusable(f"the record has format {start.format}, this version reads {FORMAT}")
        loaded = start.whole(self._waiting(start.waiting))
        self._say(f"start: epoch {loaded.epoch}, {len(loaded.jobs)} jobs")
        return self._try(Core, start.config, loaded, entry.number)

    def _waiting(self, expected: int) -> list[JobRow]:
        """Returns the start's compact rows, which are written after it."""
        rows: list[JobRow] = []
        for entry in self._entries:
            if entry.kind == WAITING:
                rows += msgspec.json.decode(entry.content, type=list[WaitingType], dec_hook=from_text)
        if len(rows) != expected:
            raise Unusable(f"the start has {expected} waiting jobs, of which {len(rows)} are in the record")
        return rows

    def _step(self, core: Core, entry: FlightEntry) -> None:
        event = decode_event(entry.content)
        self.events += 1
        self._say(f"{(entry.number - self._begun_us) / US:14.6f}  {event}")
        self._try(core.step, entry.number, event)

    def _seal(self, core: Core, entry: FlightEntry) -> None:
        batch = self._try(core.seal)
        self.batches += 1
        wanted = msgspec.json.decode(entry.content, type=Digest)
        self._compare(entry.number, wanted, batch)

    def _compare(self, sequence: int, wanted: Digest, batch: Batch | None) -> None:
        got = digest_of(batch) if batch is not None else None
        if got != wanted or batch is None or batch.sequence != sequence:
            outcomes = [f"{row.job_id}.{row.attempt} {row.state.name}" for row in batch.jobs] if batch else []
            raise Stopped(
                f"batch {sequence} differs: recorded {_shown(wanted)}; now {_shown(got)}"
                + (f"\nits jobs now: {', '.join(outcomes)}" if outcomes else "")
            )
        self._say(f"{'':14}  = batch {sequence}: {_shown(got)}")

    def _rest(self, core: Core, entry: FlightEntry) -> None:
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
    tag = msgspec.json.decode(content).get("type", "")
    kind = _EVENT_TYPES.get(tag)
    if kind is None:
        raise Unusable(f"the record has an event {tag!r} that this version does not know")
    return msgspec.json.decode(content, type=kind, dec_hook=from_text)


def _shown(digest: Digest | None) -> str:
    if digest is None:
        return "nothing"
    jobs, steps, nodes, effects, checksum = digest
    return f"{jobs} jobs, {steps} steps, {nodes} nodes, {effects} effects, outcomes {checksum:08x}"


@click.command(
    "replay",
    cls=CommandLine,
    wrong_use=2,
    help="Replay a controller's flight record: FILE is the folder `flight` of the state folder, or a file from it. "
    "Exit status: 1 the replay differs or crashes, 2 there is nothing to replay.",
    examples=(("penstock sim replay /var/spool/penstock/flight", "the last run of a controller"),),
)
@click.option("--verbose", is_flag=True, help="Print every event and batch.")
@click.option("--json", "as_json", is_flag=True, help="Print how it ended as one JSON object.")
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path, verbose: bool, as_json: bool) -> int:
    """Runs the replay and prints its result."""
    replay = None
    stop = ""
    try:
        replay = Replay(read(file), sys.stdout, verbose and not as_json)
        replay.run()
    except BrokenPipeError:  # the reader has closed the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Unusable, OSError) as error:
        sys.stderr.write(f"penstock sim replay: error: {error}\n")
        return EXIT_UNUSABLE
    except Stopped as stopped:
        stop = str(stopped)
    assert replay is not None
    if as_json:
        found = {
            "events": replay.events,
            "batches": replay.batches,
            "stopped": stop,
            "last": replay.story() if stop else "",
        }
        sys.stdout.write(json.dumps(found) + "\n")
    elif stop:
        sys.stdout.write(f"{replay.story()}\n\nafter {replay.events} events and {replay.batches} batches: {stop}\n")
    else:
        sys.stdout.write(f"{replay.events} events and {replay.batches} batches: all as recorded\n")
    return EXIT_DIFFERS if stop else 0


def main(argv: list[str]) -> int:
    """Run `penstock sim replay ...`; its status."""
    return invoke(command, "penstock sim replay", argv)
