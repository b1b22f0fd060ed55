"""Scripts and environments by hash: the parts of a launch that are not in the job's row.

A cache bounded in bytes, filled by each commit's new specs (most jobs start soon after they were submitted) and from
the database on a miss, once for all waiters: an array of 1,000 tasks shares one message.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Final

from ctld.core.records.job import SpecRow
from ctld.metrics import Metrics
from ctld.store.errors import StorageAway
from penstock.v1.common_pb2 import JobSpec

SPEC_BYTES_MAX: Final = 24 * 1024 * 1024
#: Delay before another attempt to read from an unreachable server.
AWAY_RETRY_S: Final = 1.0
#: Overhead of a message beside its content.
_OVERHEAD_BYTES: Final = 512


class SpecCache:
    """A cache of specs with least-recently-used eviction."""

    def __init__(self, fetch: Callable[[bytes], SpecRow | None], reader: Executor, metrics: Metrics) -> None:
        self._fetch = fetch
        self._reader = reader
        self._metrics = metrics
        self._specs: OrderedDict[bytes, tuple[JobSpec, int]] = OrderedDict()
        self._bytes = 0
        self._under_way: dict[bytes, asyncio.Task[JobSpec | None]] = {}

    def keep(self, rows: Iterable[SpecRow]) -> None:
        """Adds specs that have just been committed."""
        for row in rows:
            if row.spec_hash not in self._specs:
                self._put(row)

    def cached(self, spec_hash: bytes) -> JobSpec | None:
        """Returns the spec, if it is cached."""
        found = self._specs.pop(spec_hash, None)
        if found is None:
            return None
        self._specs[spec_hash] = found
        self._metrics.spec_hits += 1
        return found[0]

    async def get(self, spec_hash: bytes) -> JobSpec | None:
        """Returns the spec, from the database if necessary; None when it is not there either."""
        found = self.cached(spec_hash)
        if found is not None:
            return found
        task = self._under_way.get(spec_hash)
        if task is None:
            self._metrics.spec_misses += 1
            task = self._under_way[spec_hash] = asyncio.create_task(self._load(spec_hash))
        return await asyncio.shield(task)

    async def _load(self, spec_hash: bytes) -> JobSpec | None:
        try:
            row = await self._read(spec_hash)
        finally:
            del self._under_way[spec_hash]
        return None if row is None else self._put(row)

    async def _read(self, spec_hash: bytes) -> SpecRow | None:
        """Reads from the database; while its server is unreachable it retries, since a launch waits for it."""
        while True:
            try:
                return await asyncio.get_running_loop().run_in_executor(self._reader, self._fetch, spec_hash)
            except StorageAway:
                await asyncio.sleep(AWAY_RETRY_S)

    def _put(self, row: SpecRow) -> JobSpec:
        message = JobSpec(script=row.script, argv=row.argv, environment=row.environment)
        size = message.ByteSize() + _OVERHEAD_BYTES
        self._specs[row.spec_hash] = (message, size)
        self._bytes += size
        while self._bytes > SPEC_BYTES_MAX and len(self._specs) > 1:
            _, (_, size) = self._specs.popitem(last=False)
            self._bytes -= size
        return message
