"""GPUs are divided by a child that runs the real pynvml against the fake library: done, refused, put back, hung, restored."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fakenvml import FakeNvml

from nodedaemon.core.gpumessages import Device
from nodedaemon.gpu.mig import NAME, READ_ONLY, Divider, layout_of, restore
from penstock.v1 import node_pb2
from penstock.values.mig import GpuLayout, parse_layout

SEVEN = parse_layout("1g.18gb*7")
THREE = parse_layout("3g.71gb,2g.35gb,1g.18gb")
PROFILE_IDS = {"1g.18gb": 19, "2g.35gb": 14, "3g.71gb": 9}
IN_USE, NO_ROOM = 19, 23


class Node:
    """A spool, an executor, and the card as anybody would list it."""

    def __init__(self, folder: Path, fake: FakeNvml) -> None:
        self.fake = fake
        self.dir_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self.executor = ThreadPoolExecutor(1)
        self.restart()

    def restart(self) -> None:
        self.divider = Divider(self.dir_fd, self.executor, self.devices)

    def key(self, name: str) -> str:
        """What the fake says now, with what was set since."""
        found = str(self.fake.keys.get(name, ""))
        was_set = self.fake.path.with_name(self.fake.path.name + ".set")
        for line in was_set.read_text().splitlines() if was_set.exists() else ():
            if line == f"!{name}":
                found = str(self.fake.keys.get(name, ""))
            elif line.startswith(f"{name}="):
                found = line.partition("=")[2]
        return found

    def devices(self) -> list[Device]:
        gpu = Device(
            self.fake.uuid(0), 0, 1, "h200", 143360, "NVIDIA H200", "x", mig_enabled=self.key("gpu.0.mig_mode") == "1"
        )
        found = [gpu]
        for place in range(7):
            words = self.key(f"gpu.0.mig.{place}").split(",")
            if len(words) > 1:
                found.append(
                    Device(
                        words[0], 0, 1, words[7], 0, "", "x", parent=gpu.uuid, profile=words[7], slices=int(words[3])
                    )
                )
        return found

    def layout(self) -> GpuLayout | None:
        listed = self.devices()
        return layout_of(listed[0], listed)

    def divide(self, layout: GpuLayout, timeout_s: int = 30, uuid: str = "") -> tuple[bool, str]:
        work = node_pb2.GpuWork(
            work_id="w", kind=node_pb2.GpuWork.DIVIDE, uuid=uuid or self.fake.uuid(0), timeout_s=timeout_s
        )
        work.layout.profiles.extend(layout)
        return asyncio.run(self.divider.divide(work))

    def refuse(self, profile: str, code: int | None = NO_ROOM) -> None:
        self.fake.put({f"gpu.0.refuse_profile.{PROFILE_IDS[profile]}": code})


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    fake = FakeNvml(tmp_path / "state")
    for name, value in fake.env().items():
        monkeypatch.setenv(name, value)
    spool = tmp_path / "spool"
    spool.mkdir()
    made = Node(spool, fake)
    yield made
    made.executor.shutdown()
    with contextlib.suppress(OSError):
        os.close(made.dir_fd)


def test_whole_to_parts_and_back(node: Node) -> None:
    assert node.layout() == ()
    assert node.divide(SEVEN) == (True, "")
    assert node.layout() == SEVEN
    assert node.divide(THREE) == (True, "")
    assert node.layout() == THREE
    assert node.divide(()) == (True, "")
    assert node.layout() == ()
    assert node.key("gpu.0.mig_mode") == "0"
    assert not [key for key in range(1, 15) if node.key(f"gpu.0.gi.{key}")]


def test_what_is_so_already_is_left_alone(node: Node) -> None:
    node.divide(SEVEN)
    before = len(node.fake.set_calls())
    assert node.divide(SEVEN) == (True, "")
    assert len(node.fake.set_calls()) == before


def test_a_gpu_that_is_used_is_not_touched(node: Node) -> None:
    node.fake.put({"gpu.0.proc.0": "4242,1000,C,0,0"})
    assert node.divide(SEVEN) == (False, "1 process(es) use the GPU")
    assert node.layout() == ()
    assert node.fake.set_calls() == []


@pytest.mark.parametrize("before", [(), SEVEN, THREE])
def test_when_it_fails_the_last_good_layout_comes_back(node: Node, before: GpuLayout) -> None:
    node.divide(before)
    node.refuse("2g.35gb" if before == SEVEN else "1g.18gb")
    wanted = THREE if before == SEVEN else parse_layout("2g.35gb*2,1g.18gb")
    if before == THREE:
        node.refuse("1g.18gb", None)
        wanted = parse_layout("7g.141gb,1g.18gb")  # too much
    ok, text = node.divide(wanted)
    assert not ok
    assert "nvmlDeviceCreateGpuInstance: Insufficient Resources; it is" in text
    assert node.layout() == before
    node.refuse("1g.18gb", None)
    node.refuse("2g.35gb", None)
    assert node.divide(THREE) == (True, "")


def test_when_even_that_fails_it_is_said(node: Node) -> None:
    node.divide(SEVEN)
    node.refuse("1g.18gb")
    ok, text = node.divide(THREE)
    assert not ok
    assert "it could not be made 1g.18gb*7 again either: nvmlDeviceCreateGpuInstance: Insufficient Resources" in text
    node.refuse("1g.18gb", None)
    node.restart()
    assert restore(node.dir_fd, tuple(node.devices()))
    assert node.layout() == SEVEN


@pytest.mark.parametrize("function", ["nvmlDeviceSetMigMode", "nvmlGpuInstanceCreateComputeInstance"])
def test_in_use_says_the_driver(node: Node, function: str) -> None:
    node.fake.put({f"fn.{function}": IN_USE})
    ok, text = node.divide(SEVEN)
    assert not ok
    assert f"{function}: In use by another client" in text
    node.fake.put({f"fn.{function}": None})
    assert node.divide(SEVEN) == (True, "")


def test_a_mode_that_wants_a_reset_is_not_forced(node: Node) -> None:
    node.fake.put({"gpu.0.mig_needs_reset": 1})
    ok, text = node.divide(SEVEN)
    assert not ok
    assert "MIG mode cannot be switched on without a reset of the GPU; it is whole again" in text
    assert node.layout() == ()


def test_a_profile_that_it_does_not_have(node: Node) -> None:
    ok, text = node.divide(("1g.5gb",))
    assert not ok
    assert "it has no profile 1g.5gb; it has 1g.18gb, 2g.35gb, 3g.71gb, 7g.141gb; it is whole again" in text


def hang_in(node: Node, layout: GpuLayout, function: str) -> None:
    """A division that ends by the time-out of this call. On a machine that stands still an earlier call may have it."""
    for timeout_s in (1, 15, 60):
        found = node.divide(layout, timeout_s=timeout_s)
        if function in found[1]:
            break
    assert found == (False, f"{function} did not return within {timeout_s} s")


def test_a_call_that_hangs_is_named_and_the_daemon_lives(node: Node) -> None:
    node.fake.put({"hang.nvmlDeviceCreateGpuInstance": 1})
    hang_in(node, SEVEN, "nvmlDeviceCreateGpuInstance")
    assert node.layout() is None
    node.fake.put({"hang.nvmlDeviceCreateGpuInstance": None})
    node.restart()
    assert restore(node.dir_fd, tuple(node.devices()))  # the last good one
    assert node.layout() == ()


def test_layouts_come_back_after_a_reboot(node: Node) -> None:
    node.divide(SEVEN)
    reboot(node)
    assert node.layout() == ()
    node.restart()
    assert restore(node.dir_fd, tuple(node.devices()))
    assert node.layout() == SEVEN
    assert not restore(node.dir_fd, tuple(node.devices()))  # nothing is left to do


def test_mode_may_outlive_a_reboot_and_instances_do_not(node: Node) -> None:
    node.divide(SEVEN)
    reboot(node, mode="1")
    assert node.layout() is None
    node.restart()
    assert restore(node.dir_fd, tuple(node.devices()))
    assert node.layout() == SEVEN


def test_what_somebody_else_has_divided_is_left(node: Node, tmp_path: Path) -> None:
    node.divide(SEVEN)
    spool = tmp_path / "other"
    spool.mkdir()
    other = Node(spool, node.fake)
    other.divide(THREE)
    node.restart()
    before = len(node.fake.set_calls())
    assert not restore(node.dir_fd, tuple(node.devices()))
    assert len(node.fake.set_calls()) == before
    assert node.layout() == THREE
    reboot(node)
    node.restart()
    assert not restore(node.dir_fd, tuple(node.devices()))  # forgotten
    other.executor.shutdown()


def test_a_division_that_the_daemon_did_not_see_end_is_undone(node: Node) -> None:
    node.divide(SEVEN)
    node.fake.put({"hang.nvmlGpuInstanceCreateComputeInstance": 1})
    hang_in(node, THREE, "nvmlGpuInstanceCreateComputeInstance")
    node.fake.put({"hang.nvmlGpuInstanceCreateComputeInstance": None})
    node.restart()
    assert restore(node.dir_fd, tuple(node.devices()))
    assert node.layout() == SEVEN


def test_read_only_is_read_only(node: Node) -> None:
    node.divide(SEVEN)
    node.divider.take_settings(node_pb2.GpuSettings(read_only=True))
    before = len(node.fake.set_calls())
    assert node.divide(()) == (False, READ_ONLY)
    reboot(node)
    node.restart()
    assert not restore(node.dir_fd, tuple(node.devices()))  # nor at the next start, before settings have come
    assert len(node.fake.set_calls()) == before


def test_strange_orders(node: Node) -> None:
    assert node.divide(("half",)) == (
        False,
        "'half' is no MIG profile; profiles look like 1g.18gb (nvidia-smi mig -lgip lists them)",
    )
    assert node.divide(SEVEN, uuid="GPU-nobody") == (False, "GPU-nobody is no whole GPU of this node")
    os.unlink(NAME, dir_fd=node.dir_fd) if os.path.exists(f"/proc/self/fd/{node.dir_fd}/{NAME}") else None
    os.close(os.open(NAME, os.O_CREAT | os.O_WRONLY, dir_fd=node.dir_fd))
    node.restart()  # a damaged file
    assert not restore(node.dir_fd, tuple(node.devices()))


def test_a_driver_that_is_not_there(node: Node) -> None:
    node.fake.put({"fn.nvmlInitWithFlags": 9})
    ok, text = node.divide(SEVEN)
    assert not ok
    assert "Driver Not Loaded" in text


def reboot(node: Node, mode: str = "0") -> None:
    """Instances are gone, MIG mode as well unless the card keeps it."""
    node.fake.path.with_name(node.fake.path.name + ".set").unlink()
    node.fake.put({"gpu.0.mig_mode": mode})
