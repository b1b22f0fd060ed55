"""Issue 14, number 7, the way out: nothing that a user has written is obeyed by somebody else's terminal, or is a line of its own.

Rows of earlier releases may hold anything, so each listing is tried with texts that would be refused today.
"""

import io
import json
import logging
import os
import pty
import subprocess
import sys
import tty
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from patience import ANSWER_S

from cli import scrontab
from cli.base import output
from cli.base.document import write_document
from cli.base.listing import emit
from cli.base.options import OptionValues
from cli.control import jobverbs
from cli.control.keywords import KeywordCall
from cli.listings import show
from cli.listings.jobcomp import records
from ctld.delivery.completion import Completion, text_line
from penstock.logtext import CleanFormatter, Lines
from penstock.values.text import clean_block, clean_line_breaks

HOSTILE = (
    "x\x1b]0;owned\x07", "x\nJobId=7 JobName=y", "x\r\x1b[2K", "x\x9b2J", "x\u202ey", "x\u2066y", "x\u2028JobId=8", "x\x7f", "x\x00",
    "x\udc9b2J", "x\u200ey", "x\u200fy", "x\u061cy",
)  # fmt: skip
texts = st.text(st.characters(codec=None)) | st.sampled_from(HOSTILE)


def obeyed(text: str) -> list[str]:
    """What a terminal would take for more than a character, by Unicode's own tables."""
    odd = {"\u2028", "\u2029", "\u200e", "\u200f", "\u061c"}
    return [
        c for c in text
        if c not in "\t\n" and (unicodedata.category(c) == "Cc" or c in odd or unicodedata.bidirectional(c) in (
            "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI") or 0xDC80 <= ord(c) <= 0xDC9F)
    ]  # fmt: skip


class Screen:
    """Standard output as a command has it, and what came out."""

    def __init__(self, monkeypatch) -> None:
        self.file = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", output.Cleaned(self.file, encoding="utf-8", errors="surrogateescape"))

    def text(self) -> str:
        sys.stdout.flush()
        return self.file.getvalue().decode("utf-8", "surrogateescape")


@given(texts)
def test_a_block_has_nothing_that_is_obeyed(text: str) -> None:
    cleaned = clean_block(text)
    assert obeyed(cleaned) == []
    assert cleaned.count("\n") == text.count("\n")
    assert cleaned == text or obeyed(text)
    assert clean_block(cleaned) == cleaned


@given(st.lists(texts, max_size=8))
def test_rows_are_as_many_lines(rows: list[str]) -> None:
    assert output.rows_text(rows).count("\n") == max(len(rows) - 1, 0)
    assert output.rows_text(rows, " ").count("\n") == 0


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_listings_and_records(monkeypatch, text: str) -> None:
    screen = Screen(monkeypatch)
    emit([f"JOBID NAME{number} {text}" for number in range(5)])
    sys.stdout.write(show.layout([f"JobId=1 JobName={text}", f"Comment={text}"], one_line=False))
    sys.stdout.write(show.layout([f"JobId=1 JobName={text}", f"Comment={text}"], one_line=True))
    print(f"{text.replace(chr(10), '')}")  # also what somebody prints without thinking of it
    found = screen.text()
    assert obeyed(found) == []
    assert len(found.split("\n")) == 5 + 3 + 1 + 1 + 1
    assert not any(line.lstrip().startswith(("JobId=7", "JobId=8")) for line in found.splitlines())


@pytest.mark.parametrize("options", [OptionValues(json=""), OptionValues(yaml="")], ids=str)
@pytest.mark.parametrize("compact", ["", "compact"])
def test_documents_keep_every_character(monkeypatch, options, compact) -> None:
    monkeypatch.setenv("SLURM_JSON", compact)
    monkeypatch.setenv("SLURM_YAML", compact)
    screen = Screen(monkeypatch)
    kept = [text for text in HOSTILE if "\udc9b" not in text]
    write_document({"jobs": [{"name": text} for text in kept]}, options)
    found = screen.text()
    assert obeyed(found) == []
    read = json.loads(found) if "json" in options else yaml.safe_load(found)
    assert [job["name"] for job in read["jobs"]] == kept


def test_a_byte_that_is_no_utf8_leaves_a_document_whole(monkeypatch) -> None:
    screen = Screen(monkeypatch)
    write_document({"name": "x\udc9b2J"}, OptionValues(json=""))
    assert json.loads(screen.text()) == {"name": "x\udc9b2J"}


def test_what_was_asked_for_as_it_is(monkeypatch) -> None:
    screen = Screen(monkeypatch)
    sys.stdout.write("before\n")
    output.raw("#!/bin/sh\necho '\x1b[1m'\r\n")
    sys.stdout.write("after\n")
    assert screen.text() == "before\n#!/bin/sh\necho '\x1b[1m'\r\nafter\n"


STORED = "#!/bin/sh\n\techo '\x1b]0;owned\x07' \u200f\r\n"


@contextmanager
def terminal(monkeypatch) -> Iterator[Callable[[], str]]:
    """Standard output that is a terminal; yields what came out."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    stream = output.Cleaned(io.FileIO(theirs, "w"), encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdout", stream)

    def text() -> str:
        stream.flush()
        return os.read(ours, 65_536).decode("utf-8", "surrogateescape")

    try:
        yield text
    finally:
        stream.close()
        os.close(ours)


class Stored:
    """A client of a controller that has one script and one crontab."""

    @classmethod
    @contextmanager
    def open(cls) -> Iterator["Stored"]:
        yield cls()

    def call(self, method: str, request: object) -> SimpleNamespace:
        return SimpleNamespace(script=STORED.encode(), found=True, text=STORED, disabled=[])


def show_script(monkeypatch) -> None:
    """scontrol write batch_script 1 -"""
    monkeypatch.setattr(jobverbs, "Client", Stored)
    jobverbs.write(KeywordCall(["batch_script", "1", "-"], OptionValues()))


def show_crontab(monkeypatch) -> None:
    """scrontab -l"""
    monkeypatch.setattr(scrontab, "Client", Stored)
    scrontab.body(["-l"])


def show_record(monkeypatch) -> None:
    """sacct -B"""
    output.verbatim(STORED)


@pytest.mark.parametrize("shown", [show_script, show_crontab, show_record])
def test_what_users_have_stored_is_not_obeyed_by_a_terminal(monkeypatch, shown) -> None:
    with terminal(monkeypatch) as text:
        shown(monkeypatch)
        assert text() == "#!/bin/sh\n\techo '\\x1b]0;owned\\x07' \\u200f\\x0d\n"
    screen = Screen(monkeypatch)
    shown(monkeypatch)
    assert screen.text() == STORED


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_log_record_is_one_line(text: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.Logger("x")
    log.addHandler(handler)
    log.info("job %d: %s", 1, text)
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("job %d", 2)
    first, second, *trace = stream.getvalue().splitlines()
    assert first.endswith(clean_block(clean_line_breaks(text)))
    assert second.endswith("job 2")
    assert trace[0] == "Traceback (most recent call last):"
    assert obeyed(stream.getvalue()) == []


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_each_of_several_lines_of_a_record_is_one(text: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(CleanFormatter("[%(levelname)s] %(message)s"))
    log = logging.Logger("x")
    log.addHandler(handler)
    log.info(Lines([f"job 1: {text}", "100 % of %s"]))
    shown = clean_block(clean_line_breaks(text))
    assert stream.getvalue() == f"[INFO] job 1: {shown}\n[INFO] 100 % of %s\n"
    assert obeyed(stream.getvalue()) == []


def test_every_command_has_it() -> None:
    """The edge of all commands gives them the stream."""
    code = "import sys; from cli.base.run import run; run('x', lambda argv: print('a\\x1bb', file=sys.stderr) or print('c\\x1bd') or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=ANSWER_S, check=True)
    assert (done.stdout, done.stderr) == (b"c\\x1bd\n", b"a\\x1bb\n")


@pytest.mark.parametrize(
    ("words", "environment", "kept"),
    [
        (["-o", "%i\x1f%j\x1e"], {}, "\x1e\x1f"),
        ([], {"SQUEUE_FORMAT": "%i\x1f%j", "HOME": "\x1c"}, "\x1f"),
        (["--delimiter=\x1b"], {}, ""),
        (["-l"], {}, ""),
    ],
)
def test_separators_that_the_caller_has_written_stay(words: list[str], environment: dict[str, str], kept: str) -> None:
    """Open OnDemand takes listings apart by \\x1e and \\x1f. What a terminal obeys is never among them."""
    assert output.separators(words, environment) == kept
    assert clean_block("a\x1fb\x1bc", kept) == ("a\x1fb\\x1bc" if "\x1f" in kept else "a\\x1fb\\x1bc")


def test_07_no_text_of_a_job_adds_a_value_to_its_line_of_job_completion() -> None:
    """`sacct -f` and the site's scripts took the job of `-J 'x UserId=root(0) Account=physics'` for root's."""
    forged = "UserId=root(0) x UserId=root(0) JobState=COMPLETED ExitCode=0:0 Account=physics"
    job = Completion(
        job_id=7, user_name="ann", user_id=1000, group_name="ann", group_id=1000, name=forged, state="FAILED", partition="p",
        cluster="c", submit_at_us=1_000_000, work_dir=f"/tmp/{forged}", wckey=forged, exit="3:0", account="chem",
    )  # fmt: skip
    (record,) = records("jobcomp.log", io.StringIO(text_line(job)), 2_000_000)
    assert (record.job_id, record.user_name, record.state, record.request.account) == (7, "ann", "FAILED", "chem")
    assert record.exit.code == 3 and "x UserId\\x3droot(0) JobState\\x3dCOMPLETED" in record.request.name
