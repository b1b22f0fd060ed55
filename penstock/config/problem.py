"""Errors and warnings of a configuration, with their positions.

Every finding has the file and the line that caused it. Problems make the whole configuration unusable; warnings do not.
Findings are collected, so that an administrator sees all of them at once.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

#: Maximum number of problems listed. A wrong file (a log, a binary) has thousands.
PROBLEMS_MAX = 200

#: Maximum number of warnings listed.
WARNINGS_MAX = 500

#: Maximum length of one message; values in the file can be of any length.
TEXT_MAX = 500


class Where(NamedTuple):
    """A position in a configuration file. Line 0 means the file as a whole."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why the configuration cannot be used."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{Where(self.file, self.line)}: {self.text}"


class ConfigError(Exception):
    """The configuration cannot be used; `problems` holds every reason."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class Ignored(NamedTuple):
    """A parameter, or a word of one, in the file that has no effect."""

    where: Where
    key: str
    word: str  # of a list such as SlurmctldParameters; "" = the whole parameter
    value: str
    does: str  # its effect in Slurm; "" if `word` is set
    why: str  # why it has none here, and the alternative

    def text(self) -> str:
        """The warning's text."""
        name = f"{self.key}={self.word}" if self.word else self.key
        return f"{name} is known to Slurm and not used by Penstock: {self.why}"


@dataclass(slots=True)
class Findings:
    """Collects problems and warnings of one load in any order, and returns them in the order of the lines."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[tuple[Where, str]] = field(default_factory=list)
    left_out: int = 0
    ignored: list[Ignored] = field(default_factory=list)

    def error(self, where: Where, text: str) -> None:
        """Adds a problem; beyond the limit they are only counted."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(where.file, where.line, _cut(text)))
        else:
            self.left_out += 1

    def number(self) -> int:
        """The number of problems so far."""
        return len(self.problems) + self.left_out

    def warn(self, where: Where, text: str) -> None:
        """Adds a warning; beyond the limit warnings are dropped, since the file is still usable."""
        if len(self.warnings) < WARNINGS_MAX:
            self.warnings.append((where, _cut(text)))

    def ignore(self, what: Ignored) -> None:
        """Adds a parameter without effect, and a warning with the reason."""
        if len(self.ignored) < WARNINGS_MAX:
            self.ignored.append(what._replace(value=_cut(what.value), word=_cut(what.word)))
        self.warn(what.where, what.text())

    def raise_if_any(self, files: tuple[str, ...]) -> None:
        """Raises ConfigError if there is any problem. `files`: the order of the files."""
        if not self.problems:
            return
        problems = sorted(self.problems, key=lambda problem: _place(Where(problem.file, problem.line), files))
        if self.left_out:
            problems.append(Problem(problems[0].file, 0, f"and {self.left_out} more problems"))
        raise ConfigError(tuple(problems))

    def warning_lines(self, files: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the warnings as text."""
        found = sorted(self.warnings, key=lambda warning: _place(warning[0], files))
        return tuple(f"{where}: {text}" for where, text in found)

    def ignored_ones(self, files: tuple[str, ...]) -> tuple[Ignored, ...]:
        """Returns parameters without effect, in the order of the lines."""
        return tuple(sorted(self.ignored, key=lambda one: _place(one.where, files)))


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 3] + "..."


def _place(where: Where, files: tuple[str, ...]) -> tuple[int, bool, int]:
    """Sort key by file, then line; findings about a whole file follow those of its lines."""
    return files.index(where.file) if where.file in files else len(files), where.line == 0, where.line
