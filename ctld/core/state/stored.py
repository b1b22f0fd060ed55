"""Texts that users have stored with the controller: scripts, arguments and environments, and the long texts of
requests.

Both are counted while the controller knows the job, which is until MinJobAge after its end; what accounting keeps
longer is purged by its own rules (docs/accounting.md). Sums are kept incrementally: `enter` adds a job, tasks that are
split off an array are further references to the same content, and `leave` subtracts content without references when the job
is purged.

    bytes    content of job_spec, each content once for each user: a loop around sbatch stores its environment once. Steps
             of srun count for their job. PenstockUserSpecBytesMax is the limit, 0 = none. What a user adds in a day is
             limited by PenstockUserSpecBytesPerDay, or submitted and cancelled jobs could fill the database's disk: a
             bucket that drains evenly, and is empty after a start.
    texts    requests stay in memory, and a job's texts may be long (lists of nodes, comments). What is longer than
             TEXT_BYTES_FREE counts in full against TEXT_BYTES_MAX; other jobs are bounded by MaxJobCount alone.

A job that is accepted may exceed the limit by what a waiting step adds later; the next submission is refused then.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from ctld.core.records.compact_request import COMMON
from ctld.core.records.effects import Refused
from ctld.core.records.job import SpecRow
from ctld.core.records.request import JobRequest
from penstock.values.config import Config
from penstock.values.localtime import DAY_S, US
from penstock.values.refusals import Code

if TYPE_CHECKING:
    from ctld.core.records.job import Job

#: Shorter texts of a request do not count: most have some hundred bytes.
TEXT_BYTES_FREE: Final = 4 * 1024
#: More than any request that ctld/rpc accepts, with the names of all nodes in its lists.
TEXT_BYTES_EACH_MAX: Final = 4 * 1024 * 1024
#: Maximum for all longer requests of one user.
TEXT_BYTES_MAX: Final = 64 * 1024 * 1024
NO_LIMIT: Final = 1 << 62

_TEXTS: Final = [field.name for field in msgspec.structs.fields(JobRequest) if field.type in (str, bytes)]
_texts = attrgetter(*_TEXTS)
_texts_of_compact = attrgetter(*(name for name in _TEXTS if name in COMMON))


def spec_bytes(spec: SpecRow) -> int:
    """Returns the stored size of a content: as in the database, with a byte at the end of each string."""
    words = (*spec.argv, *spec.environment)
    return spec.size or len(spec.script) + sum(map(len, words)) + len(words)


def text_bytes(request: JobRequest) -> int:
    """Returns the stored size of a request's texts, including lists of nodes."""
    if type(request) is not JobRequest:  # its other texts are empty
        return sum(map(len, _texts_of_compact(request)))
    return (
        sum(map(len, _texts(request))) + sum(map(len, request.nodes_required)) + sum(map(len, request.nodes_excluded))
    )


class Stored:
    """The books of stored bytes. Rebuilt from the rows at a start."""

    def __init__(self) -> None:
        self.bytes: Counter[int] = Counter()  # by uid
        self.texts: Counter[int] = Counter()  # by uid
        self._contents: dict[tuple[int, bytes], list[int]] = {}  # (uid, content's hash) -> [references, bytes]
        self._added: dict[int, tuple[int, int]] = {}  # by uid: bytes of new contents in the bucket, and when that was
        self._of_steps: dict[int, dict[bytes, None]] = {}  # by job id: contents of its steps
        self._long: dict[int, int] = {}  # by job id: bytes of its texts, where they count

    def check(
        self, uid: int, config: Config, now_us: int, specs: Sequence[SpecRow], requests: Sequence[JobRequest] = ()
    ) -> None:
        """Checks that these fit, too. Raises Refused."""
        if specs:
            self._check_contents(uid, config, now_us, specs)
        if self.texts[uid] + len(requests) * TEXT_BYTES_EACH_MAX <= TEXT_BYTES_MAX:
            return  # however long these are
        texts = sum(size for size in map(text_bytes, requests) if size > TEXT_BYTES_FREE)
        if texts and self.texts[uid] + texts > TEXT_BYTES_MAX:
            text = (
                f"the long texts of your jobs' requests have {self.texts[uid]} bytes and these are {texts} more, the limit "
                f"is {TEXT_BYTES_MAX}: wait until jobs have ended, or name nodes and features in fewer words"
            )
            raise Refused(Code.USER_STORAGE_LIMIT, text)

    def _check_contents(self, uid: int, config: Config, now_us: int, specs: Sequence[SpecRow]) -> None:
        limit, of_day = config.user_spec_bytes_max or NO_LIMIT, config.user_spec_bytes_per_day or NO_LIMIT
        size, added = sum(map(spec_bytes, specs)), self._added_in_a_day(uid, of_day, now_us)
        if self.bytes[uid] + size <= limit and added + size <= of_day:
            return
        new = {spec.spec_hash: spec for spec in specs if (uid, spec.spec_hash) not in self._contents}
        size = sum(map(spec_bytes, new.values()))
        if size and self.bytes[uid] + size > limit:
            text = (
                f"your jobs hold {self.bytes[uid]} bytes of scripts and environments and these are {size} more, the limit is "
                f"PenstockUserSpecBytesMax={limit}: wait until jobs have ended, or export less (sbatch --export=NONE)"
            )
            raise Refused(Code.USER_STORAGE_LIMIT, text)
        if size and added + size > of_day:
            text = (
                f"you have added {added} bytes of scripts and environments of late and these are {size} more, the limit is "
                f"PenstockUserSpecBytesPerDay={of_day}: submit fewer in a day, or export less (sbatch --export=NONE)"
            )
            raise Refused(Code.USER_STORAGE_LIMIT, text)

    def _added_in_a_day(self, uid: int, of_day: int, now_us: int) -> int:
        """Returns what the user's bucket holds now; `of_day` bytes leave it in a day."""
        added, at_us = self._added.get(uid, (0, now_us))
        return max(0, added - of_day * max(0, now_us - at_us) // (DAY_S * US))

    def _add(self, uid: int, spec_hash: bytes, size: int, of_day: int, now_us: int) -> None:
        """Adds a reference to a content, and to the user's bucket when it is new."""
        if of_day and size and (uid, spec_hash) not in self._contents:
            self._added[uid] = self._added_in_a_day(uid, of_day, now_us) + size, now_us
        self._add_reference(uid, spec_hash, size)

    def enter(self, job: "Job", size: int, texts: int, of_day: int) -> None:
        """Adds a job that is submitted, with a content of that size and that many bytes of texts."""
        self._add(job.user_id, job.spec_hash, size, of_day, job.submit_at_us)
        if texts > TEXT_BYTES_FREE or self._long:
            self._set_texts(job, texts)

    def enter_part(self, job: "Job") -> None:
        """Adds tasks that were split off an array: the content and the request are known."""
        self._add_reference(job.user_id, job.spec_hash, 0)

    def enter_step(self, job: "Job", spec_hash: bytes, size: int, of_day: int = 0, now_us: int = 0) -> None:
        """Adds a step's content to its job's. The same content again counts once."""
        known = self._of_steps.setdefault(job.job_id, {})
        if spec_hash not in known:
            known[spec_hash] = None
            self._add(job.user_id, spec_hash, size, of_day, now_us)

    def count_texts(self, job: "Job") -> None:
        """Counts the texts of a job's new or changed request."""
        self._set_texts(job, text_bytes(job.request))

    def _set_texts(self, job: "Job", size: int) -> None:
        before = self._long.pop(job.job_id, 0)
        if size > TEXT_BYTES_FREE:
            self._long[job.job_id] = size
            self.texts[job.user_id] += size
        if before:
            _less(self.texts, job.user_id, before)

    def leave(self, job: "Job") -> None:
        """Removes a job that is purged."""
        self._drop_reference(job.user_id, job.spec_hash)
        for spec_hash in self._of_steps.pop(job.job_id, ()):
            self._drop_reference(job.user_id, spec_hash)
        if size := self._long.pop(job.job_id, 0):
            _less(self.texts, job.user_id, size)

    def restore(self, jobs: Iterable["Job"], sizes: Mapping[bytes, int], request_bytes_max: int | None = None) -> None:
        """Adds all known jobs after a start. `request_bytes_max`: of any of their requests as JSON, in which no text is
        shorter; None = not known."""
        counted: dict[int, None] = {}  # requests: the tasks of an array share one
        some_are_long = request_bytes_max is None or request_bytes_max > TEXT_BYTES_FREE
        last: tuple[int, bytes] | None = None  # of the job before: a loop around sbatch submits one content
        known = [0, 0]
        for job in jobs:
            if last == (key := (job.user_id, job.spec_hash)):
                known[0] += 1
            else:
                last = key
                self._add_reference(*key, sizes.get(job.spec_hash, 0))
                known = self._contents[key]
            if some_are_long and job.request_id not in counted:
                counted[job.request_id] = None
                if (texts := text_bytes(job.request)) > TEXT_BYTES_FREE:
                    self._set_texts(job, texts)
            for step in job.steps.values() if job.steps else ():
                if spec_hash := getattr(step, "spec_hash", b""):
                    self.enter_step(job, spec_hash, sizes.get(spec_hash, 0))

    def _add_reference(self, uid: int, spec_hash: bytes, size: int) -> None:
        known = self._contents.get((uid, spec_hash))
        if known is None:
            self._contents[uid, spec_hash] = [1, size]
            self.bytes[uid] += size
        else:
            known[0] += 1

    def _drop_reference(self, uid: int, spec_hash: bytes) -> None:
        known = self._contents[uid, spec_hash]
        known[0] -= 1
        if not known[0]:
            del self._contents[uid, spec_hash]
            _less(self.bytes, uid, known[1])

    def recount(self, jobs: Iterable["Job"]) -> dict[tuple[int, bytes], int]:
        """Recounts the usage: for Core.check()."""
        found: Counter[tuple[int, bytes]] = Counter()
        for job in jobs:
            found[job.user_id, job.spec_hash] += 1
            for spec_hash in self._of_steps.get(job.job_id, ()):
                found[job.user_id, spec_hash] += 1
        return dict(found)

    def references(self) -> dict[tuple[int, bytes], int]:
        """Returns the references to each content, as in the books."""
        return {key: count for key, (count, _) in self._contents.items()}


def _less(counts: Counter[int], uid: int, size: int) -> None:
    counts[uid] -= size
    if not counts[uid]:
        del counts[uid]
