"""Parses SchedulerParameters: a list of flags and numbers inside one value.

All pairs are kept for the scheduler. Numbers are validated here, so that an invalid one is reported at load time and
not by a running scheduler. words.py lists the words that have an effect.
"""

from penstock.config.problem import Findings, Where
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.fields import Fields
from penstock.values.numbers import parse_int


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Parameters that take a number of at least 0.
_NUMBERS = _words(
    """
    batch_sched_delay bb_array_stage_cnt bf_interval bf_job_part_count_reserve bf_max_job_array_resv bf_max_job_assoc
    bf_max_job_part bf_max_job_start bf_max_job_test bf_max_job_user bf_max_job_user_part bf_max_time
    bf_min_age_reserve bf_min_prio_reserve bf_node_space_size bf_resolution bf_topopt_iterations bf_window
    bf_window_linear bf_yield_interval bf_yield_sleep build_queue_timeout correspond_after_task_cnt
    default_queue_depth delay_boot max_array_tasks max_depend_depth max_rpc_cnt max_sched_time
    max_script_size max_submit_line_size max_switch_wait partition_job_depth preempt_reorder_count requeue_delay
    sched_interval sched_max_job_start sched_min_interval step_retry_count step_retry_time
    """
)

#: Parameters that are stored in a field of `Config`: the field, the minimum and the maximum.
_FIELDS = {
    "max_script_size": ("max_script_bytes", 1024, 512 * 1024 * 1024),
    "sched_interval": ("sched_interval_s", 1, 86400),
}

#: The maximum of any of them: Slurm's 32-bit signed field.
_NUMBER_MAX = 2**31 - 1

FIELD_OF_PARAMETER = {name: field for name, (field, _, _) in _FIELDS.items()}


def read_scheduler_parameters(pairs: tuple[tuple[str, str], ...], where: Where, findings: Findings) -> Fields:
    """Reads the parameters that are fields of `Config`."""
    fields: Fields = {}
    for name, value in pairs:
        if name not in _NUMBERS:
            continue
        field, low, high = _FIELDS.get(name, ("", 0, _NUMBER_MAX))
        try:
            if name == "max_switch_wait" and ":" in value:
                parse_duration_s(value)
                continue
            number = parse_int(value, low, high, name)
        except BadValue as problem:
            findings.error(where, f"SchedulerParameters: {problem}")
            continue
        if field:
            fields[field] = number
    return fields
