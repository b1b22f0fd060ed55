"""The fake NVML of tests/fakenvml for tests: built when it is first asked for, and a handle on what it says.

    fake = FakeNvml(tmp_path / "state", profile="h100x8")
    subprocess.run(command, env=os.environ | fake.env())        # pynvml there finds the fake
    fake.put({"gpu.1.lost": 1})                                 # every process sees it at its next call
    fake.event(0, 79)                                           # an XID

The keys of the state are in the head of fakenvml.c.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from clibrary import built

HERE = Path(__file__).resolve().parents[1] / "fakenvml"
SONAME = "libnvidia-ml.so.1"
FLAGS = (
    "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fPIC", "-shared", "-pthread",
    "-fvisibility=hidden", f"-Wl,-soname,{SONAME}", "-Wl,-z,defs",
)  # fmt: skip
XID_EVENT = 8


def library() -> Path:
    """The built library."""
    return built(HERE / "fakenvml.c", FLAGS, SONAME)


class FakeNvml:
    """What the fake says, as a dict of keys; `profile` is h200x2 (two sockets, NVLink) or h100x8 (NVSwitches)."""

    def __init__(self, path: Path, profile: str = "h200x2", changes: Mapping[str, object] | None = None) -> None:
        self.path = Path(path)
        self.log = self.path.with_name(self.path.name + ".log")
        text = (HERE / f"{profile}.state").read_text()
        lines = (line for line in text.splitlines() if line and not line.startswith("#"))
        self.keys: dict[str, object] = {key: value for key, value in (line.split("=", 1) for line in lines)}
        self._events = 0
        self.put(changes or {})

    def put(self, changes: Mapping[str, object | None]) -> None:
        """Change keys (None: remove) in one step, also those that a setter has set."""
        for key, value in changes.items():
            if value is None:
                self.keys.pop(key, None)
            else:
                self.keys[key] = value
        fd, new = tempfile.mkstemp(dir=self.path.parent)
        with os.fdopen(fd, "w") as file:
            file.writelines(f"{key}={value}\n" for key, value in self.keys.items())
        os.chmod(new, 0o644)
        os.rename(new, self.path)
        was_set = self.path.with_name(self.path.name + ".set")
        if was_set.exists():
            with open(was_set, "a") as file:
                file.writelines(f"!{key}\n" for key in changes)

    def event(self, gpu: int, data: int, type_: int = XID_EVENT) -> None:
        """Something that an event set tells: by default an XID."""
        self.put({self.next_event(): f"{gpu},{type_},{data},-1,-1"})

    def next_event(self) -> str:
        """The key of one more event, for who puts it elsewhere."""
        self._events += 1
        return f"event.{self._events}"

    def uuid(self, gpu: int) -> str:
        """The UUID of the GPU with that index."""
        return str(self.keys[f"gpu.{gpu}.uuid"])

    def env(self) -> dict[str, str]:
        """For a process that is to find the fake; calls are written to `log`."""
        return {
            "FAKE_NVML_STATE": str(self.path),
            "LD_LIBRARY_PATH": str(library().parent),
            "FAKE_NVML_LOG": str(self.log),
        }

    def calls(self) -> list[tuple[str, int]]:
        """Functions that were called, and the GPU each was called for (-1: none)."""
        lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        return [(function, int(gpu)) for _, function, gpu in (line.split() for line in lines)]

    def set_calls(self) -> list[tuple[str, int]]:
        """Those that change something on a card."""
        words = ("Set", "Create", "Destroy", "Clear", "Reset")
        return [(f, g) for f, g in self.calls() if any(w in f for w in words) and not f.startswith("nvmlEventSet")]
