"""Prints a refusal of the controller in Slurm's lines, each complete, so that a tool can compare it.

    sbatch: error: invalid partition specified: nosuch                     <- Slurm's line before it, where it has one
    sbatch: error: Batch job submission failed: Invalid partition name specified
    sbatch: nosuch                                                         <- what the controller added, on a line of its own

The controller sends Slurm's message and its own explanation in one text (`ctld.core.records.effects.Refused`); this
module splits it.
"""

from penstock.errors import PenstockError
from penstock.values.refusals import REBOOT_DENIED, TEXT, Code

#: The part of a request that no node satisfies: Slurm's first line, with which the controller's explanation begins.
UNSATISFIED = " can not be satisfied"
#: The same for a step that requests GRES of a kind that its job does not have.
NO_GRES = "Step requested GRES but job doesn't have GRES"


def split_message(error: PenstockError) -> tuple[str, str]:
    """Splits Slurm's message from the explanation after it ("" = none)."""
    return split_text(error.code, error.text, error.detail)


def split_text(code: int, text: str, detail: str = "") -> tuple[str, str]:
    """Splits a code and a text the same way."""
    words = TEXT.get(code, "") if code in TEXT else ""  # type: ignore[call-overload]
    if not words or not text.startswith(f"{words}: "):
        return text, detail
    own = text[len(words) + 2 :]
    return words, f"{own}\n{detail}" if detail else own


def lines_of(name: str, before: str, error: PenstockError) -> str:
    """All lines of the refusal, for a CommandError that is plain. `before` precedes Slurm's words."""
    words, detail = split_message(error)
    first, _, rest = detail.partition(": ")  # an update that was stored for later has not failed
    lines = []
    if error.code == Code.FILTER_REFUSED:  # the site's own words are errors, and come first
        lines += [f"{name}: error: {line}" for line in detail.split("\n") if line]
        detail = ""
    elif error.code == Code.INVALID_PARTITION and detail:
        lines.append(f"{name}: error: invalid partition specified: {detail}")
        detail = ""
    elif first.endswith(UNSATISFIED) or first in (NO_GRES, REBOOT_DENIED):
        lines.append(f"{name}: error: {first}")
        detail = rest
    lines.append(f"{name}: error: {words}" if error.code == Code.STORAGE_WAITS else f"{before}: {words}")
    lines += [f"{name}: {line}" for line in detail.split("\n") if line]
    return "\n".join(lines)
