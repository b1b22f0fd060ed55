"""penstock audit as a command: what cannot be read, and a reader that has read enough."""

from typing import Any

import pytest

from cli.subcommands import audit
from penstock.client import Client
from tests.cli.fake_controller import run_body


def test_a_file_that_cannot_be_read(capsys: Any) -> None:
    """The file and why, without Python's words."""
    told = run_body(capsys, "penstock", audit.main, "verify", "--offline", "/nosuch/log")
    assert told == (1, "", "penstock audit: error: /nosuch/log: No such file or directory\n")


def test_a_reader_that_has_read_enough(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`penstock audit show | head -1` is no mistake."""

    def broken(*args: Any) -> Any:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(Client, "open", broken)
    assert run_body(capsys, "penstock", audit.main, "show") == (141, "", "")
