"""The launcher as installed: compiled, in a folder with its own Python and a copy of our code.

`Launched` makes an environment that is like one that pip made: bin/penstock names the interpreter, which here is a
script that notes each start of Python. So a test can check whether a call was served (no start recorded) or ran
directly.
"""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from patience import ANSWER_S, END_S

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("sbatch", "squeue", "sacct", "scancel", "srun", "salloc", "sattach", "sinfo", "scontrol")


def wait_for(true: Any, what: str) -> Any:
    """Polls until `true` returns a true value, and returns it."""
    deadline = time.monotonic() + END_S
    while not (found := true()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)
    return found


def build(folder: Path, source: Path = ROOT / "native/launcher.c") -> Path:
    """The launcher, compiled as setup.py does it, with all warnings as errors."""
    program = folder / "launcher"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, "-O2", *warnings, "-o", program, source], check=True)
    return program


def state_of(pid: int) -> str:
    """The letter of a process's state; "" = there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def told(pid: int) -> str:
    """The kernel's data about a process that should have ended: its state, signals and files."""
    try:
        words = Path(f"/proc/{pid}/status").read_text()
        files = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()]
        where = Path(f"/proc/{pid}/wchan").read_text()
    except OSError as error:
        return f"{pid}: {error.strerror}"
    kept = [
        line for line in words.splitlines() if line.split(":")[0] in ("State", "PPid", "SigPnd", "SigBlk", "SigCgt")
    ]
    return f"{pid}: {' '.join(kept)} in {where}, {files}"


def kill(pid: int) -> None:
    """Kill a process and see it gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: state_of(pid) in ("", "Z"), f"{pid} is gone")


class Launched:
    """Commands in `bin`, a run directory, and what was started."""

    def __init__(self, folder: Path, program: Path, cluster_file: Path | None = None) -> None:
        self.folder = folder
        self.code = folder / "code"
        self.run_dir = folder / "run"
        self.servers_dir = self.run_dir / "penstock"
        self.log = folder / "starts"
        self.bin = folder / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        for package in ("cli", "penstock"):
            shutil.copytree(ROOT / package, self.code / package)
        packages = next((folder / "venv").glob("lib/python*/site-packages"))
        (packages / "x.pth").write_text(f"{self.code}\n{sysconfig.get_path('purelib')}\n")
        noting = self.bin / "noting-python"
        noting.write_text(f'#!/bin/sh\nprintf "%s\\n" "$4" >>"{self.log}"\nexec "{self.bin}/python3" "$@"\n')
        noting.chmod(0o755)
        (self.bin / "penstock").write_text(f"#!{noting}\n")
        for name in NAMES:
            shutil.copyfile(program, self.bin / name)
            (self.bin / name).chmod(0o755)
        self.run_dir.mkdir(mode=0o700)
        self.log.touch()
        self.pid = 0  # of the server that a test uses
        self.env = {
            b"PATH": os.environb[b"PATH"],
            b"HOME": b"/nonexistent",
            b"XDG_RUNTIME_DIR": os.fsencode(self.run_dir),
            b"PENSTOCK_CLUSTER": os.fsencode(cluster_file or "/nonexistent/cluster.json"),
        }

    def run(self, name: str, *words: str | bytes, **options: Any) -> "subprocess.CompletedProcess[bytes]":
        """Runs one call to its end."""
        env = self.env | options.pop("env", {})
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": ANSWER_S} | options
        if "input" in settings:
            settings.pop("stdin")
        return subprocess.run([self.bin / name, *words], env=env, check=False, **settings)

    def start(self, name: str, *words: str | bytes, **options: Any) -> "subprocess.Popen[bytes]":
        """Starts one call."""
        env = self.env | options.pop("env", {})
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        } | options
        return subprocess.Popen([self.bin / name, *words], env=env, **settings)

    def plain(self, name: str, *words: str | bytes, **options: Any) -> "subprocess.CompletedProcess[bytes]":
        """The same call in plain Python."""
        env = options.pop("env", {}) | {b"PENSTOCK_COMMAND_SERVER": b"0"}
        return self.run(name, *words, env=env, **options)

    def starts(self) -> list[str]:
        """The purposes of the Python processes started since the last call: "squeue", ..., "server"."""
        found = self.peek()
        self.log.write_text("")
        return found

    def peek(self) -> list[str]:
        """The same, without forgetting them."""
        lines = self.log.read_text().splitlines()
        return [line.split()[1].rpartition(".")[2] for line in lines]

    def sockets(self) -> list[Path]:
        """The sockets of servers, including dead ones."""
        return [p for p in sorted(self.servers_dir.glob("*")) if p.is_socket()]

    def server(self, path: Path | None = None) -> int | None:
        """The pid of the server behind a socket; None without an answer."""
        for one in [path] if path else self.sockets():
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(one))
                except OSError:
                    continue
                return int(struct.unpack("iII", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
        return None

    def warm(self) -> int:
        """Ensures a server for this process's environment; returns its pid."""
        pid = self.server()
        if pid is None:
            self.run("squeue", "--version")
            pid = wait_for(self.server, "a server listens")
        self.starts()
        return int(pid)

    def close(self) -> None:
        """End all servers."""
        for path in self.sockets():
            pid = self.server(path)
            if pid is not None:
                kill(pid)
