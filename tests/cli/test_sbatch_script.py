"""Scripts and their directives, environment and limits: the parts of sbatch that need no controller."""

import os
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.base import environment
from cli.base.run import CommandError
from cli.jobs import script
from penstock.values.rlimits import RLIMITS


def words(text: str) -> list[str]:
    return script.split_words(text, "line 1 of x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" --time=1 -J x", ["--time=1", "-J", "x"]),
        (" --time=1 # a comment", ["--time=1"]),
        (" --time=1#glued", ["--time=1"]),
        (r" -J a\#b c", ["-J", "a#b", "c"]),
        (' -J "a # b"', ["-J", "a # b"]),
        (" -J 'a \"b\" c'", ["-J", 'a "b" c']),
        (' -J ab"c d"ef', ["-J", "abc def"]),
        (r" -J a\ b", ["-J", "a b"]),
        (r' -J "a\"b"', ["-J", 'a"b']),
        (" -C ''", ["-C", ""]),
        ("\t--hold\t", ["--hold"]),
        ("", []),
        ("#", []),
        ("--hold", ["--hold"]),
    ],
)
def test_words_of_a_directive(text, expected):
    assert words(text) == expected


def test_an_open_quote_is_a_bad_directive():
    with pytest.raises(CommandError) as caught:
        words(' -J "abc')
    assert caught.value.text == 'line 1 of x: Unmatched `"` in [-J "abc]'
    assert caught.value.status == 255


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=5))
def test_escaped_words_come_back(given_words):
    line = " ".join("".join("\\" + c for c in word) or "''" for word in given_words)
    assert words(line) == given_words


def test_the_search_ends_at_the_first_command():
    data = b"#!/bin/sh\n\n# note\n#SBATCH -J a\n  # indented\n #SBATCH -J no\n##SBATCH -J no\n#SBATCH--hold\n"
    data += b"true\n#SBATCH -J late\n"
    assert script.directives(data) == [(4, ["-J", "a"]), (8, ["--hold"])]


def test_components_are_told_apart():
    found = script.directives(b"#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH packjob\n", "a.sh")
    assert [one.is_separator() for one in found] == [False, True, True]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "Batch script is empty!"),
        (b" \n\t", "Batch script contains only whitespace!"),
        (b"echo hi\n", "This does not look like a batch script"),
        (b"#!/bin/sh\necho \0\n", "contain a NULL character '\\0'.\nThe first one is byte 16, in line 2."),
        (b"#!/bin/sh\r\necho\r\n", "Batch script contains DOS line breaks (\\r\\n)"),
        (b"#!" + b"x" * (4 * 1024 * 1024 - 1), "Batch script too large: the limit is 4194304 bytes"),
    ],
)
def test_scripts_that_cannot_run_are_refused(data, text):
    with pytest.raises(CommandError) as caught:
        script.check(data)
    assert text in caught.value.text


def test_the_largest_script_passes_as_it_is():
    data = b"#!/bin/sh\n" + bytes([200]) * (4 * 1024 * 1024 - 10)
    assert script.check(data) is data


def test_a_bare_name_is_looked_up_in_path(tmp_path, monkeypatch):
    (tmp_path / "job").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir("/")
    assert script.from_file("job") == (b"#!/bin/sh\n", str(tmp_path / "job"), "job")
    with pytest.raises(CommandError, match=r"Unable to open file \./job\n\./job: No such file or directory"):
        script.from_file("./job")


SOURCE = {b"A": b"1", b"B": b"\xff,", b"SLURM_CONF": b"c", b"SLURM_JWT": b"secret", b"SPANK_X": b"s"}
SLURM_PART = {b"SLURM_CONF": b"c", b"SPANK_X": b"s"}


def chosen(export: str, source: dict[bytes, bytes] = SOURCE) -> dict[bytes, bytes]:
    lines = environment.job_environment(export, "", source)
    pairs = dict(line.split(b"=", 1) for line in lines)
    assert pairs.pop(b"SLURM_PRIO_PROCESS") == b"%d" % os.getpriority(os.PRIO_PROCESS, 0)
    return pairs


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        ("", {b"A": b"1", b"B": b"\xff,"}),
        ("ALL", {b"A": b"1", b"B": b"\xff,"}),
        ("all", {b"A": b"1", b"B": b"\xff,"}),
        ("NONE", {}),
        ("NIL", {}),
        ("A", {b"A": b"1"}),
        ("A,MISSING", {b"A": b"1"}),
        ("A=2", {b"A": b"2"}),
        ("ALL,A=2", {b"A": b"2", b"B": b"\xff,"}),
        ("A=2,ALL", {b"A": b"2", b"B": b"\xff,"}),
        ("C='x,y',A", {b"C": b"x,y", b"A": b"1"}),
        ('C="x y"', {b"C": b"x y"}),
        ("C=", {b"C": b""}),
        ("C=\udcff", {b"C": b"\xff"}),
    ],
)
def test_export(export, expected):
    assert chosen(export) == expected | SLURM_PART


def test_no_secret_is_in_what_was_exported() -> None:
    assert environment.export_text("ALL,A=1,B") == "ALL,A=1,B"
    assert environment.export_text("SLURM_JWT,A=1") == "SLURM_JWT,A=1"
    assert environment.export_text("ALL,A=1,SLURM_JWT=secret") == "ALL,A,SLURM_JWT"


@pytest.mark.parametrize(("export", "text"), [("=x", "has no variable name"), ("A='x", "the quote ' is not closed")])
def test_bad_export(export, text):
    with pytest.raises(CommandError, match=text):
        chosen(export)


def test_a_job_inside_a_job_does_not_see_the_outer_one():
    outer = {
        b"SLURM_JOB_ID": b"5", b"SLURM_ARRAY_TASK_ID": b"3", b"SLURM_NTASKS": b"4", b"SLURMD_NODENAME": b"n1",
        b"SLURM_EXPORT_ENV": b"NONE", b"SLURM_CONF": b"c", b"SLURM_MINE": b"x", b"A": b"1",
    }  # fmt: skip
    assert chosen("", outer) == {b"SLURM_CONF": b"c", b"SLURM_MINE": b"x", b"A": b"1"}
    del outer[b"SLURM_JOB_ID"]
    assert chosen("", outer) == outer


def test_export_file(tmp_path):
    path = tmp_path / "env"
    path.write_bytes(b"X=a\nb\0Y=\xff=\0\0")
    lines = environment.job_environment("NONE", str(path), {})
    assert lines[:2] == [b"X=a\nb", b"Y=\xff="]
    descriptor = os.open(path, os.O_RDONLY)
    assert environment.job_environment("NONE", str(descriptor), {})[:2] == lines[:2]
    path.write_bytes(b"X=1\0nonsense\0")
    with pytest.raises(CommandError, match="entry 2 is not NAME=value"):
        environment.job_environment("NONE", str(path), {})
    with pytest.raises(CommandError, match="Could not open user environment file /nonexistent"):
        environment.job_environment("NONE", "/nonexistent", {})


def test_the_environment_has_a_limit():
    with pytest.raises(CommandError, match=r"Job environment too large: .*limit is 1048576.*'BIG'"):
        environment.job_environment("", "", {b"BIG": b"x" * 1024 * 1024, b"A": b"1"})
    environment.job_environment("", "", {b"BIG": b"x" * (1024 * 1024 - 64)})


def test_soft_limits():
    everything = environment.soft_limits("")
    assert everything == environment.soft_limits("ALL")
    assert everything["NOFILE"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert set(everything) == set(RLIMITS)
    assert environment.soft_limits("NONE") == {}
    assert set(environment.soft_limits("core,RLIMIT_STACK")) == {"CORE", "STACK"}
    with pytest.raises(CommandError, match="Bad rlimit name: foo\n--propagate=foo is not valid"):
        environment.soft_limits("foo")


def test_the_umask_is_left_as_it_is():
    before = os.umask(0o027)
    try:
        assert environment.current_umask() == 0o027
        assert environment.current_umask() == 0o027
    finally:
        os.umask(before)
