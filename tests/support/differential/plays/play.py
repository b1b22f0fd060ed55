"""The files of plays: sites, plays and their lines."""

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
SUBMISSION = re.compile(r"(\w+) = (.+)")
SWITCHES = "SwitchName="
FILTERED = re.compile(r"(.+?) ~ (.+)")
NODE_LINE = re.compile(r"NodeName=(\S+)(.*)")


class Play(NamedTuple):
    """Commands that run one after the other. Its text is its name: a play that changes is recorded again."""

    site: str
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.site}: {' ; '.join(self.lines)}"


class Site(NamedTuple):
    """A cluster and the plays that run on it."""

    name: str
    conf: tuple[str, ...]
    plays: tuple[Play, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its nodes, from lines that name one node each."""
        return tuple(found[1] for line in self.conf if (found := NODE_LINE.match(line)))

    def conf_text(self, more: dict[str, str]) -> str:
        """Its part of slurm.conf; `more`: addresses by node."""

        def line_of(line: str) -> str:
            found = NODE_LINE.match(line)
            return f"NodeName={found[1]} {more[found[1]]}{found[2]}" if found else line

        return "".join(f"{line_of(line)}\n" for line in self.conf if not line.startswith(SWITCHES))

    @property
    def topology(self) -> str:
        """topology.conf."""
        return "".join(f"{line}\n" for line in self.conf if line.startswith(SWITCHES))


def sites(pattern: str = "") -> list[Site]:
    """All files in the order of their names."""
    return [read(path) for path in sorted(FOLDER.glob("*.txt")) if re.search(pattern, path.stem)]


def read(path: Path) -> Site:
    """One file."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    blocks = [
        [line for line in block.splitlines() if not line.startswith("#")]
        for block in re.split(r"\n{2,}", "\n".join(lines).strip())
    ]
    conf, *plays = [block for block in blocks if block]
    return Site(path.stem, tuple(conf), tuple(Play(path.stem, tuple(play)) for play in plays))
