"""What a real Slurm answered to a thousand command lines, recorded, and what Penstock answers to the same ones.

The reference is in tests/support/differential (recorded.json; which Slurm, and how to record it again, is said there). A difference is
meant (known.toml, with a reason), or it is an open debt (open.txt), or it fails here.
"""

import pytest
from differential.__main__ import COMMANDS
from differential.accounts.__main__ import ACCOUNTS
from differential.comparison import Comparison

pytestmark = pytest.mark.root


@pytest.mark.parametrize("comparison", [COMMANDS, ACCOUNTS], ids=["commands", "accounts"])
def test_command_lines_are_answered_as_slurm_answers_them(comparison: Comparison) -> None:
    new = comparison.new_differences()
    assert not new, "\n".join(f"$ {line}\n  Slurm {theirs}\n  ours  {own}" for line, (theirs, own) in new.items())
    recorded = len(comparison.recorded())
    assert recorded == len(comparison.lines()), "commands/*.txt has changed: record again, with a real Slurm"
