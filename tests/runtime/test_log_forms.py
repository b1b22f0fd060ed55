"""The forms of a daemon's log: lines of JSON, entries of the journal, files that are rotated."""

import io
import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.job import HistoryRow
from ctld.runtime.logs import JobLines
from nodedaemon.core.steps import StepKey
from nodedaemon.daemon.stepspans import KEPT_MAX, TRACE_BYTES, StepSpans
from penstock.logfile import BackgroundHandler
from penstock.logs import journal
from penstock.logs.daemonlog import DaemonLog, LogSettings
from penstock.logs.journal import JournalSink, entry, is_journal
from penstock.logs.structured import FIELD_CHARS_MAX, TEXT_CHARS_MAX, JsonFormatter, SpanOf, no_span
from tests.runtime.test_logfile import Gated
from tests.security.test_07_output import HOSTILE

TEXTS = st.text(st.characters(codec=None)) | st.sampled_from(HOSTILE)


class Shown:
    """A logger, and the lines of JSON that it wrote."""

    def __init__(self, daemon: str = "ctld", node: str = "", span_of: SpanOf = no_span) -> None:
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(JsonFormatter(daemon, node, span_of))
        self.log = logging.Logger("x")
        self.log.addHandler(handler)

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def test_a_line_has_the_event_and_what_its_arguments_are() -> None:
    shown = Shown()
    shown.log.info("node %s registered, stream %d", "n1", 7)
    [line] = shown.lines()
    time = str(line.pop("time"))
    assert time.endswith("Z") and len(time) == len("2026-11-28T22:30:00.123456Z")
    assert line == {
        "level": "info", "daemon": "ctld", "event": "node_registered", "message": "node n1 registered, stream 7",
        "node": "n1", "stream": 7,
    }  # fmt: skip


def test_a_step_gives_its_job_and_a_node_daemon_its_node() -> None:
    shown = Shown("noded", "n3")
    shown.log.info("step %s: adopted, supervisor pid %d", "12.1.0", 4711)
    shown.log.warning("%s", "CgroupPlugin=x", extra={"event": "setting_not_honoured"})
    shown.log.warning("said by a library")
    first, second, third = shown.lines()
    assert first.items() >= {"node": "n3", "event": "step_adopted", "step": "12.1.0", "job": 12, "pid": 4711}.items()
    assert second.items() >= {"event": "setting_not_honoured", "message": "CgroupPlugin=x"}.items()
    assert third.items() >= {"event": "other", "logger": "x", "message": "said by a library"}.items()


def test_lines_of_traced_steps_have_the_ids_of_their_spans() -> None:
    spans = StepSpans()
    for number in range(KEPT_MAX + 1):
        spans.launched(StepKey(number, 0, 0), number.to_bytes(TRACE_BYTES, "big") + b"spanspan")
    spans.launched(StepKey(5, 0, -5), b"x" * 23)  # no ids
    shown = Shown("noded", "n3", spans.of)
    shown.log.info("step %s: adopted, supervisor pid %d", "5.0.0", 4711)
    shown.log.info("step %s: adopted, supervisor pid %d", "0.0.0", 4711)  # the oldest, which is no longer known
    shown.log.info("uid %d: pid %d belongs to job %d", 1, 2, 5)
    shown.log.info("node %s: spool %s, control groups %s", "n3", "/s", "none")
    first, second, third, last = shown.lines()
    ids = {"trace_id": "0" * 31 + "5", "span_id": b"spanspan".hex()}
    assert first.items() >= ids.items() and third.items() >= ids.items()
    assert not {"trace_id", "span_id"} & (second.keys() | last.keys())


def test_changes_of_jobs_are_a_line_each() -> None:
    shown = Shown()
    shown.log.info(JobLines([HistoryRow(1, 5, 0, "submit", "by ann"), HistoryRow(1, 6, 1, "requeue asked", "x\ny")]))
    first, second = shown.lines()
    assert (
        first.items()
        >= {
            "event": "job_submit",
            "job": 5,
            "attempt": 0,
            "detail": "by ann",
            "message": "job 5 attempt 0: submit by ann",
        }.items()
    )
    assert second.items() >= {"event": "job_requeue_asked", "job": 6, "detail": "x\\x0ay"}.items()


def test_a_number_that_is_none_is_null_and_a_large_one_stays() -> None:
    """Strict readers of JSON take no NaN."""
    shown = Shown()
    shown.log.info("node %s registered, stream %d", float("nan"), 2**70)
    shown.log.info("node %s registered, stream %d", True, 1.5)
    first, second = shown.lines()
    assert first["node"] is None and first["stream"] == 2**70
    assert second["node"] == "True" and second["stream"] == 1.5


@given(TEXTS)
def test_no_text_makes_a_line_or_a_field(text: str) -> None:
    shown = Shown()
    shown.log.warning("node %s: registration refused: %s", text, text)
    shown.log.info(JobLines([HistoryRow(1, 5, 0, "update", text)]))
    try:
        raise ValueError(text)
    except ValueError:
        shown.log.exception("the planner failed; its pass starts nothing")
    raw = shown.stream.getvalue()
    assert raw.count("\n") == 3 and raw.isascii() and all(line.isprintable() for line in raw.splitlines())
    refused, update, failed = shown.lines()
    assert refused.keys() == {"time", "level", "daemon", "event", "node", "reason", "message"}
    assert update["event"] == "job_update" and failed["event"] == "planner_failed"
    for line in (refused, update, failed):
        json.dumps(line, ensure_ascii=False).encode()  # no half of a surrogate, which strict readers refuse
    assert "\n" not in str(refused["message"]) and "Traceback" in str(failed["exception"])


def test_long_texts_are_cut() -> None:
    shown = Shown()
    shown.log.warning("node %s: registration refused: %s", "n1", "x" * 100_000)
    [line] = shown.lines()
    assert len(str(line["reason"])) < FIELD_CHARS_MAX + 40 and len(str(line["message"])) < TEXT_CHARS_MAX + 40


def parsed(datagram: bytes) -> dict[str, str]:
    """Reads an entry as systemd's protocol says."""
    found = {}
    while datagram:
        line, _, rest = datagram.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if equals:
            datagram = rest
        else:
            size = int.from_bytes(rest[:8], "little")
            value, datagram = rest[8 : 8 + size], rest[8 + size + 1 :]
        found[name.decode()] = value.decode()
    return found


@given(TEXTS)
def test_no_text_makes_a_field_of_the_journal(text: str) -> None:
    shown = Shown("noded", "n1")
    try:
        raise ValueError(text)
    except ValueError:
        shown.log.exception("step %s: %s", "3.0.0", text)
    [line] = shown.lines()
    found = parsed(entry(line))
    assert found.keys() == {
        "MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "PENSTOCK_EVENT", "PENSTOCK_NODE", "PENSTOCK_STEP", "PENSTOCK_JOB",
        "PENSTOCK_OUTPUT",
    }  # fmt: skip
    assert (found["PRIORITY"], found["SYSLOG_IDENTIFIER"], found["PENSTOCK_JOB"]) == ("3", "penstock-noded", "3")
    assert found["MESSAGE"] == f"{line['message']}\n{line['exception']}"


@pytest.fixture
def root_log() -> Iterator[logging.Logger]:
    """The root logger, as it was before; the project's has no level of its own, which setdebug may have given it."""
    root, ours = logging.getLogger(), logging.getLogger("penstock")
    handlers, level, own = root.handlers[:], root.level, ours.level
    ours.setLevel(logging.NOTSET)
    yield root
    ours.setLevel(own)
    for handler in root.handlers[:]:
        if handler not in handlers:
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)


def test_standard_error_of_systemd_is_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root_log: logging.Logger
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "journal"))
        found = os.fstat(2)
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino + 1}")
        assert not is_journal()
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        assert is_journal()
        monkeypatch.setattr(JournalSink.__init__, "__defaults__", (str(tmp_path / "journal"),))
        logs = DaemonLog("ctld", "%(message)s", LogSettings())
        logging.getLogger("penstock.ctld").warning("node %s: its clock is right again", "n1")
        logs.flush()
        got = parsed(receiver.recv(65536))
        assert got["MESSAGE"] == "node n1: its clock is right again"
        assert (got["PENSTOCK_EVENT"], got["PENSTOCK_NODE"], got["PRIORITY"]) == ("node_clock_right", "n1", "4")
        logs.close()


def test_a_journal_that_is_gone_leaves_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = JournalSink(str(tmp_path / "none"))
    sink.write(json.dumps({"level": "error", "daemon": "ctld", "event": "fatal", "message": "it is over"}))
    sink.close()
    assert capsys.readouterr().err == "<3>it is over\n"
    assert journal.SOCKET.startswith("/run/systemd/")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_is_rotated_both_ways(tmp_path: Path, root_log: logging.Logger, form: str) -> None:
    path = tmp_path / "log" / "ctld.log"
    logs = DaemonLog("ctld", "%(levelname)s %(message)s", LogSettings(str(path), form))
    log = logging.getLogger("penstock.ctld")

    def said(text: str) -> str:
        log.info("stopping: %s", text)
        logs.flush()
        return path.read_text()

    assert said("one").count("\n") == 1
    os.rename(path, tmp_path / "ctld.log.1")
    logs.hang_up()
    assert said("two").count("\n") == 1 and "one" in (tmp_path / "ctld.log.1").read_text()
    os.truncate(path, 0)  # copytruncate
    assert "three" in said("three") and "\0" not in path.read_text() and "two" not in path.read_text()
    logs.close()


def test_a_file_that_cannot_be_opened_changes_nothing_but_is_told(tmp_path: Path, root_log: logging.Logger) -> None:
    path = tmp_path / "noded.log"
    logs = DaemonLog("noded", "%(levelname)s %(message)s", LogSettings(str(path)))
    wrong = LogSettings(str(tmp_path), "json", "debug")
    logs.set(wrong)
    logs.set(wrong)  # of the next registration
    logging.getLogger("penstock.noded").debug("cannot remove step folders")
    logs.close()
    told, changed, line = path.read_text().splitlines()
    assert json.loads(changed)["event"] == "log_changed"
    assert told == f"ERROR log file {tmp_path}: Is a directory; the log stays where it is"
    assert json.loads(line)["event"] == "step_folders_left" and logs.settings == wrong._replace(path=str(path))


def test_what_was_dropped_is_told_in_the_form_of_the_log() -> None:
    stream = Gated()
    handler = BackgroundHandler(stream, owns=False)
    handler.setFormatter(JsonFormatter("ctld"))
    stream.failing = True
    for _ in range(3):
        handler.handle(logging.LogRecord("penstock.ctld", logging.INFO, "", 0, "stopped", (), None))
    handler.flush()
    stream.failing = False
    handler.handle(logging.LogRecord("penstock.ctld", logging.INFO, "", 0, "stopped", (), None))
    handler.close()
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["count"], first["level"]) == ("messages_dropped", 3, "error")
    assert second["event"] == "stopped"


def test_the_level_debug_is_switched(root_log: logging.Logger, tmp_path: Path) -> None:
    logs = DaemonLog("restd", "%(message)s", LogSettings(str(tmp_path / "log")), logger="restd")
    log = logging.getLogger("restd")
    before = logging.NOTSET
    seen = [log.isEnabledFor(logging.DEBUG)]
    for _ in range(2):
        logs.toggle_debug()
        seen.append(log.isEnabledFor(logging.DEBUG))
    logs.close()
    assert seen == [False, True, False] and log.level == before
