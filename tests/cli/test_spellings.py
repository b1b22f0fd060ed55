"""Options that Slurm's commands take under a second name, and old ones that scripts still have."""

import pytest

from cli import sacct, sdiag, squeue
from cli.base.options import Command, parse
from cli.base.run import CommandError
from cli.steps.stepopts import COMMAND as SRUN


@pytest.mark.parametrize(
    ("command", "word", "key", "value"),
    [
        (squeue.COMMAND, "--accounts=a", "account", "a"),
        (squeue.COMMAND, "--partitions=p", "partition", "p"),
        (squeue.COMMAND, "--part=p", "partition", "p"),
        (sdiag.COMMAND, "--clusters=c", "cluster", "c"),
        (sacct.COMMAND, "--fields=jobid", "format", "jobid"),
        (sacct.COMMAND, "--help-fields", "helpformat", True),
        (SRUN, "--cpu_bind=rank", "cpu_bind", "rank"),
        (SRUN, "--cpu-b=rank", "cpu_bind", "rank"),
    ],
)
def test_another_spelling(command: Command, word: str, key: str, value: object) -> None:
    assert parse(command, [word]).values == {key: value}


@pytest.mark.parametrize("word", ["--accel-bind=gv", "--msg-timeout=10"])
def test_old_options_draw_a_warning(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    parse(SRUN, [word])
    assert "is accepted and has no effect" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--accel-bind=x", "--accel-bind=", "--msg-timeout=x", "--cpu_bind=near"])
def test_their_values_are_checked(word: str) -> None:
    with pytest.raises(CommandError):
        parse(SRUN, [word])
