"""The fake NVML of tests/fakenvml for tests: built when it is first asked for, and a handle on what it says.

    fake = FakeNvml(tmp_path / "state", profile="h100x8")
    subprocess.run(command, env=os.environ | fake.env())        # pynvml there finds the fake
    fake.put({"gpu.1.lost": 1})                                 # every process sees it at its next call
    fake.event(0, 79)                                           # an XID

It needs nothing but a C compiler. The library is kept by the content of its source in the system's temporary folder,
so that all workers and runs share one build; two that build at once do the same work, and rename(2) decides. The keys of
the state are in the head of fakenvml.c.
"""

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "fakenvml"
SONAME = "libnvidia-ml.so.1"
FLAGS = (
    "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fPIC", "-shared", "-pthread",
    "-fvisibility=hidden", f"-Wl,-soname,{SONAME}", "-Wl,-z,defs",
)  # fmt: skip
XID_EVENT = 8


def compiler() -> list[str]:
    """As tools/prerequisites.sh looks for it."""
    return shlex.split(os.environ.get("CC", "")) or [next(c for c in ("gcc", "cc") if shutil.which(c))]


@functools.cache
def library() -> Path:
    """The built library."""
    source = HERE / "fakenvml.c"
    key = hashlib.sha256(source.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"penstock-fakenvml-{os.geteuid()}")
    folder.mkdir(mode=0o755, exist_ok=True)
    if folder.lstat().st_uid != os.geteuid():
        folder = Path(tempfile.mkdtemp(prefix="penstock-fakenvml-"))
    built = folder / key / SONAME
    if not built.exists():
        built.parent.mkdir(mode=0o755, exist_ok=True)
        fd, new = tempfile.mkstemp(dir=built.parent)
        os.close(fd)
        subprocess.run([*compiler(), *FLAGS, "-o", new, str(source)], check=True)
        os.chmod(new, 0o755)
        os.rename(new, built)
    return built


class FakeNvml:
    """What the fake says, as a dict of keys; `profile` is h200x2 (two sockets, NVLink) or h100x8 (NVSwitches)."""

    def __init__(self, path: Path, profile: str = "h200x2", changes: Mapping[str, object] | None = None) -> None:
        self.path = Path(path)
        self.log = self.path.with_name(self.path.name + ".log")
        text = (HERE / f"{profile}.state").read_text()
        self.keys: dict[str, object] = dict(
            line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#")
        )
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
        self._events += 1
        self.put({f"event.{self._events}": f"{gpu},{type_},{data},-1,-1"})

    def uuid(self, gpu: int) -> str:
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
