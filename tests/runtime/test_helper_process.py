"""A helper process: how much it may answer."""

from pathlib import Path

import pytest
from patience import ANSWER_S

from ctld.runtime import lookups, submitfilter
from ctld.runtime.helperprocess import HelperFailed, HelperProcess
from ctld.runtime.lookuphelper import LENGTH

PROGRAM = """
import socket, struct, sys
with socket.socket(fileno=int(sys.argv[1])) as wire:
    size = struct.Struct("{format}")
    (asked,) = size.unpack(wire.recv(size.size))
    answer = b"x" * int(wire.recv(asked))
    wire.sendall(size.pack(len(answer)) + answer)
    wire.recv(1)
"""


def test_an_answer_has_the_bound_of_its_kind(tmp_path: Path) -> None:
    program = tmp_path / "helper.py"
    program.write_text(PROGRAM.format(format=LENGTH.format))
    helper = HelperProcess(str(program), ANSWER_S, answer_bytes_max=10)
    try:
        assert helper.ask(b"10") == b"x" * 10
        helper.stop()
        with pytest.raises(HelperFailed, match="an answer of 11 bytes"):
            helper.ask(b"11")
    finally:
        helper.close()
    assert lookups.ANSWER_BYTES_MAX < submitfilter.ANSWER_BYTES_MAX
