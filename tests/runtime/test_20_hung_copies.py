"""Files beside the database on a file system that hangs: the controller's end waits for them for a while, and not longer."""

import logging
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from patience import ANSWER_S

from accounting.traces import Traces
from ctld.runtime import auditfile
from ctld.runtime.auditfile import AuditCopies
from penstock.values.config import Config

ROOT = Path(__file__).resolve().parents[2]
HANGS = """
import threading, sys
from penstock.threads import end_beside_hung_threads, started_pool
pool, begun = started_pool(1, "hung"), threading.Event()
pool.submit(lambda: (begun.set(), threading.Event().wait()))
begun.wait()
pool.shutdown(wait=False)
end_beside_hung_threads(7, 0.05)
sys.exit(1)
"""
IDLE = """
from penstock.threads import end_beside_hung_threads, started_pool
pool = started_pool(2, "idle")
pool.submit(print, "done")
end_beside_hung_threads(7, 600)
"""


def test_20_an_end_waits_for_no_audit_file_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(auditfile, "STOP_S", 0.05)
    hung, goes_on = threading.Event(), threading.Event()

    def append(file: object, path: str, rows: object) -> None:
        hung.set()
        goes_on.wait()

    monkeypatch.setattr(auditfile.AuditFile, "append", append)
    config = cast(
        Config, SimpleNamespace(penstock_audit_file=str(tmp_path / "audit.json"), penstock_audit_syslog=False)
    )
    copies = AuditCopies(cast(Traces, None), tmp_path, lambda: config)
    try:
        assert hung.wait(ANSWER_S)
        with caplog.at_level(logging.WARNING):
            copies.stop()
        assert "its file system has not answered" in caplog.text
    finally:
        goes_on.set()


def test_20_a_process_ends_beside_a_thread_that_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], cwd=ROOT, timeout=ANSWER_S, check=False)
    assert done.returncode == 7


def test_20_idle_threads_of_a_pool_end_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", IDLE], cwd=ROOT, timeout=ANSWER_S, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"done\n")
