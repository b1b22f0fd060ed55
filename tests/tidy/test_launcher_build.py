"""The launcher, its server and the build know the same commands and the same numbers; without a compiler there are scripts."""

import os
import re
import struct
import subprocess
import sys

import tidytree as tree
from patience import ANSWER_S

from cli.commandserver import protocol as wire
from cli.commandserver import served

SOURCE = (tree.ROOT / "native" / "launcher.c").read_text()


def names_in(pattern: str, text: str) -> list[str]:
    found = re.search(pattern, text, re.S)
    assert found
    return re.findall(r'"(\w+)"', found.group(1))


def test_the_same_commands() -> None:
    setup = (tree.ROOT / "setup.py").read_text()
    quick = names_in(r"\nQUICK = \[(.*?)\]", setup)
    assert list(wire.COMMANDS) == quick == names_in(r"served\[\] = \{(.*?)\}", SOURCE)
    assert set(quick) <= set(names_in(r"\nCOMMANDS = \[(.*?)\]", setup))


def test_the_same_numbers() -> None:
    protocol = int(re.search(r"#define PROTOCOL (\d+)u", SOURCE).group(1))
    assert 0x50535400 | protocol == wire.MAGIC
    ours = ("FILES_MAX", "FILES_OWN", "REQUEST_BYTES_MAX")
    for name, value in ((name, getattr(served, name)) for name in ours):
        text = re.search(rf"#define {name} ([^/\n]+)", SOURCE).group(1).strip()
        assert eval(text.replace("u", "")) == value, name
    assert (wire.EXITED, wire.SIGNALLED, wire.DECLINED) == (1, 2, 3)
    assert "EXITED = 1, SIGNALLED = 2, DECLINED = 3" in SOURCE
    # The structures have no padding: C and Python count the same bytes.
    assert served.REQUEST.size == struct.calcsize(f"@IIIIIIiiQ{served.FILES_MAX}i")
    assert wire.GREETING.size == wire.REPORT.size == 12


def test_without_a_compiler_there_are_scripts(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_scripts", "--build-dir", str(tmp_path / "s")],
        cwd=tree.ROOT,
        env={**os.environ, "CC": "/nonexistent/cc"},
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
    )
    assert done.returncode == 0 and "cannot be compiled" in done.stderr, done.stderr
    scripts = {path.name: path.read_text() for path in (tmp_path / "s").iterdir()}
    assert sorted(scripts) == sorted(wire.COMMANDS)
    assert scripts["squeue"] == "#!python\nfrom cli.squeue import main\n\nmain()\n"
