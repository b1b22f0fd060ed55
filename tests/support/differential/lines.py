"""Command lines from commands/*.txt.

One command a line, in a shell's quoting; # begins a comment. `for NAME in A B C: COMMAND` is the command once with each word in
place of {NAME}. {job} is the id of a job of shape.JOBS. Files run in the order of their names, lines in their order: later files
may change the jobs. A line stands for its command in recorded.json and known.toml, so it has to be unique.
"""

import re
from collections.abc import Iterator
from pathlib import Path

LOOP = re.compile(r"for (\w+) in (.+?): (s[a-z]+ .+)")


def lines(folder: Path) -> list[str]:
    """All of the folder's files."""
    found = [line for path in sorted(folder.glob("*.txt")) for line in expanded(path.read_text())]
    twice = sorted({line for line in found if found.count(line) > 1})
    assert not twice, f"lines stand twice: {twice}"
    return found


def expanded(text: str) -> Iterator[str]:
    """The lines of one file."""
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        loop = LOOP.fullmatch(line)
        if loop is None:
            yield line
            continue
        name, words, command = loop.groups()
        for word in words.split():
            yield command.replace("{" + name + "}", word)
