"""The runner of programs in the controller: how each end is reported."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from openway import open_way
from patience import ANSWER_S

from ctld.agents.fence import fence
from ctld.runtime.programs import UserIdentity
from ctld.runtime.siteprograms import OUTPUT_BYTES_MAX, Ending, Program, run

ENV = {"PATH": "/usr/bin:/bin"}


def script(folder: Path, text: str) -> str:
    path = folder / "p"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def ended(program: Program) -> Ending:
    async def once() -> Ending:
        async with asyncio.timeout(ANSWER_S):
            return await run(program)

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("text", "failure"),
    [("exit 0", ""), ("exit 3", ": exit status 3"), ("kill -9 $$", ": ended by signal 9"),
     ("sleep 1000 & wait", ": killed, it did not end within 0.3 s")],
)  # fmt: skip
def test_every_end_has_its_words(tmp_path: Path, text: str, failure: str) -> None:
    path = script(tmp_path, text)
    ending = ended(Program([path], ENV, 0.3 if "sleep" in text else 30))
    assert ending.failure == (path + failure if failure else "") and ending.is_started


def test_one_that_is_not_there_was_not_started(tmp_path: Path) -> None:
    ending = ended(Program([f"{tmp_path}/no"], ENV, 30))
    assert ending == Ending(f"{tmp_path}/no: No such file or directory", "", False)


def test_it_reads_what_it_is_given_and_need_not(tmp_path: Path) -> None:
    path = script(tmp_path, f"cat > {tmp_path}/read")
    assert ended(Program([path], ENV, 30, text=b"a line\n", keeps_output=False)) == Ending("")
    assert (tmp_path / "read").read_bytes() == b"a line\n"
    assert ended(Program([script(tmp_path, "exit 0")], ENV, 30, text=b"x" * 10_000_000)).failure == ""


def test_the_last_of_its_output_is_kept_when_all_of_it_is_ended(tmp_path: Path) -> None:
    path = script(tmp_path, "sleep 1000 >/dev/null 2>&1 & head -c 100000 /dev/zero | tr '\\0' x; echo end; exit 1")
    ending = ended(Program([path], ENV, 30, ends_group=True))
    assert ending.failure == f"{path}: exit status 1" and ending.output.endswith("xend")
    assert len(ending.output) == OUTPUT_BYTES_MAX - 1


@pytest.mark.parametrize("identity", [None, UserIdentity(65_534, 65_534, ())], ids=["ours", "nobody's"])
def test_what_a_program_leaves_running_is_not_waited_for(tmp_path: Path, identity: UserIdentity | None) -> None:
    """It has inherited the output; nothing of it stays open here."""
    if identity is not None and os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    open_way(tmp_path)
    tmp_path.chmod(0o777)
    path = script(tmp_path, f"sleep 100000 &\necho $! > {tmp_path}/pid; echo done")

    async def once() -> tuple[Ending, int, int]:
        before = len(os.listdir("/proc/self/fd"))
        async with asyncio.timeout(ANSWER_S):
            ending = await run(Program([path], ENV, 0, identity=identity))
        return ending, before, len(os.listdir("/proc/self/fd"))

    try:
        ending, before, after = asyncio.run(once())
        assert ending == Ending("", "done")
        assert after <= before
        os.kill(int((tmp_path / "pid").read_text()), 0)  # its own business
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_node_is_off_only_after_status_0(tmp_path: Path) -> None:
    path = script(tmp_path, 'echo starts; [ "$1" = n1 ] || { echo "no such\tplug"; exit 3; }')
    assert asyncio.run(fence(path, "n1", "c", 30)) == ""
    assert asyncio.run(fence(path, "n2", "c", 30)) == f"{path}: exit status 3: no suchplug"
