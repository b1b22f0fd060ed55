"""Expands Slurm's `%` symbols in the names of output files.

`%A` array's job id, `%a` task's index (`%b` modulo 10), `%J` job.step, `%j` job id, `%N` short node name, `%n` index of
the node in the job, `%r` restart count, `%S` sortable unique id, `%s` step, `%t` rank of the task, `%u` user, `%x` job
name, `%%` a percent sign. A number after the percent sign pads a numeric value with zeros (`%5j`), up to ten digits as
in Slurm. A backslash anywhere disables replacement; the backslashes themselves are removed. Other symbols are
unchanged.

Patterns are bytes, because paths are. User and job names cannot select another folder. The node makes the name
absolute, creates folders and opens the file as the job's user.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.values.errors import BadValue
from penstock.values.jobid import BATCH_STEP, format_step
from penstock.values.text import check_no_nul, safe_component, shown

PATH_BYTES_MAX = 4095  # the kernel's PATH_MAX without the closing NUL
PAD_WIDTH_MAX = 10  # as many digits as a 32-bit id has
_NO_TASK = 4294967294  # Slurm's value of %a outside an array


@dataclass(frozen=True, slots=True)
class FileNames:
    """The values of the symbols. `short_node` defaults to `node_name` up to the first dot."""

    job_id: int
    array_job_id: int = 0
    array_task_id: int | None = None
    job_name: str = ""
    user_name: str = ""
    node_name: str = ""
    short_node: str = ""
    node_index: int = 0
    step: int = BATCH_STEP
    task_id: int = 0
    restart_count: int = 0
    sluid: str = ""


def _array_task(names: FileNames) -> int:
    return _NO_TASK if names.array_task_id is None else names.array_task_id


def _array_job(names: FileNames) -> int:
    return names.job_id if names.array_task_id is None else names.array_job_id


_NUMBERS: dict[str, Callable[[FileNames], int]] = {
    "A": _array_job,
    "a": _array_task,
    "b": lambda names: _array_task(names) % 10,
    "j": lambda names: names.job_id,
    "n": lambda names: names.node_index,
    "r": lambda names: names.restart_count,
    "t": lambda names: names.task_id,
}

_WORDS: dict[str, Callable[[FileNames], str]] = {
    "N": lambda names: safe_component(names.short_node or names.node_name.partition(".")[0]),
    "S": lambda names: safe_component(names.sluid) or "%S",
    "u": lambda names: safe_component(names.user_name),
    "x": lambda names: safe_component(names.job_name),
    "%": lambda names: "%",
}


def expand_pattern(pattern: bytes, values: FileNames) -> bytes:
    """Returns the file name for one task. Raises BadValue for a NUL byte or a name that is too long for the kernel."""
    check_no_nul(pattern, "file name pattern")
    if b"\\" in pattern:
        return _checked(_without_backslashes(pattern), pattern)
    text = pattern.decode("utf-8", "surrogateescape")
    out: list[str] = []
    at = 0
    while (percent := text.find("%", at)) >= 0:
        out.append(text[at:percent])
        symbol_at = percent + 1
        while symbol_at < len(text) and text[symbol_at] in "0123456789":
            symbol_at += 1
        at = symbol_at + 1
        found = _value(text[symbol_at : symbol_at + 1], text[percent + 1 : symbol_at], values)
        out.append(text[percent:at] if found is None else found)
    out.append(text[at:])
    return _checked("".join(out).encode("utf-8", "surrogateescape"), pattern)


def _value(symbol: str, width_text: str, names: FileNames) -> str | None:
    """Returns the text for one symbol, or None if it is unknown. A width applies to numbers only."""
    # The slice bounds the work of int(); a longer number exceeds the greatest width anyway.
    width = min(int(width_text.lstrip("0")[:3] or "0"), PAD_WIDTH_MAX)
    if symbol in _NUMBERS:
        return f"{_NUMBERS[symbol](names):0{width}d}"
    if symbol == "J":  # the batch step is shown as the job
        job = f"{names.job_id:0{width}d}"
        return job if names.step == BATCH_STEP else f"{job}.{format_step(names.step)}"
    if symbol == "s":
        return format_step(names.step).zfill(width) if names.step >= 0 else format_step(names.step)
    return _WORDS[symbol](names) if symbol in _WORDS else None


def _without_backslashes(pattern: bytes) -> bytes:
    r"""Replaces `\x` by `x`, and therefore `\\` by one backslash."""
    out = bytearray()
    escaped = False
    for byte in pattern:
        if byte == 0x5C and not escaped:
            escaped = True
        else:
            out.append(byte)
            escaped = False
    return bytes(out)


def _checked(name: bytes, pattern: bytes) -> bytes:
    if len(name) > PATH_BYTES_MAX:
        text = shown(pattern.decode("utf-8", "replace"))
        raise BadValue(
            f"Invalid file name pattern {text}: the name has {len(name)} bytes, the limit is {PATH_BYTES_MAX}"
        )
    return name


def default_output(is_array: bool) -> bytes:
    """Returns the default output file of a batch job."""
    return b"slurm-%A_%a.out" if is_array else b"slurm-%j.out"
