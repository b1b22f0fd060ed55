"""Files that users and administrators name: one without an end is left after a limit, and the error says which file and how
much it may have; a pipe is read as a file is."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli import scontrol
from cli.base import environment
from cli.base.run import CommandError
from cli.jobs import script
from cli.jobs.jobwords import node_file
from cli.subcommands import audit
from penstock.clusterfile import ClusterFile
from penstock.errors import BadSetup, PenstockError
from penstock.security import issued, keyfiles
from penstock.transport import read_ca
from rest.interactive.kinds import read_kinds
from sim import flight, openb_files, results, traces
from tests.cli.fake_controller import run_body

#: A wrong path that never ends.
ZERO = "/dev/zero"


def test_what_sbatch_and_its_relatives_read() -> None:
    with pytest.raises(CommandError) as caught:
        script.from_file(ZERO)
    assert (caught.value.text, caught.value.detail) == (script.TOO_LARGE, f"{ZERO} is larger")
    with pytest.raises(ValueError, match=f"error opening file {ZERO}, larger than 4194304 bytes\nInvalid --nodefile"):
        node_file(ZERO)
    with pytest.raises(CommandError, match=f"environment too large: {ZERO} exceeds the limit of 1048576 bytes"):
        environment.job_environment("NONE", ZERO, {})


def test_what_other_commands_read(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_body(capsys, "scontrol", scontrol.body, "show", "hostlist", ZERO)
    assert found == (1, "", f"scontrol: error: {ZERO}: larger than 4194304 bytes\n")
    monkeypatch.setattr(audit, "LINE_CHARS_MAX", 1000)
    status, _, wrong = run_body(capsys, "penstock", audit.main, "verify", "--offline", ZERO)
    assert (status, wrong) == (
        1,
        f"penstock audit: error: {ZERO} line 1 has more than 1000 characters: no audit file\n",
    )


@pytest.mark.parametrize(
    ("module", "limit", "read"),
    [
        (traces, "TRACE_BYTES_MAX", traces.read_trace),
        (openb_files, "LIST_BYTES_MAX", openb_files.read_openb_nodes),
        (results, "RESULT_BYTES_MAX", results.load_result),
        (flight, "RECORD_BYTES_MAX", lambda path: flight.read(Path(path))),
    ],
)
def test_what_the_simulator_reads(
    module: Any, limit: str, read: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 1000)
    with pytest.raises(OSError, match=f"larger than 1000 bytes: '{ZERO}'"):
        read(ZERO)


def test_what_daemons_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of certificates, of which the last ones would not be denied, was cut without a word."""
    with pytest.raises(OSError, match=f"larger than 65536 bytes: '{ZERO}'"):
        read_kinds(ZERO)
    with pytest.raises(BadSetup, match=f"{ZERO}: certificate cannot be read: larger than 16777216 bytes"):
        keyfiles.read_public(Path(ZERO))
    with pytest.raises(PenstockError, match=f"{ZERO}: cannot be read: larger than 65536 bytes"):
        read_ca(ClusterFile("c", ca=ZERO))
    monkeypatch.setattr(issued, "BYTES_MAX", 10)
    (tmp_path / issued.FILE).write_bytes(b'{"serial": "1"}')
    with pytest.raises(BadSetup, match="issued.json: cannot be read: larger than 10 bytes"):
        issued.read(tmp_path)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """As of a process substitution: what its writer sends later belongs to it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def read(reader: Callable[[str], object], *parts: bytes) -> object:
        def write() -> None:
            with open(pipe, "wb", buffering=0) as file:
                for part in parts:
                    file.write(part)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            return reader(str(pipe))
        finally:
            writer.join()

    assert read(node_file, b"n1\n", b"n2\n") == "n1,n2"
    found: Any = read(script.from_file, b"#!/bin/sh\n", b"true\n" * 40_000)
    assert found.data == b"#!/bin/sh\n" + b"true\n" * 40_000
    assert read(lambda path: environment.job_environment("NONE", path, {})[:2], b"A=1\0", b"B=2\0") == [b"A=1", b"B=2"]
