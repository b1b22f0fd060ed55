"""Users by name and by number, and lines of keywords that are typed one after another."""

import os
import pwd

import pytest

from cli.base.prompt import LINE_MAX, read_lines
from cli.base.run import CommandError
from cli.base.users import UID_MAX, find_entry, find_uid, login_of, named

OWN = pwd.getpwuid(os.getuid())


def test_a_name_of_digits_is_a_name_where_people_are_kept_by_name() -> None:
    """Accounts know names: user 0 is not root."""
    assert named("0") is None and named("root").pw_uid == 0
    assert find_entry("0").pw_name == "root" and find_entry("root").pw_uid == 0
    assert login_of(str(OWN.pw_uid)) == OWN.pw_name and login_of("nosuch") == "nosuch"
    assert login_of(f"{OWN.pw_uid:05000d}") == OWN.pw_name


@pytest.mark.parametrize("text", ["", "nosuch", "no\0such", "\udc80", "-1", "1.5", "²", str(UID_MAX + 1), "9" * 5000])
def test_nobody(text: str) -> None:
    assert named(text) is None and find_entry(text) is None and find_uid(text) is None and login_of(text) == text


def test_a_number_that_nobody_has() -> None:
    assert find_uid(str(UID_MAX)) == UID_MAX and find_uid("00000000000000000001") == 1
    assert find_entry(str(UID_MAX)) is None and login_of(str(UID_MAX)) == str(UID_MAX)


def test_lines_of_a_pipe(monkeypatch, capsys) -> None:
    """Each is done as it stands; what is too long, no words or a comment is not."""
    reading, writing = os.pipe()
    os.write(writing, b"!!\n# no\n'a b' \xff\n!!\n'open\n\n" + b"last" + b"\nend\nnever\n")
    os.close(writing)
    done: list[list[str]] = []

    def run_line(words: list[str]) -> int:
        done.append(words)
        if words == ["last"]:
            raise CommandError("no", 3)
        return 0

    with open(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert read_lines("frob", run_line, lambda line: line == "end") == 3
        assert stdin.readline() == "never\n"  # for whoever reads on
    assert done == [["a b", "\udcff"], ["a b", "\udcff"], ["last"]]
    assert capsys.readouterr().err == "no input\nfrob: error: 'open: No closing quotation\nfrob: error: no\n"


def test_a_line_without_end(monkeypatch, capsys, tmp_path) -> None:
    file = tmp_path / "typed"
    file.write_bytes(b"x" * (LINE_MAX + 10) + b"\n\xff\xfe")
    with file.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert read_lines("frob", len, lambda line: False) == 1
    assert capsys.readouterr().err == f"frob: error: a line has more than {LINE_MAX} characters\n"
