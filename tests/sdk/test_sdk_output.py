"""Output files: the last lines of any text, and what is no file."""

import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.v1.controller_pb2 import JobInfo
from sdk import output
from sdk.output import GrowingOutput, OutputNotHere, read_output
from sdk.records import JobRecord, job_record


def ran(path: str) -> JobRecord:
    """A job that has ended and wrote there."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    return job_record(
        JobInfo(job_id=7, state="COMPLETED", start_at_us=1, end_at_us=2, std_out=path.encode(), user_name=me)
    )


@given(st.text("a\n", max_size=40), st.integers(0, 12), st.integers(1, 7))
def test_the_last_lines(tmp_path_factory: pytest.TempPathFactory, text: str, lines: int, block_bytes: int) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_text(text)
    every = text.splitlines(keepends=True)
    wanted = "".join(every[max(0, len(every) - lines) :])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "BLOCK_BYTES", block_bytes)
        assert read_output(ran(str(path)), lines, False) == wanted
        growing = GrowingOutput()
        growing.skip_to_last(ran(str(path)), lines)
        assert "".join(growing.more(ran(str(path)))) == wanted


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/tty", "fifo", "."])
def test_what_is_no_file_is_not_read(tmp_path: Path, name: str) -> None:
    """A device has no end, and the opening of a pipe waits for who writes."""
    os.mkfifo(tmp_path / "fifo")
    record = ran(str(tmp_path / name))
    with pytest.raises(OutputNotHere):
        read_output(record, None, False)
    with pytest.raises(OutputNotHere):
        list(GrowingOutput().more(record))
