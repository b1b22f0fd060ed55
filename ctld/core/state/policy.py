"""Scheduling parameters (SchedulerParameters and its relatives) as the numbers that passes use. Names of the
parameters: slurm.conf(5).

Slurm's defaults are exceeded: without bf_window, bf_max_job_test and bf_max_job_array_resv in the file the whole queue
is planned without a time bound, since a full plan takes a second and blocks nothing.
"""

from typing import NamedTuple

from _fastsched.contract import FOREVER
from penstock.values.config import Config
from penstock.values.duration import parse_duration_s

US = 1_000_000
#: Rows of the quick pass (default_queue_depth). With 128 rows a pass on 1,000 nodes takes about a millisecond.
QUICK_DEPTH = 128
#: Tasks of one array that are planned ahead (bf_max_job_array_resv), as in Slurm.
ARRAY_COPIES = 20
#: Slurm's bf_resolution, seconds.
RESOLUTION_S = 60
#: Least pause between full passes where bf_interval is not given, and the longest time for one (bf_max_time).
INTERVAL_S, PASS_S_MAX = 1, 30
MANY = 1 << 30
#: Delay before a requeued job may start again.
REQUEUE_DELAY_S = 1

_RESERVE = {"CONSERVATIVE": -1, "EASY": 1, "NONE": 0, "FIFO": 0}


class BackfillPolicy(NamedTuple):
    """The parameters of one configuration."""

    quick_depth: int = QUICK_DEPTH
    interval_us: int = INTERVAL_S * US
    pass_s_max: int = PASS_S_MAX
    resolution_s: int = RESOLUTION_S
    window_s: int = FOREVER
    rows_max: int = MANY
    copies_max: int = ARRAY_COPIES
    user_max: int = MANY
    partition_max: int = MANY
    assoc_max: int = MANY
    min_age_reserve_s: int = 0
    reserve_max: int = -1
    estimate: bool = True
    switch_wait_s: int = 300  # max_switch_wait
    requeue_delay_s: int = REQUEUE_DELAY_S  # requeue_delay
    limit_stop: bool = False  # assoc_limit_stop: no job overtakes one that a limit blocks
    strict: bool = False  # FIFO: no row overtakes the first that waits
    order: str = "priority"  # of the backfill candidates: priority, or shortest (queue/prediction.py)
    predict: bool = False  # shortest by prediction; else by the limit


def _as_s(text: str) -> int:
    """Parses a number, or a time with colons."""
    return parse_duration_s(text) if ":" in text else int(text)


def backfill_policy(config: Config) -> BackfillPolicy:
    """Reads the parameters; the parser has checked that numbers are numbers."""
    given = dict(config.scheduler_parameters)

    def number(name: str, default: int, unlimited: int = MANY) -> int:
        text = given.get(name, "")
        return (int(text) or unlimited) if text else default

    kind = config.penstock_backfill.upper()
    return BackfillPolicy(
        quick_depth=number("default_queue_depth", QUICK_DEPTH),
        interval_us=number("bf_interval", INTERVAL_S) * US,
        pass_s_max=number("bf_max_time", PASS_S_MAX),
        resolution_s=number("bf_resolution", RESOLUTION_S, 1),
        window_s=number("bf_window", 0, 0) * 60 or FOREVER,
        rows_max=number("bf_max_job_test", MANY),
        copies_max=number("bf_max_job_array_resv", ARRAY_COPIES, 0),
        user_max=number("bf_max_job_user", MANY),
        partition_max=number("bf_max_job_part", MANY),
        assoc_max=number("bf_max_job_assoc", MANY),
        min_age_reserve_s=number("bf_min_age_reserve", 0, 0),
        reserve_max=_RESERVE[kind] if kind in _RESERVE else int(kind),
        estimate=config.penstock_backfill_estimate,
        switch_wait_s=_as_s(given.get("max_switch_wait", "300")),
        requeue_delay_s=number("requeue_delay", REQUEUE_DELAY_S, 0),
        limit_stop="assoc_limit_stop" in given,
        strict=kind == "FIFO",
        order=config.penstock_backfill_order,
        predict=config.penstock_backfill_predictor == "history",
    )
