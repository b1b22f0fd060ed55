"""The site's submit filters (PenstockSubmitFilter, JobSubmitPlugins=lua): asked before a submission or an update becomes
an event, so the core, the flight recorder and everything behind them see the changed request only.

    a request -> FairThreads -> a worker (filterworker.py) -> job_submit(job, submitter) -> the changed fields

Rules
    - The loop never waits. A call ends within PenstockSubmitFilterTimeout; then its worker is killed, and the next call
      starts another. There are WORKERS of them, of which one user has one at a time: calls of one user keep their order,
      and a filter that hangs on one user's requests delays nobody else's.
    - A crash, a hang or a bad value is counted and logged, and PenstockSubmitFilterFailure decides: refuse, or accept
      the request as it was submitted.
    - The controller reads the files, which belong to root, SlurmUser or its own user and which nobody else can write. A
      worker gets their text, and as root becomes another user first (PenstockSubmitFilterUser).
    - `scontrol reconfigure` loads the files in a new worker; if that fails, the old ones stay in force. At start, a file
      that cannot be loaded counts as a filter that fails.
"""

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from queue import LifoQueue
from typing import Final, NamedTuple

from ctld.metrics import Diagnostics
from ctld.runtime import filterworker
from ctld.runtime.errors import BadRequest
from ctld.runtime.fair import FairThreads
from ctld.runtime.filterbase import MODIFY, SUBMIT
from ctld.runtime.helperprocess import HelperFailed, HelperProcess
from ctld.runtime.lookups import Lookups
from ctld.runtime.programs import UserIdentity
from penstock.config.filterfiles import FilterFileError, filter_files, read_filter
from penstock.submitfilter import MESSAGE_CHARS_MAX, MESSAGES_MAX
from penstock.values.config import Config
from penstock.values.refusals import TEXT, Code
from penstock.values.text import clean_line

log = logging.getLogger("penstock.ctld")

WORKERS: Final = 4
#: Calls of one user that wait or run.
CALLS_MAX: Final = 256
#: Time limit for the start of a worker and the loading of the files.
START_S: Final = 20.0
#: A job's script has at most 4 MiB, its environment more.
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
#: Bytes of a refusal, with the lines before it: the text of an error is a header, three bytes for one, and clients take 8 KiB.
REFUSAL_BYTES_MAX: Final = 2048


class FilterError(Exception):
    """The filter has failed: its text names the cause, for the log and the administrator."""


class FilterAnswer(NamedTuple):
    """What the filters have made of a request."""

    changed: Mapping[str, object] = {}
    removed: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    refused: tuple[int, str] | None = None  # a number of Slurm's, 0 = none; the text for the user


class _Worker(HelperProcess):
    """A worker, which loads the files first."""

    def __init__(self, scripts: bytes, timeout_s: float, words: tuple[str, ...]) -> None:
        super().__init__(filterworker.__file__, timeout_s, ANSWER_BYTES_MAX, words=words, options="-I")
        self._scripts = scripts
        self._is_loaded = False
        self._number = 0  # of the last call
        self.has: frozenset[str] = frozenset()

    def stop(self) -> None:
        """Ends the process."""
        self._is_loaded = False
        super().stop()

    def call(self, question: Mapping[str, object]) -> dict[str, object]:
        """Returns the answer to a call. Raises FilterError."""
        self._number += 1
        try:
            self.load()
            return self._checked(self.ask(json.dumps({**question, "number": self._number}).encode()), self._number)
        except HelperFailed as error:
            raise FilterError(str(error)) from None

    def _checked(self, data: bytes, number: int) -> dict[str, object]:
        """Returns an answer that is an object and no failure. Raises FilterError. A process that has not answered this
        call, and this call alone, ends: its next answer would be taken for that of another user's call."""
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            self.stop()
            raise FilterError("an answer that is no JSON") from None
        if not isinstance(found, dict) or found.get("number") != number:
            self.stop()
            raise FilterError("an answer that is no object, or that of another call")
        if failed := found.get("failed"):
            raise FilterError(clean_line(str(failed)))
        return found

    def load(self) -> None:
        """Starts the process and loads the files, unless that is done. Raises FilterError."""
        try:
            wire = self.start()
            if self._is_loaded:
                return
            found = self._checked(self.exchange(wire, self._scripts, START_S), 0)
        except TimeoutError:
            self.stop()
            raise FilterError(f"not loaded within {START_S:g} s") from None
        except OSError as error:
            self.stop()
            raise FilterError(f"not loaded: {error}") from None
        has = found.get("has")
        self.has = frozenset(map(str, has if isinstance(has, list) else ()))
        self._is_loaded = True


class FilterSet:
    """The filters of one configuration, with their workers. `problem`: why they could not be loaded."""

    def __init__(self, config: Config, scripts: list[tuple[str, str, str]], identity: UserIdentity | None) -> None:
        who = (-1, -1, ()) if identity is None else identity
        self.needs_partitions = any(language == "lua" for language, _, _ in scripts)
        words = (str(who[0]), str(who[1]), ",".join(map(str, who[2])), *(["lua"] if self.needs_partitions else []))
        text = json.dumps({"scripts": scripts, "number": 0}).encode()
        self._workers = [_Worker(text, config.submit_filter_timeout_s, words) for _ in range(WORKERS)]
        self._free: LifoQueue[_Worker] = LifoQueue()
        for worker in self._workers:
            self._free.put(worker)
        self.accepts = config.submit_filter_failure == "accept"
        self.has: frozenset[str] = frozenset()
        self.problem = ""
        self.calls = 0  # in progress
        self.is_retired = False

    def load(self) -> None:
        """Loads the files into one worker; the others follow when they are needed. Raises FilterError."""
        worker = self._free.get_nowait()
        try:
            worker.load()
            self.has = worker.has
        finally:
            self._free.put(worker)

    def call(self, question: Mapping[str, object]) -> FilterAnswer:
        """Asks a worker; in a thread, of which there are as many. Raises FilterError."""
        if self.problem:
            raise FilterError(self.problem)
        worker = self._free.get_nowait()
        try:
            found = worker.call(question)
            return _read_answer(found)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """Ends the workers. A call in progress fails."""
        for worker in self._workers:
            worker.close()


def _read_answer(found: dict[str, object]) -> FilterAnswer:
    changed, removed, messages, refused = (found.get(name) for name in ("changed", "removed", "messages", "refused"))
    if not (isinstance(changed, dict) and isinstance(removed, list) and isinstance(messages, list)):
        raise FilterError("an answer without its parts")
    lines = _lines(messages)
    notes = found.get("notes")
    for note in _lines(notes if isinstance(notes, list) else []):
        log.info("the submit filter: %s", note)
    if not isinstance(refused, list):
        return FilterAnswer(changed, tuple(map(str, removed)), lines)
    if len(refused) != 2 or not isinstance(refused[0], int):
        raise FilterError("a refusal without its number")
    text = "\n".join(_lines(str(refused[1])[:REFUSAL_BYTES_MAX].splitlines()))
    return FilterAnswer(messages=lines, refused=(refused[0], text))


def _lines(found: list[object] | list[str]) -> tuple[str, ...]:
    """Returns the lines of an answer within the bounds that log_user has in the worker, which is not believed."""
    return tuple(clean_line(str(line)[:MESSAGE_CHARS_MAX])[:MESSAGE_CHARS_MAX] for line in found[:MESSAGES_MAX])


class SubmitFilter:
    """The filters in force. Belongs to one event loop."""

    def __init__(self, lookups: Lookups, diagnostics: Diagnostics, config_folder: str) -> None:
        self._lookups = lookups
        self._diagnostics = diagnostics
        self._folder = config_folder
        self._threads: FairThreads | None = None
        self._set: FilterSet | None = None

    async def start(self, config: Config) -> None:
        """Loads the filters; one that cannot be loaded fails with each request."""
        try:
            self._set = await self.prepare(config)
        except BadRequest as error:
            log.error("the submit filter: %s", error.text)
            self._set = FilterSet(config, [], None)
            self._set.problem = error.text
            self._set.has = frozenset((SUBMIT, MODIFY))
        self._start_threads()

    async def prepare(self, config: Config) -> FilterSet | None:
        """Loads the filters of a configuration; None = it has none. Raises BadRequest."""
        try:
            named = filter_files(config, self._folder)
            if not named:
                return None
            identity = await self._identity(config)
            scripts = [(kind, path, await asyncio.to_thread(read_filter, path, config)) for kind, path in named]
            found = FilterSet(config, scripts, identity)
            try:
                await asyncio.to_thread(found.load)
            except FilterError:
                found.close()
                raise
        except (FilterError, FilterFileError) as error:
            raise BadRequest(Code.CONFIG_INVALID, f"{TEXT[Code.CONFIG_INVALID]}:\n{error}") from None
        return found

    async def problems_of(self, config: Config) -> tuple[str, ...]:
        """Returns why the filters of a configuration could not be loaded."""
        try:
            found = await self.prepare(config)
        except BadRequest as error:
            return (error.text.partition("\n")[2],)
        if found is not None:
            found.close()
        return ()

    def use(self, found: FilterSet | None) -> None:
        """Puts a prepared set in force. Calls in progress end with the old one."""
        old, self._set = self._set, found
        self._start_threads()
        if old is not None:
            old.is_retired = True
            _end_if_unused(old)

    def stop(self) -> None:
        """Ends the workers."""
        if self._set is not None:
            self._set.close()

    def has(self, function: str) -> bool:
        """Whether the filters in force have this function."""
        return self._set is not None and function in self._set.has

    @property
    def needs_partitions(self) -> bool:
        """Whether a call has to bring the partitions: Lua's part_list."""
        return self._set is not None and self._set.needs_partitions

    async def ask(self, uid: int, question: Mapping[str, object]) -> FilterAnswer:
        """Returns what the filters make of a request, when it is the user's turn. Raises FilterError, BadRequest."""
        filters, threads = self._set, self._threads
        if filters is None or threads is None:  # a reload has removed them
            return FilterAnswer()
        self._diagnostics.filter_calls += 1
        filters.calls += 1
        try:
            return await threads.ask(uid, filters.call, lambda: question)
        finally:
            filters.calls -= 1
            _end_if_unused(filters)

    def failed(self, what: str, error: Exception) -> None:
        """Counts and logs a failure; returns if the request is to be accepted as it is. Raises BadRequest."""
        self._diagnostics.filter_failures += 1
        accepts = self._set is not None and self._set.accepts
        log.error(
            "the submit filter has failed at %s, which is %s: %s", what, "accepted" if accepts else "refused", error
        )
        if not accepts:
            text = "the administrators see the cause in the controller's log"
            raise BadRequest(Code.FILTER_FAILED, f"{TEXT[Code.FILTER_FAILED]}: {text}")

    def refused(self, answer: FilterAnswer) -> None:
        """Raises BadRequest if the filters have refused the request."""
        if answer.refused is None:
            return
        self._diagnostics.filter_refusals += 1
        number, text = answer.refused
        code = Code(number) if number in TEXT else Code.FILTER_REFUSED
        said = "\n".join(filter(None, (*answer.messages, text)))
        text = f"{TEXT[code]}: {said}" if said else TEXT[code]
        raise BadRequest(code, text.encode()[:REFUSAL_BYTES_MAX].decode(errors="ignore"))

    def _start_threads(self) -> None:
        if self._set is not None and self._threads is None:
            self._threads = FairThreads("requests at the submit filter", WORKERS, CALLS_MAX, share=1)

    async def _identity(self, config: Config) -> UserIdentity | None:
        """Returns whom the workers become: nobody unless the controller is root. Raises BadRequest."""
        if os.geteuid() != 0:
            return None
        found = await self._lookups.identity(config.submit_filter_user, 0)
        if found is None or found.uid == 0:
            why = "filters never run as root" if found is not None else "there is no such user"
            text = f"PenstockSubmitFilterUser={config.submit_filter_user}: {why}"
            raise BadRequest(Code.CONFIG_INVALID, f"{TEXT[Code.CONFIG_INVALID]}:\n{text}")
        return found


def _end_if_unused(old: FilterSet) -> None:
    if old.is_retired and not old.calls:
        old.close()
