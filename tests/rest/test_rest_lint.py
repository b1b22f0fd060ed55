"""POST jobs/lint: findings by line and column, of a script that is text and nothing else: no path in it is opened, nobody in it is
looked up, nothing is written, and what is looked at is bounded.
"""

import asyncio
import builtins
import io
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest
from fakerest import FakeRest

from cli.base import users
from cli.jobs import jobwords
from cli.jobs.batchopts import COMMAND
from cli.lint.lintwords import without_lookups
from cli.steps.stepopts import COMMAND as SRUN
from penstock.client import Client
from penstock.errors import NotProven
from penstock.v1.controller_pb2 import PingReply
from penstock.values.refusals import TEXT, Code
from rest.handlers.lint import beginning, findings
from rest.limits import CALLER_REQUESTS_MAX, LINT_BYTES_MAX, LINT_FINDINGS_MAX, LINT_LINES_MAX

LINT = "/penstock/v1/jobs/lint"
SCRIPT = """#!/bin/bash
#SBATCH --nodes=4
#SBasks --ntasks-per-node=8
#SBATCH --output=logs/$SLURM_JOB_ID.out
#SBATCH --tiem=10
#SBATCH -J run#3
srun torchrun --nproc_per_node=8 train.py
#SBATCH -p late
"""


def rest() -> FakeRest:
    return FakeRest({"Ping": PingReply(user_id=7)})


def test_findings_are_those_of_sbatch_by_line_and_column():
    answer = rest().post(LINT, {"script": SCRIPT})
    assert answer.status_code == 200
    found = answer.json()
    assert found["lines_read"] == 8 and found["errors"] == found["warnings"] == []
    places = [(one["line"], one["column"], one["severity"], one["rule"]) for one in found["findings"]]
    assert places == [
        (3, 1, "warning", "misspelt-directive"), (4, 9, "warning", "shell-word"), (5, 9, "error", "bad-option"),
        (6, 12, "warning", "cut-value"), (7, 0, "warning", "n-times-n"), (8, 1, "warning", "late-directive"),
    ]  # fmt: skip
    assert found["findings"][1]["fix"] == "--output=logs/%j.out" and found["findings"][2]["fix"] == "--time=10"
    assert rest().post(LINT, {"script": "#!/bin/sh\nhostname\n"}).json()["findings"] == []
    assert [one["rule"] for one in rest().post(LINT, {}).json()["findings"]] == ["no-interpreter"]


def test_who_proves_nobody_gets_nothing():
    denied = NotProven(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
    answer = FakeRest({"Ping": denied}).post(LINT, {"script": SCRIPT})
    assert answer.status_code == 401 and "findings" not in answer.text


def test_bytes_and_signs_of_all_kinds_are_text():
    hostile = "#!/bin/sh\n#SBATCH -J \x1b[31m -p ²\n# SBATCH --time=\U0001f600\n#SBATCH é\0\ud7ff\nsrun torchrun --nproc_per_node=² \x85\n"
    answer = rest().post(LINT, {"script": hostile})
    assert answer.status_code == 200
    texts = "".join(one["text"] + one["fix"] for one in answer.json()["findings"])
    assert "\x1b" not in texts and "\0" not in texts


def _never(*args: object, **named: object) -> NoReturn:
    raise AssertionError(f"asked: {args}")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are opened; a look-up of a user and a question to the controller fail."""
    paths: list[str] = []
    plain = builtins.open

    def watched(path: Any, *args: Any, **named: Any) -> Any:
        paths.append(str(path))
        return plain(path, *args, **named)

    monkeypatch.setattr(builtins, "open", watched)
    monkeypatch.setattr(io, "open", watched)
    monkeypatch.setattr(subprocess, "Popen", _never)
    monkeypatch.setattr(Client, "open", _never)
    for module, name in ((users, "find_uid"), (jobwords, "find_uid"), (jobwords, "named_group")):
        monkeypatch.setattr(module, name, _never)
    return paths


@pytest.mark.parametrize("command", [COMMAND, SRUN], ids=["sbatch", "srun"])
def test_no_option_looks_anything_up(
    command: Any, opened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each option of the tables, with values that name a file, a user, or ask for help."""
    file = tmp_path / "nodes"
    file.write_text("n1\n")
    values = (str(file), "root", "help", "list", "all", "n1", "1", "-")
    words = [f"--{option.name}={value}" for option in command.options for value in values]
    words += [f"-{option.short}{value}" for option in command.options if option.short for value in values]
    opened.clear()
    mark = "#SBATCH" if command is COMMAND else "srun"
    for word in words:
        tail = "" if command is COMMAND else " torchrun --nproc_per_node=8"
        findings(f"#!/bin/sh\n{mark} {word}{tail}\n".encode())
    assert opened == []
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", "")


def test_the_real_tables_do_look_things_up(opened: list[str], tmp_path: Path) -> None:
    """That the test above sees what it looks for."""
    by_name = {option.name: option for option in COMMAND.options}
    file = tmp_path / "nodes"
    file.write_text("n1\n")
    opened.clear()
    assert by_name["nodefile"].convert is not None and by_name["nodefile"].convert(str(file)) == "n1"
    assert opened == [str(file)]
    for name, value in (("uid", "root"), ("gid", "root"), ("gres", "help")):
        convert = by_name[name].convert
        assert convert is not None
        with pytest.raises(AssertionError, match="asked"):
            convert(value)
    assert without_lookups(COMMAND) is without_lookups(COMMAND)


def test_what_is_looked_at_is_bounded() -> None:
    """The first whole lines of a long script, and some findings of each rule; a longer one than sbatch takes is refused."""
    line = b"#SBATCH --no-such-option\n"
    many = b"#!/bin/sh\n" + line * 5000
    assert beginning(many).count(b"\n") == LINT_LINES_MAX and beginning(many).endswith(line)
    assert len(findings(beginning(many))) == LINT_FINDINGS_MAX
    wide = b"#!/bin/sh\n" + b"x" * LINT_BYTES_MAX
    assert beginning(wide) == b"#!/bin/sh\n" and beginning(b"x" * (LINT_BYTES_MAX + 1)) == b""
    assert beginning(b"a\nb") == b"a\nb"
    answer = rest().post(LINT, {"script": many.decode()}).json()
    assert (answer["lines_read"], len(answer["findings"])) == (LINT_LINES_MAX, LINT_FINDINGS_MAX)
    large = rest().post(LINT, {"script": "#!/bin/sh\n" + "x" * 4 * 1024 * 1024})
    assert large.status_code == 422 and "4194304 bytes" in large.text


def test_it_counts_among_the_requests_in_progress() -> None:
    """Those of one caller beyond the limit are refused while the others are under way."""
    held = asyncio.Event()

    async def ping() -> PingReply:
        await held.wait()
        return PingReply(user_id=7)

    daemon = FakeRest({"Ping": lambda asked: ping()})

    async def ask_many() -> list[int]:
        async with daemon.session() as session:
            headers = {"X-SLURM-USER-TOKEN": "a.b.c"}
            ask = [session.post(LINT, json={"script": SCRIPT}, headers=headers) for _ in range(CALLER_REQUESTS_MAX)]
            under_way = [asyncio.ensure_future(one) for one in ask]
            while len(daemon.calls) < CALLER_REQUESTS_MAX:
                await asyncio.sleep(0)
            refused = await session.post(LINT, json={"script": SCRIPT}, headers=headers)
            held.set()
            return [refused.status_code, *{one.status_code for one in await asyncio.gather(*under_way)}]

    assert asyncio.run(ask_many()) == [429, 200]


def test_nothing_of_it_is_on_the_daemons_output(capsys: pytest.CaptureFixture[str]) -> None:
    """sbatch says of an option without effect that it has none."""
    assert rest().post(LINT, {"script": "#!/bin/sh\n#SBATCH --power=x --stepmgr\n"}).json()["findings"] == []
    assert capsys.readouterr().err == ""
