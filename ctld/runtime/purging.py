"""Runs purges in the controller: those of slurmdbd.conf once an hour, and those that an administrator requests."""

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from accounting.archive import Archive
from accounting.purge import Access, count, cut_us, purge
from accounting.rollup import Calendar
from ctld.store.schema import JOB_HISTORY
from ctld.store.sidewriter import SideWriter
from penstock.values.config import Config
from penstock.values.purging import KINDS, Age, before_us

log = logging.getLogger("penstock.ctld")

#: Pause between two transactions: a purge takes less than half of the database's time.
PAUSE_S: Final = 0.02


class PurgeOrder(NamedTuple):
    """The order of a purge: kind -> minimum age; and where deleted records are archived, for which kinds."""

    ages: Mapping[str, Age]
    folder: str = ""
    archived: frozenset[str] = frozenset(KINDS)
    check_only: bool = False


def order_of(config: Config, state_folder: Path) -> PurgeOrder:
    """Returns the order of the configuration."""
    ages = {kind: Age(number, unit) for kind, number, unit in config.purge_after}
    archived = frozenset(config.archive)
    if "nosteps" in config.enforce:  # minimum age: neither the controller nor the roll-up needs them any more
        ages["steps"] = Age(0, "hours")
        archived = archived - {"steps"}
    return PurgeOrder(ages, config.archive_dir or str(state_folder / "archive"), archived)


def run(
    writer: SideWriter, order: PurgeOrder, config: Config, now_us: int, stop: threading.Event
) -> tuple[dict[str, int], list[str]]:
    """Runs the purge; returns the number of deleted records by kind, and the files that hold them. Raises StoreError,
    OSError.
    """
    begun = time.monotonic()

    def pause() -> bool:
        nonlocal begun
        took_s = time.monotonic() - begun
        stopped = bool(stop.wait(max(PAUSE_S, took_s)))
        begun = time.monotonic()
        return stopped

    access = Access(writer.begin, writer.read, pause, JOB_HISTORY, Calendar(config.utc_offsets))
    keep_us = now_us - config.min_job_age_s * 1_000_000
    gone: dict[str, int] = {}
    files: list[str] = []
    for kind in KINDS:  # a shorter age for steps applies to these; purging jobs purges their other steps
        if kind not in order.ages:
            continue
        until_us = cut_us(access, kind, before_us(order.ages[kind], now_us, config.utc_offsets), keep_us)
        gone[kind] = count(access, kind, until_us)
        if order.check_only or not gone[kind]:
            continue
        archive = None
        if order.folder and kind in order.archived:
            Path(order.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            archive = Archive(order.folder, config.cluster_name, kind, until_us // 1_000_000)
            files.append(str(archive.path))
        try:
            gone[kind] = purge(access, kind, until_us, archive)
        finally:
            if archive is not None:
                archive.close()
        log.info("purged %d records of %s", gone[kind], kind)
    return gone, files
