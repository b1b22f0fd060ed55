"""A job's options as keyword arguments, and what is made of a script: the values of sbatch, and its refusals by class."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from sdk.errors import InvalidRequest
from sdk.options import JobOptions, offered, option_values
from sdk.request import from_command, from_script_file, from_text, submission


def test_the_keyword_arguments_are_the_options_of_sbatch() -> None:
    assert set(JobOptions.__annotations__) == offered()


def test_values_of_python() -> None:
    values = option_values(
        time=timedelta(days=1, hours=2, seconds=0.5), gpus_per_node="h200:2", mem="4G", hold=True, requeue=False,
        nodelist=["n1", "n2"], nodes="1-2", begin=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
    )  # fmt: skip
    assert values.number("time") == 26 * 3600 + 60, "limits are whole minutes, rounded up"
    assert values.number("mem") == 4096
    assert values.flag("hold")
    assert values.text("nodelist") == "n1,n2"
    assert values.numbers("nodes") == (1, 2)
    assert values.number("begin") == 1_893_553_445 * 1_000_000
    assert "requeue" not in values


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nodez": 1}, "nodez is no option of a job"),
        ({"nodes": "many"}, "nodes='many': "),
        ({"time": timedelta(seconds=-1)}, "negative duration"),
        ({"dependency": "afterwards:1"}, "dependency='afterwards:1': "),
        ({"cpus_per_task": 0}, "cpus_per_task=0: "),
        ({"gpu_freq": object()}, "is no value of an option"),
        ({"uid": 0}, "uid is no option of a job"),
        ({"hint": "help"}, "hint='help' asks for a list of values"),
    ],
)
def test_what_is_no_option_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        option_values(**options)
    assert said in caught.value.text
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, PenstockError)


def test_arguments_override_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SBATCH_PARTITION", "of_the_shell")
    path = tmp_path / "train.sbatch"
    path.write_text("#!/bin/sh\n#SBATCH -n4 --time=10 --job-name=fromscript\n#SBATCH --comment='two words'\ntrue\n")
    request = submission(from_script_file(path, ["a b", "*"]), {"EXTRA": "1"}, "", False, ntasks=2)
    job = request.job
    assert (job.ntasks, job.time_limit_s, job.name, job.comment) == (2, 600, "fromscript", "two words")
    assert job.command == str(path) and job.work_dir == str(tmp_path).encode()
    assert list(job.partitions) == []
    assert list(request.spec.argv) == [b"a b", b"*"]
    assert b"EXTRA=1" in request.spec.environment
    assert len(request.request_key) == 32


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Batch script is empty"),
        ("true\n", "This does not look like a batch script"),
        ("#!/bin/sh\n#SBATCH --nonsense\n", "line 2: #SBATCH --nonsense"),
        ("#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\n", "line 3: heterogeneous jobs"),
    ],
)
def test_what_is_no_script_is_refused_before_it_is_sent(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        submission(from_text(text, ()), {}, "", False)
    assert said in caught.value.text


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="Unable to open file"):
        from_script_file(tmp_path / "none", ())


def test_no_shell_interprets_a_command() -> None:
    program = from_command(["echo", "$HOME; rm -rf /", "`id`"])
    assert program.script == b'#!/bin/sh\nexec "$@"\n'
    assert program.arguments == ("echo", "$HOME; rm -rf /", "`id`")
    with pytest.raises(InvalidRequest, match="the command is empty"):
        from_command([])
