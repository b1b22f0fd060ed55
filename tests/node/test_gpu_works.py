"""What is done to idle GPUs on the controller's order: once, with what the site's program must know, also over restarts."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gpujudge import A, B, device
from patience import ANSWER_S

from nodedaemon.core.gpuhealth_messages import GpuWorkKind
from nodedaemon.gpu.works import MARK, RESTARTED, WorkDone, Works
from penstock.v1 import node_pb2

Answer = tuple[str, GpuWorkKind, str, bool, str]
KIND: Any = node_pb2.GpuWork.Kind


class Site:
    """A spool folder, a program, and the answers that were given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fd = os.open(folder, os.O_RDONLY)
        self.program = folder / "program"
        self.answers: list[Answer] = []
        self.untried = False
        self.came = asyncio.Event()
        self.held: set[str] = set()
        self.executor = ThreadPoolExecutor(2)

    def says(self, text: str) -> None:
        self.program.write_text(f"#!/bin/sh\necho ran >>{self.folder}/runs\n{text}\n")
        self.program.chmod(0o755)

    def works(self) -> Works:
        devices = {A: device(A, 0), B: device(B, 1)}
        made = Works(self.fd, self.executor, devices.get, lambda uuid: uuid in self.held, self.tell)
        made.programs = {GpuWorkKind.CHECK: str(self.program)}
        return made

    def tell(self, work_id: str, kind: GpuWorkKind, uuid: str, done: WorkDone) -> None:
        self.answers.append((work_id, kind, uuid, done.ok, done.text or ""))
        self.untried = done.untried
        self.came.set()

    def runs(self) -> int:
        path = self.folder / "runs"
        return len(path.read_text().split()) if path.exists() else 0

    async def answer(self) -> Answer:
        async with asyncio.timeout(ANSWER_S):
            await self.came.wait()
        self.came.clear()
        return self.answers[-1]


def order(work_id: str = "w1", kind: int = KIND.CHECK, uuid: str = A, timeout_s: int = 20) -> node_pb2.GpuWork:
    number: Any = kind
    return node_pb2.GpuWork(work_id=work_id, kind=number, uuid=uuid, timeout_s=timeout_s)


def run(folder: Path, scenario: Callable[[Site], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        site = Site(folder)
        try:
            await scenario(site)
        finally:
            site.executor.shutdown()
            os.close(site.fd)

    asyncio.run(main())


def test_a_check_learns_its_gpu_and_is_done_once(tmp_path: Path) -> None:
    async def scenario(site: Site) -> None:
        site.says("env | grep -E '^(CUDA|PENSTOCK)' | sort >$(dirname $0)/env; echo all well")
        works = site.works()
        works.take(order())
        works.take(order())
        assert await site.answer() == ("w1", GpuWorkKind.CHECK, A, True, "all well")
        works.take(order())
        assert await site.answer() == ("w1", GpuWorkKind.CHECK, A, True, "all well")
        again = site.works()  # after a restart
        again.resume()
        again.take(order())
        assert await site.answer() == ("w1", GpuWorkKind.CHECK, A, True, "all well")
        assert site.runs() == 1
        assert (site.folder / "env").read_text().split() == [
            "CUDA_DEVICE_ORDER=PCI_BUS_ID", f"CUDA_VISIBLE_DEVICES={A}", "PENSTOCK_GPU_BUS_ID=00000000:19:00.0",
            "PENSTOCK_GPU_INDEX=0", "PENSTOCK_GPU_MINOR=0", f"PENSTOCK_GPU_UUID={A}", f"{MARK}=w1",
        ]  # fmt: skip

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo bank 3 is bad; exit 1", "{}: exit status 1: bank 3 is bad"),
        ("kill -9 $$", "{}: ended by signal 9"),
        ("exec sleep 600", "{}: killed, it did not end within 1 s"),
    ],
)
def test_a_program_that_fails_says_why(tmp_path: Path, text: str, why: str) -> None:
    async def scenario(site: Site) -> None:
        site.says(text)
        site.works().take(order(timeout_s=1))
        assert await site.answer() == ("w1", GpuWorkKind.CHECK, A, False, why.format(site.program))
        assert not site.untried

    run(tmp_path, scenario)


def test_what_cannot_be_done_is_answered_at_once(tmp_path: Path) -> None:
    async def scenario(site: Site) -> None:
        site.says("true")
        works = site.works()
        site.held.add(B)
        for work, why in (
            (order("w1", uuid="GPU-x"), "GPU-x is not here"),
            (order("w2", uuid=B), f"{B} is in use"),
            (order("w3", KIND.RESET), "no program is configured for RESET"),
            (order("w4", KIND.DIVIDE), "this node divides no GPUs"),
        ):
            works.take(work)
            assert site.answers[-1][3:] == (False, why) and site.untried
        works.take(order("w5"))
        works.take(order("w6"))
        assert site.answers[-1][3:] == (False, f"something is done to {A} already")
        assert works.is_busy(A) and not works.is_busy(B)
        site.came.clear()
        assert (await site.answer())[0] == "w5"
        assert not works.is_busy(A) and site.runs() == 1

    run(tmp_path, scenario)


def test_what_a_dead_daemon_left_running_is_ended_and_answered(tmp_path: Path) -> None:
    async def scenario(site: Site) -> None:
        (tmp_path / "gpu-works.json").write_text(f'{{"w1": [1, "{A}", false, null]}}')
        command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
        env = {**os.environ, MARK: "w1"}
        left = subprocess.Popen(command, stdout=subprocess.PIPE, env=env, start_new_session=True)
        assert left.stdout is not None
        left.stdout.readline()
        works = site.works()
        works.resume()
        assert await site.answer() == ("w1", GpuWorkKind.CHECK, A, False, RESTARTED) and site.untried
        assert await asyncio.to_thread(left.wait, 30) == -9
        left.stdout.close()
        works.take(order())
        assert await site.answer() == ("w1", GpuWorkKind.CHECK, A, False, RESTARTED)
        assert site.runs() == 0

    run(tmp_path, scenario)


def test_a_damaged_file_of_works_is_taken_as_missing(tmp_path: Path) -> None:
    async def scenario(site: Site) -> None:
        (tmp_path / "gpu-works.json").write_text("{")
        site.says("true")
        site.works().take(order())
        assert (await site.answer())[3] is True

    run(tmp_path, scenario)
