"""What a real Slurm answered to a thousand command lines, recorded, and what Penstock answers to the same ones.

The reference is in tests/support/differential (recorded.json; which Slurm, and how to record it again, is said there). A difference is
meant (known.toml, with a reason), or it is an open debt (open.txt), or it fails here.
"""

import pytest
from differential.__main__ import ask, recorded
from differential.judge import known, open_lines
from differential.lines import lines
from differential.peers import Ours

pytestmark = pytest.mark.root


def test_command_lines_are_answered_as_slurm_answers_them() -> None:
    slurm = recorded()
    debts = open_lines()
    chosen = [line for line in lines() if line in slurm]
    ours = ask(Ours, chosen)
    judge = known().judge
    new = {
        line: (slurm[line], ours[line])
        for line in chosen
        if line not in debts and not judge(line, slurm[line], ours[line])
    }
    assert not new, "\n".join(f"$ {line}\n  Slurm {theirs}\n  ours  {own}" for line, (theirs, own) in new.items())
    assert len(slurm) == len(lines()), "commands/*.txt has changed: python -m differential record, with slurm-wlm"
