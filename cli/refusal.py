"""A refusal of the controller in Slurm's lines, each whole, so that a tool may compare it.

    sbatch: error: invalid partition specified: nosuch                     <- what Slurm says before, where it does
    sbatch: error: Batch job submission failed: Invalid partition name specified
    sbatch: nosuch                                                         <- what the controller added, on a line of its own

The controller sends Slurm's words and its own behind them (`ctld.core.effects.Refused`); here they come apart again.
"""

from penstock.errors import PenstockError
from penstock.values.refusals import TEXT, Code

#: What of a request no node can give: Slurm's first line, with which the controller's explanation begins.
UNSATISFIED = " can not be satisfied"


def parted(error: PenstockError) -> tuple[str, str]:
    """Slurm's words, and what is said behind them ("" = nothing)."""
    return parted_text(error.code, error.text, error.detail)


def parted_text(code: int, text: str, detail: str = "") -> tuple[str, str]:
    """The same of a code and a text."""
    words = TEXT.get(code, "") if code in TEXT else ""  # type: ignore[call-overload]
    if not words or not text.startswith(f"{words}: "):
        return text, detail
    own = text[len(words) + 2 :]
    return words, f"{own}\n{detail}" if detail else own


def lines_of(name: str, before: str, error: PenstockError) -> str:
    """All lines of the refusal, for a CommandError that is plain. `before` stands before Slurm's words."""
    words, detail = parted(error)
    first, _, rest = detail.partition(": ")
    lines = []
    if error.code == Code.INVALID_PARTITION and detail:
        lines.append(f"{name}: error: invalid partition specified: {detail}")
        detail = ""
    elif first.endswith(UNSATISFIED):
        lines.append(f"{name}: error: {first}")
        detail = rest
    lines.append(f"{before}: {words}")
    lines += [f"{name}: {line}" for line in detail.split("\n") if line]
    return "\n".join(lines)
