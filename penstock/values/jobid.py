"""Parses ids of jobs, array tasks, het components and steps: `123`, `123_4`, `123_[0-9,12%2]`, `123+0`, `123.0`,
`123_4.batch`; and by a job's SLUID, `s35AFRG0000007` or `s1HF7YAT000007.0`.

A selector represents the text, not existing jobs: the controller looks them up. A `%limit` inside the brackets, as
squeue prints it, is accepted and dropped.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.values.allowance import Allowance
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.taskset import ARRAY_TEXT_MAX, TASK_ID_MAX, TaskSet
from penstock.values.text import shown

BATCH_STEP = -5
EXTERN_STEP = -4
INTERACTIVE_STEP = -6
#: No step: in a greeting at a node's stream port, for the reading of output files (OutputTicket).
OUTPUT_STEP = -20

JOB_ID_MAX = 2**31 - 1  # fits all 32-bit fields that hold job ids
STEP_ID_MAX = 2**31 - 1
HET_OFFSET_MAX = 127  # Slurm's limit of components in a het job is 128
SELECTORS_TEXT_MAX = 2 * 1024 * 1024  # the longest command line that Linux allows

_STEP_NAMES = {BATCH_STEP: "batch", EXTERN_STEP: "extern", INTERACTIVE_STEP: "interactive"}
_STEP_IDS = {name: step_id for step_id, name in _STEP_NAMES.items()}


@dataclass(frozen=True, slots=True)
class JobSelector:
    job_id: int
    tasks: TaskSet | None = None
    step_id: int | None = None
    het_offset: int | None = None
    submitted_s: int | None = None  # of a SLUID, which selects one record: its submission, in seconds since 1970

    def is_of(self, job_id: int, submit_at_us: int) -> bool:
        """Whether a SLUID is that of the record."""
        return (self.job_id, self.submitted_s) == (job_id, submit_at_us // 1_000_000)


def parse_selector(text: str, allowance: Allowance | None = None) -> JobSelector:
    """Parses one selector: a job, some of its tasks, a component or a step. `allowance`: that of the request."""
    if allowance is not None:
        allowance.read(text)
    try:
        head, dot, step_text = text.partition(".")
        step_id = _parse_step(step_text) if dot else None
        if len(head) == SLUID_LENGTH and head[0] == "s":
            submitted_s, job_id = parse_sluid(head)
            return JobSelector(job_id, step_id=step_id, submitted_s=submitted_s)
        head, plus, het_text = head.partition("+")
        het_offset = parse_int(het_text, 0, HET_OFFSET_MAX, "het job component") if plus else None
        job_text, underscore, tasks_text = head.partition("_")
        tasks = _parse_tasks(tasks_text, allowance) if underscore else None
        return JobSelector(parse_int(job_text, 1, JOB_ID_MAX, "job id"), tasks, step_id, het_offset)
    except BadValue as error:
        why = str(error).removeprefix("Invalid job id: ")  # it is said once
        raise BadValue(f"Invalid job id {shown(text)}: {why}") from None


def parse_all(texts: Iterable[str]) -> tuple[JobSelector, ...]:
    """Parses all ids of a request, within one allowance."""
    allowance = Allowance()
    return tuple(parse_selector(text, allowance) for text in texts)


def _parse_step(text: str) -> int:
    named = _STEP_IDS.get(text)
    return parse_int(text, 0, STEP_ID_MAX, "step id") if named is None else named


def _parse_tasks(text: str, allowance: Allowance | None) -> TaskSet:
    if not text.startswith("["):
        return TaskSet.of([parse_int(text, 0, TASK_ID_MAX, "task id")])
    if not text.endswith("]"):
        raise BadValue("']' is missing")
    if len(text) > ARRAY_TEXT_MAX:
        raise BadValue(f"task list of {len(text)} characters, the limit is {ARRAY_TEXT_MAX}")
    ids, percent, throttle = text[1:-1].partition("%")
    if percent:
        parse_int(throttle, 0, TASK_ID_MAX, "limit after '%'")
    if not ids:
        raise BadValue("the task list is empty")
    return TaskSet.parse(ids, allowance)


def parse_selectors(text: str) -> list[JobSelector]:
    """Parses a comma-separated list of selectors; commas inside brackets belong to the task list."""
    if len(text) > SELECTORS_TEXT_MAX:
        raise BadValue(f"Invalid list of job ids: {len(text)} characters, the limit is {SELECTORS_TEXT_MAX}")
    items: list[list[str]] = []
    inside = False
    for piece in text.split(","):
        if inside:
            items[-1].append(piece)
        else:
            items.append([piece])
        inside = "]" not in piece and (inside or "[" in piece)
    return [parse_selector(",".join(pieces)) for pieces in items]


def format_step(step_id: int) -> str:
    """Formats a step as `batch`, `extern`, `interactive` or its number."""
    return _STEP_NAMES.get(step_id) or str(step_id)


def format_job(job_id: int, array_job_id: int, array_task_id: int | None) -> str:
    """Formats a job as `123_4` if it is an array task, else `123`."""
    return str(job_id) if array_task_id is None else f"{array_job_id}_{array_task_id}"


_SLUID_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SLUID_VALUES = {digit: value for value, digit in enumerate(_SLUID_DIGITS)}
SLUID_LENGTH = 14
_SLUID_SECONDS_MAX = 2**33 - 1


def format_sluid(submit_at_us: int, job_id: int) -> str:
    """Formats a job's sortable unique id: `s` and 13 digits of Crockford's base 32, from submit time and job id.

    The value has 64 bits: the seconds since 1970 (33), then the job id (31). Ids ascend, so SLUIDs sort by submission.
    Either part can be read back; the time tells a job from one of another cluster that has the same id.
    """
    number = (submit_at_us // 1_000_000 << 31) | job_id
    digits = []
    for _ in range(SLUID_LENGTH - 1):
        number, low = divmod(number, 32)
        digits.append(_SLUID_DIGITS[low])
    return "s" + "".join(reversed(digits))


def parse_sluid(text: str) -> tuple[int, int]:
    """Returns the seconds since 1970 and the job id. Raises BadValue."""
    number = 0
    for digit in text[1:]:
        value = _SLUID_VALUES.get(digit)
        if value is None:
            raise BadValue(f"{shown(digit)} is no digit of a SLUID")
        number = number * 32 + value
    submitted_s, job_id = number >> 31, number & JOB_ID_MAX
    if not job_id or submitted_s > _SLUID_SECONDS_MAX:
        raise BadValue("no job has this SLUID")
    return submitted_s, job_id
