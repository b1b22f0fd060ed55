"""The rules of `sbatch --lint`: pure functions over the parsed script, one each, in one table.

A rule yields findings: the line, what is wrong there, and what to write instead. This module sends no requests;
cli/lint/lintrun.py does, and passes the answers to `crossing` and `refused`. The rules are for mistakes that sbatch
accepts or that show up late; errors that sbatch reports itself are collected, so that one run shows all of them.
cli/lint/lintlaunch.py has the rules for programs that start processes by themselves (torchrun, ...).
"""

import difflib
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cli.base.options import Command, Option, OptionValues, message_text
from cli.lint.lintlaunch import launch_findings
from cli.lint.lintwords import Finding, LintScript, ScriptHead

_SHELL = re.compile(r"\$[A-Za-z_{(]|`|^~(/|$)")
#: The patterns of file names that correspond to variables that users try.
_PATTERNS = {
    "SLURM_JOB_ID": "%j", "SLURM_JOBID": "%j", "SLURM_ARRAY_JOB_ID": "%A", "SLURM_ARRAY_TASK_ID": "%a", "USER": "%u",
    "SLURM_JOB_NAME": "%x", "SLURM_JOB_USER": "%u", "SLURMD_NODENAME": "%N", "HOSTNAME": "%N",
}  # fmt: skip
_FILES = ("output", "error", "input")


def interpreter(script: LintScript) -> Iterator[Finding]:
    """A script without `#!`, or with line ends or bytes that cannot run."""
    data = script.data
    if not data.strip():
        yield Finding(1, "no-interpreter", "the script is empty", "")
    elif not data.startswith(b"#!"):
        later = next((line.number for line in script.head if line.text.lstrip().startswith("#!")), 0)
        where = f": it is on line {later}" if later else ""
        yield Finding(1, "no-interpreter", f"the first line does not name an interpreter{where}", "#!/bin/bash")
    if b"\r\n" in data:
        number = data[: data.index(b"\r\n")].count(b"\n") + 1
        yield Finding(number, "dos-lines", "lines end with CR LF, as in DOS", "convert it: sed -i 's/\\r$//' SCRIPT")
    if b"\0" in data:
        number = data[: data.index(b"\0")].count(b"\n") + 1
        yield Finding(number, "null-byte", "there is a NUL byte, which the controller refuses", "remove it")


def misspelt_directive(script: LintScript) -> Iterator[Finding]:
    """A comment that was meant to be a directive."""
    for line in script.meant:
        written = line.text.strip().partition("-")[0].rstrip() or line.text.strip()
        text = f"{message_text(written)!r} is not #SBATCH, so this line is a comment and has no effect"
        column = len(line.text) - len(line.text.lstrip()) + 1
        yield Finding(line.number, "misspelt-directive", text, f"#SBATCH {line.options}", column)


def directive_after_command(script: LintScript) -> Iterator[Finding]:
    """Directives that come too late to be read."""
    for line in script.late_directives:
        text = f"it is after the first command (line {script.first_command}), where directives are no longer read"
        yield Finding(line.number, "late-directive", text, f"move it above line {script.first_command}", 1)


def bad_option(script: LintScript) -> Iterator[Finding]:
    """Finds directives that sbatch refuses."""
    for directive in script.directives:
        if not directive.error:
            continue
        text = directive.error.partition("\n")[0].removeprefix("sbatch: ")
        options = [word for word in directive.words if word.startswith("-")]
        column = directive.column_of(options[0]) if len(options) == 1 else 0
        yield Finding(directive.number, "bad-option", text, _proposal(directive, script.command), column)


def _proposal(directive: ScriptHead, command: Command) -> str:
    """The probably intended text."""
    names = [o.name for o in command.options]
    for i, word in enumerate(directive.words):
        name, equals, value = word[2:].partition("=") if word.startswith("--") else ("", "", "")
        if name and not any(known.startswith(name) for known in names):
            near = difflib.get_close_matches(name.replace("_", "-").lower(), names, 1, 0.6)
            return f"--{near[0]}{equals}{value}" if near else ""
        if directive.words[i + 1 : i + 2] == ["="]:
            return f"{word}={' '.join(directive.words[i + 2 : i + 3])}, without blanks around ="
        if re.fullmatch(r"-[A-Za-z]=.+", word):
            return f"{word[:2]} {word[3:]}"
        if re.fullmatch(r"-[a-z]{2,}.*", word) and word[1:].partition("=")[0] in names:
            return f"-{word}"
    return ""


def stray_word(script: LintScript) -> Iterator[Finding]:
    """Words in a directive that are neither an option nor its value."""
    for directive in script.directives:
        if directive.stray and not directive.error:
            word = message_text(directive.stray[0])
            text = f"{word!r} is not an option: sbatch refuses the line"
            fix = "begin a comment with a blank and #" if not word.startswith("-") else "one option a line"
            yield Finding(directive.number, "stray-word", text, fix, directive.column_of(directive.stray[0]))


def cut_value(script: LintScript) -> Iterator[Finding]:
    """A value that an unescaped # truncates."""
    for directive in script.directives:
        at = comment_at(directive.text)
        if at > 0 and not directive.text[at - 1].isspace():
            start = max(directive.text.rfind(" ", 0, at), directive.text.rfind("\t", 0, at)) + 1
            kept, lost = message_text(directive.text[start:at]), message_text(directive.text[at:].strip())
            text = f"a # begins a comment, also inside a word: this says {kept}, and {lost!r} is not read"
            fix = f"write {kept}\\#... or put it into quotes; before a comment put a blank"
            yield Finding(directive.number, "cut-value", text, fix, directive.column_at(start))


def comment_at(text: str) -> int:
    """Where a directive's comment begins, -1 = it has none."""
    quote, escaped = "", False
    for at, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#":
            return at
    return -1


def shell_word(script: LintScript) -> Iterator[Finding]:
    """Variables and commands, which no shell expands in a directive."""
    for directive in script.directives:
        for word in directive.words:
            name, _, value = word.partition("=") if word.startswith("--") else ("", "", word)
            if not _SHELL.search(value):
                continue
            option = next((o for o in script.command.options if o.name == name[2:]), None)
            text = f"{message_text(word)} is not expanded: no shell reads directives"
            yield Finding(directive.number, "shell-word", text, _instead(value, option), directive.column_of(word))


def _instead(value: str, option: Option | None) -> str:
    if option is not None and option.name in _FILES:
        changed = re.sub(r"\$\{?([A-Za-z_]+)\}?", lambda m: _PATTERNS.get(m[1], m[0]), value)
        if changed != value and not _SHELL.search(changed):
            return f"--{option.name}={changed}"
    known = f"--{option.name}=..." if option is not None else "the option"
    return f"give {known} on the command line, where the shell expands it"


class Rule(NamedTuple):
    """One rule of the table."""

    name: str
    about: str
    find: Callable[[LintScript], Iterator[Finding]]


RULES = (
    Rule("no-interpreter", "the script does not begin with #!, or cannot run as it is", interpreter),
    Rule("misspelt-directive", "a comment that was meant to be a directive", misspelt_directive),
    Rule("late-directive", "a directive after the first command", directive_after_command),
    Rule("bad-option", "an unknown option, or one whose value cannot be parsed", bad_option),
    Rule("stray-word", "words in a directive that are not options", stray_word),
    Rule("cut-value", "a value that a # truncates", cut_value),
    Rule("shell-word", "shell variables and commands in a directive", shell_word),
    Rule("n-times-n", "srun starts a launcher many times, each of which starts all processes", launch_findings),
)


def lint(script: LintScript) -> list[Finding]:
    """Returns all findings of all rules, in the order of lines."""
    found = [finding for rule in RULES for finding in rule.find(script)]
    return sorted(found, key=lambda finding: (finding.line, finding.rule))


class LintReservation(NamedTuple):
    """A reservation as input of the rules, with its nodes."""

    name: str
    start_at_us: int
    end_at_us: int
    nodes: frozenset[str]


def crossing(
    values: OptionValues, limit_s: int, nodes: frozenset[str], reserved: list[LintReservation], now_us: int
) -> Iterator[tuple[LintReservation, int]]:
    """Reservations that keep the job from starting now, and the longest limit (s) that ends before them. `nodes`: those
    that the job may use. `limit_s`: its time limit, -1 = none. A reservation that leaves enough other nodes does not
    count.
    """
    wanted = values.numbers("nodes", 1, 1)[0]
    own = set(values.text("reservation").split(","))
    for one in reserved:
        is_later = limit_s >= 0 and one.start_at_us >= now_us + limit_s * 1_000_000
        if one.name in own or is_later or one.end_at_us <= now_us or len(nodes - one.nodes) >= wanted:
            continue
        yield one, max(0, (one.start_at_us - now_us) // 1_000_000)
