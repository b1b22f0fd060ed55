"""The page for administrators shows what the command really prints."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.subcommands.configcheck import main
from penstock.config.keys import GLOBALS

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
BLOCKS = re.findall(r"```(?:conf|text)\n(.*?)```", PAGE, re.DOTALL)

#: The slips of the second output.
SLIPS = (("GresTypes=gpu", "GresTyps=gpu"), ("MaxTime=2-0", "MaxTime=2days"), ("Nodes=cpu[01-20]", "Nodes=cpu[01-24]"))


@pytest.mark.parametrize("wrong", [False, True])
def test_the_examples(wrong: bool, write: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    example, right_output, wrong_output = BLOCKS
    for old, new in SLIPS if wrong else ():
        assert old in example
        example = example.replace(old, new)
    assert main([write(example)]) == (78 if wrong else 0)
    out = capsys.readouterr()
    assert out.out + out.err == (wrong_output if wrong else right_output)


def test_parameters_of_penstock_are_all_there() -> None:
    assert all(f"`{key.name}`" in PAGE for key in GLOBALS.keys if key.name.startswith("Penstock"))
