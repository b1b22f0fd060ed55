"""The card that the tests of this folder run on: a real one, or the fake library with somebody who plays the driver.

A card gives the environment in which NVML is found, what NVML says now (`look`, asked in a child), and the programs that
jobs run on it (sees.py, load.py). What a real driver does by itself (to list who uses a card, to count energy) the fake's
thread does: it looks which of the load programs live.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

import pytest
from fakenvml import FakeNvml
from patience import ANSWER_S, END_S

HERE = Path(__file__).parent
MIB = 1 << 20
#: How long a card is under load, in seconds: the fake's only for some looks; and how much of its memory is taken.
LOAD_S = {"real": 30.0, "fake": 4.0}
#: How far energy may be from the counter: a late look costs a short load more.
ENERGY_OFF = {"real": 0.1, "fake": 0.3}
LOAD_MIB = 20 * 1024
IDLE_MW, BUSY_MW = 100_000, 600_000
BUSY_PERCENT = 97


class Card:
    """What all cards have in common."""

    kind = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pids = folder / "pids"
        self.pids.mkdir()
        self.pids.chmod(0o777)
        self._asker = subprocess.Popen(
            [sys.executable, str(HERE / "asknvml.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | self.env(),
        )  # fmt: skip

    def env(self) -> dict[str, Any]:
        """For daemons and jobs."""
        raise NotImplementedError

    def look(self) -> dict[str, Any]:
        """What NVML says now."""
        assert self._asker.stdin is not None and self._asker.stdout is not None
        try:
            self._asker.stdin.write("\n")
            self._asker.stdin.flush()
        except BrokenPipeError:  # it has said why and gone
            pass
        found: dict[str, Any] = json.loads(self._asker.stdout.readline())
        return found

    def sees(self) -> str:
        """A command: what CUDA shows."""
        return f"{sys.executable} {HERE / 'sees.py'} {self.kind}"

    def load(self, mib: int = LOAD_MIB) -> str:
        """A command: use the card until `release`."""
        return f"{sys.executable} {HERE / 'load.py'} {self.kind} {mib} {self.pids}"

    def release(self, job_id: int) -> None:
        """The job's load is to end."""
        (self.pids / f"stop.{job_id}").touch()

    def jobs_of(self, pids: list[int]) -> list[int]:
        """Whose processes these are, as far as they are ours."""
        files = [self.pids / str(pid) for pid in pids]
        return sorted({int(path.read_text().split()[0]) for path in files if path.exists()})

    def close(self) -> None:
        """End what was started here."""
        assert self._asker.stdin is not None and self._asker.stdout is not None
        self._asker.stdin.close()
        self._asker.wait(ANSWER_S)
        self._asker.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RealCard(Card):
    """A card of this machine. Its settings are nobody's to change."""

    kind = "real"

    def env(self) -> dict[str, Any]:
        """Where this process itself finds the driver's libraries."""
        return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


class FakeCard(Card):
    """Two H200 of the fake."""

    kind = "fake"

    def __init__(self, folder: Path) -> None:
        self.fake = FakeNvml(folder / "state")
        self._lives: dict[str, tuple[int, int]] = {}  # pid -> (GPU, bytes)
        self._energy = {gpu: (float(str(self.fake.keys[f"gpu.{gpu}.energy_mj"])), 0) for gpu in (0, 1)}
        self._since = time.time()
        self._over = threading.Event()
        self._change({})
        super().__init__(folder)
        self._driver = threading.Thread(target=self._drive, daemon=True)
        self._driver.start()

    def env(self) -> dict[str, Any]:
        return self.fake.env()

    def close(self) -> None:
        self._over.set()
        self._driver.join(END_S)
        super().close()

    def _drive(self) -> None:
        while not self._over.wait(0.02):
            lives = {path.name: held for path in self.pids.iterdir() if (held := self._held(path)) is not None}
            if lives != self._lives:
                self._change(lives)

    def _held(self, path: Path) -> tuple[int, int] | None:
        """Which GPU that process has and how much of it; None = it is gone, or was never under load."""
        if not path.name.isdecimal() or _is_dead(int(path.name)):
            return None
        _, visible, mib = path.read_text().split(" ")
        order = sorted((0, 1), key=lambda gpu: str(self.fake.keys[f"gpu.{gpu}.busid"]))
        return order[int(visible.split(",")[0])], int(mib) * MIB

    def _change(self, lives: dict[str, tuple[int, int]]) -> None:
        """Tell the fake. Energy goes on from where it is, at the power of who is there now."""
        now = time.time()
        keys: dict[str, object | None] = {key: None for key in self.fake.keys if ".proc." in key}
        for gpu in (0, 1):
            count, power_mw = self._energy[gpu]
            count += power_mw * (now - self._since)
            here = {pid: held for pid, held in lives.items() if held[0] == gpu}
            power_mw = BUSY_MW if here else IDLE_MW
            self._energy[gpu] = (count, power_mw)
            keys |= {
                f"gpu.{gpu}.proc.{k}": f"{pid},{held[1]},C,{BUSY_PERCENT},10"
                for k, (pid, held) in enumerate(here.items())
            }
            keys |= {
                f"gpu.{gpu}.mem_used": sum(held[1] for held in here.values()),
                f"gpu.{gpu}.util_gpu": BUSY_PERCENT if here else 0,
                f"gpu.{gpu}.energy_mj": int(count),
                f"gpu.{gpu}.energy_t0_ms": int(now * 1000),
                f"gpu.{gpu}.power_mw": power_mw,
            }
        self._lives, self._since = lives, now
        self.fake.put(keys)


def _is_dead(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def card_of(kind: str, folder: Path) -> Card:
    """The card; where a real one is asked for and there is none, the test is skipped."""
    if kind == "fake":
        return FakeCard(folder)
    card = RealCard(folder)
    why = card.look().get("why")
    if why:
        card.close()
        pytest.skip(f"machine lacks a GPU that NVML knows: {why}")
    return card
