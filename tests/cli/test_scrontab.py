"""scrontab against a controller that answers from a table: what is read, what is refused, what is printed."""

import io
import os
import pwd
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.jobs.crontab import CRONTAB_BYTES_MAX, Owner, mark, read
from cli.scrontab import body
from penstock.errors import PenstockError
from penstock.v1.periodic_pb2 import GetCrontabReply, LineRange, UpdateCrontabReply
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body

ANN = Owner("ann", "/home/ann", "/bin/bash")
ME = pwd.getpwuid(os.getuid())


def run(capsys: Any, *argv: str) -> tuple[int, str, str]:
    return run_body(capsys, "scrontab", body, *argv)


def fake(monkeypatch: Any, **answers: Any) -> FakeClient:
    table = {"GetCrontab": GetCrontabReply(), "UpdateCrontab": UpdateCrontabReply(job_ids=[7]), **answers}
    return FakeClient(**table).install(monkeypatch)


def give(monkeypatch: Any, text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def refusal(code: Code) -> PenstockError:
    return PenstockError(int(code), TEXT[code])


def test_an_entry_is_a_batch_job_of_its_owner() -> None:
    text = "# c\nWHO = 'you all'\nA=1\n\n#SCRON -t 5 --mem=1G\n#SCRON -J greet\n  */5 8-18 * * mon-fri  echo $WHO ${A} $AB $$ %\n@daily /bin/true\n"
    entries, mistakes = read(text, ANN)
    assert not mistakes and len(entries) == 2
    first, second = entries
    assert (first.cron, first.lines.first, first.lines.last) == ("0,5,10,15,20,25,30,35,40,45,50,55 8-18 * * 1-5", 5, 7)
    assert (first.job.name, first.job.time_limit_s, first.job.mem_per_node_mb) == ("greet", 300, 1024)
    assert first.spec.script.decode() == (
        "#!/bin/sh\n# This job was submitted through scrontab\n#SCRON -t 5 --mem=1G\n#SCRON -J greet\n"
        "# crontab time request was: '*/5 8-18 * * mon-fri'\necho you all 1 $AB $$ %\n"
    )
    assert (first.job.work_dir, first.job.submit_dir) == (b"/home/ann", b"/home/ann")
    assert b"HOME=/home/ann" in first.spec.environment and first.job.get_user_env
    # Options are of one entry.
    assert (second.cron, second.job.name, second.lines.first) == ("0 0 * * *", "/bin/true", 8)
    assert not second.job.HasField("time_limit_s")


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("0 25 * * * true", 1, 2, "hour 25 is not between 0 and 23"),
        ("\n\n  61 * * * * true", 3, 2, "minute 61"),
        ("* * * * *", 1, 9, "there is no command"),
        ("@hourly", 1, 7, "there is no command"),
        ("@reboot true", 1, 0, "@reboot is not one of"),
        ("true", 1, 0, "'true' is no minute"),
        ("* * * * * " + "x" * 5000, 1, 5010, "the limit is 4096"),
        ("#SCRON --nonsense\n@daily true", 1, -1, "unrecognized option '--nonsense'"),
        ("#SCRON --time=abc\n@daily true", 1, -1, "--time"),
        ("#SCRON --array=1-3\n@daily true", 1, -1, "unrecognized option '--array'"),
        ("#SCRON --begin=now\n@daily true", 1, -1, "unrecognized option '--begin'"),
        ("#SCRON -t 5 script.sh\n@daily true", 1, -1, "Invalid option found in #SCRON line: script.sh"),
        ("#SCRON -J 'x\n@daily true", 1, -1, "Unmatched"),
        ("#SCRON --help\n@daily true", 1, -1, "mean nothing here"),
        ("@daily true\n#SCRON -t 5\n# c\n", 2, -1, "no entry follows these options"),
        ("@daily \x1b[31m", 1, -1, "job name"),
    ],
)
def test_mistakes_have_a_line_and_a_column(text: str, line: int, column: int, words: str) -> None:
    _, mistakes = read(text, ANN)
    assert len(mistakes) == 1
    assert (mistakes[0].line, mistakes[0].column) == (line, column) and words in mistakes[0].text


def test_all_mistakes_are_told_and_nothing_is_sent(monkeypatch: Any, capsys: Any) -> None:
    client = fake(monkeypatch)
    give(monkeypatch, "0 25 * * * a\n@weekly true\n#SCRON --x\n@daily b\n")
    assert run(capsys, "-") == (
        1,
        "There are errors in your crontab.\n",
        "scrontab: error: line 1: hour 25 is not between 0 and 23\nscrontab: error: 0 25 * * * a\n"
        "scrontab: error:   ^\nscrontab: error: line 3: unrecognized option '--x'\n",
    )
    assert [method for method, _ in client.calls] == ["GetCrontab"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"@daily a\n@daily \xff\n", "line 2 is not UTF-8 from byte 8 on"),
        (b"@daily a\0b\n", "line 1 has a NUL character"),
        (b"#" * (CRONTAB_BYTES_MAX + 1), f"more than {CRONTAB_BYTES_MAX} bytes"),
    ],
)
def test_what_is_no_text(monkeypatch: Any, capsys: Any, data: bytes, words: str) -> None:
    fake(monkeypatch)
    give(monkeypatch, data)
    status, out, err = run(capsys)
    assert (status, out) == (1, "") and words in err


def test_a_file_without_an_end_is_named(monkeypatch: Any, capsys: Any) -> None:
    fake(monkeypatch)
    found = run(capsys, "/dev/zero")
    assert found == (
        1,
        "",
        f"scrontab: error: /dev/zero: the crontab has more than {CRONTAB_BYTES_MAX} bytes, which is the limit\n",
    )


def test_a_file_is_taken_whole(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    client = fake(monkeypatch)
    path = tmp_path / "tab"
    path.write_text("# mine\n@daily true\n")
    assert run(capsys, str(path)) == (0, "", "")
    request = client.calls[-1][1]
    assert (request.text, len(request.entries), request.user) == ("# mine\n@daily true\n", 1, "")
    assert run(capsys, "-v", "-u", ME.pw_name, str(path)) == (0, "", "scrontab: jobs: 7\n")
    assert client.calls[-1][1].user == ME.pw_name
    status, _, err = run(capsys, str(tmp_path / "none"))
    assert (status, err) == (1, f"scrontab: fatal: failed to open {tmp_path / 'none'}: No such file or directory\n")


def test_what_the_controller_refuses_is_told_with_its_lines(monkeypatch: Any, capsys: Any) -> None:
    text = "Invalid partition name specified: nowhere"
    reply = UpdateCrontabReply(failed_lines=LineRange(first=3, last=4), code=2000, text=text)
    fake(monkeypatch, UpdateCrontab=reply)
    give(monkeypatch, "\n\n#SCRON -p nowhere\n@daily true\n")
    assert run(capsys, "-") == (
        1,
        "There was an issue with the job submission on lines 3-4\n"
        "The error code return was: Invalid partition name specified\n"
        f"The error message was: {text}\n",
        "",
    )


def test_list_and_remove(monkeypatch: Any, capsys: Any) -> None:
    fake(monkeypatch)
    assert run(capsys, "-l") == (1, f"no crontab for {ME.pw_name}\n", "")
    shown = GetCrontabReply(found=True, text="a\nb\nc\nd\n", disabled=[LineRange(first=2, last=3)])
    client = fake(monkeypatch, GetCrontab=shown)
    assert run(capsys, "-l") == (0, "a\n#DISABLED: b\n#DISABLED: c\nd\n", "")
    assert run(capsys, "-r") == (0, "", "") and client.calls[-1][1].remove
    fake(monkeypatch, UpdateCrontab=refusal(Code.NO_CRONTAB))
    assert run(capsys, "-r") == (0, "", "")


@pytest.mark.parametrize("argv", [["-l"], ["-r"], ["-"]])
def test_where_it_is_disabled(monkeypatch: Any, capsys: Any, argv: list[str]) -> None:
    fake(monkeypatch, GetCrontab=refusal(Code.CRON_DISABLED), UpdateCrontab=refusal(Code.CRON_DISABLED))
    give(monkeypatch, "nonsense")
    assert run(capsys, *argv) == (1, "", "scrontab: fatal: scrontab is disabled on this cluster\n")


@pytest.mark.parametrize("argv", [["-l", "-r"], ["-e", "x"], ["x", "y"]])
def test_one_thing_at_a_time(monkeypatch: Any, capsys: Any, argv: list[str]) -> None:
    client = fake(monkeypatch)
    status, _, err = run(capsys, *argv)
    assert status == 1 and "one of -e, -l, -r or a file" in err and not client.calls


def test_an_unknown_user_and_no_terminal(monkeypatch: Any, capsys: Any) -> None:
    fake(monkeypatch)
    assert run(capsys, "-u", "no such", "-l") == (1, "", "scrontab: fatal: Could not find user no such\n")
    give(monkeypatch, "")
    assert run(capsys, "-e") == (1, "", "scrontab: fatal: Standard input is not a TTY\n")


def editor(monkeypatch: Any, tmp_path: Path, *texts: str) -> Path:
    """An editor that writes these texts, one after the other, and keeps what it was given."""
    for number, text in enumerate(texts):
        (tmp_path / f"next{number}").write_text(text)
    path = tmp_path / "my editor"
    path.write_text(
        f'#!/bin/sh\ncd {tmp_path}\nn=$(ls | grep -c "^given")\ncp "$2" given$n\nstat -c %a "$2" > mode\n'
        'if test -e next$n; then cp next$n "$2"; fi\ntest "$1" = -w\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", f"'{path}' -w")
    return path


def test_edit_again_after_a_mistake(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    client = fake(monkeypatch, GetCrontab=GetCrontabReply(found=True, text="@daily true\n"))
    editor(monkeypatch, tmp_path, "@daily true\n99 * * * * x\n", "@weekly true\n")
    monkeypatch.setattr(sys, "stdin", Terminal("what?\ny\n"))
    status, out, err = run(capsys, "-e")
    assert status == 0 and err.startswith("scrontab: error: line 2: minute 99")
    assert out == (
        "There are errors in your crontab.\nThe failed line(s) is commented out with #BAD:\n"
        "Do you want to retry the edit? (y/n) Do you want to retry the edit? (y/n) "
    )
    assert (tmp_path / "given0").read_text() == "@daily true\n"
    assert (tmp_path / "given1").read_text() == "@daily true\n#BAD: 99 * * * * x\n"
    assert (tmp_path / "mode").read_text() == "600\n"
    assert client.calls[-1][1].text == "@weekly true\n"


def test_edit_and_give_up(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    client = fake(monkeypatch)
    editor(monkeypatch, tmp_path, "99 * * * * x\n")
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert run(capsys, "-e")[0] == 0
    assert [method for method, _ in client.calls] == ["GetCrontab"]
    assert (tmp_path / "given0").read_text().startswith("# This is your crontab")


def test_edit_without_a_change_or_with_an_editor_that_fails(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    client = fake(monkeypatch, GetCrontab=GetCrontabReply(found=True, text="@daily true\n"))
    editor(monkeypatch, tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert run(capsys, "-e") == (0, "", "scrontab: no changes were made\n")
    monkeypatch.setenv("VISUAL", "/bin/false")
    assert run(capsys, "-e") == (1, "", "scrontab: fatal: editor returned non-zero exit code\n")
    monkeypatch.setenv("VISUAL", "")
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    status, _, err = run(capsys, "-e")
    assert status == 1 and err.startswith("scrontab: fatal: the editor /no/such/editor cannot be started")
    assert {method for method, _ in client.calls} == {"GetCrontab"}


def test_marks_are_put_before_lines() -> None:
    assert mark("a\nb\nc", [(1, 1), (3, 3)], "#BAD: ") == "#BAD: a\nb\n#BAD: c"
