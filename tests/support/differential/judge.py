"""Are two answers the same? As they are, or after the rules of known.toml, each of which has a reason.

    [[rule]]            a substitution that makes the answers alike; tried on commands that `command` matches
    command = "regex"   (searched in the command line; default: all)
    ours = "regex"      replaced in our answer   } by `to` (default: nothing)
    slurm = "regex"     replaced in Slurm's      }
    exit = [1, 0]       these two exit statuses count as the same (Slurm's, ours)
    sorted = true       the order of the lines does not count
    reason = "why"

    [[known]]           a command line whose answers are not compared at all
    command = "regex"
    reason = "why"

On stderr our line may go on where Slurm's ends (": what is wrong with the value"), so that a program that searches for Slurm's text finds it.

open.txt lists the command lines that still differ without a reason: a debt that may only shrink.
"""

import re
import tomllib
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from differential.peers import Answer

FOLDER = Path(__file__).parent
#: Texts for people, which are Slurm's own: of these only the exit status is compared, and nothing is recorded.
PROSE = re.compile(r" (--help|--usage|help|--cpu-bind=help|--mem-bind=help)$|^scontrol show$|^scontrol show hostlist$")
KEYS = {"command", "ours", "slurm", "to", "exit", "sorted", "reason"}


class Rule(NamedTuple):
    """One entry of known.toml."""

    command: re.Pattern[str]
    ours: re.Pattern[str] | None
    slurm: re.Pattern[str] | None
    to: str
    exit: tuple[int, int] | None
    is_sorted: bool
    reason: str


class Known(NamedTuple):
    """All of known.toml."""

    rules: list[Rule]
    skipped: list[Rule]

    def judge(self, line: str, slurm: Answer, ours: Answer) -> bool:
        """True when the two are the same, for all that is known."""
        if any(entry.command.search(line) for entry in self.skipped):
            return True
        for rule in self.rules:
            if not rule.command.search(line):
                continue
            slurm, ours = replaced(slurm, rule.slurm, rule.to), replaced(ours, rule.ours, rule.to)
            if rule.is_sorted:
                slurm, ours = in_order(slurm), in_order(ours)
            if rule.exit == (slurm.status, ours.status):
                ours = ours._replace(status=slurm.status)
        if PROSE.search(line):
            return slurm.status == ours.status
        return slurm[:2] == ours[:2] and explains(slurm.err, ours.err)


#: What an explanation stands behind, and how it begins.
REFUSAL = re.compile(r"\w+: (error|fatal): |allocation failure: |Unknown job signal: ")
EXPLANATION = re.compile(r"\w+: (?!error: |fatal: |warning: )")


def told(slurm: str, ours: str) -> list[str]:
    """Our lines without explanations: lines of their own behind a refusal, which Slurm has not."""
    kept: list[str] = []
    theirs = slurm.splitlines()
    for line in ours.splitlines():
        if line not in theirs and kept and REFUSAL.match(kept[-1]) and EXPLANATION.match(line):
            continue
        kept.append(line)
    return kept


def explains(slurm: str, ours: str) -> bool:
    """Each line on stderr is Slurm's, or goes on behind it with what is wrong and what may be written."""
    pairs = list(zip_longest(slurm.splitlines(), told(slurm, ours), fillvalue=""))
    return all(own == theirs or own.startswith((f"{theirs}: ", f"{theirs} ")) for theirs, own in pairs)


def in_order(answer: Answer) -> Answer:
    out, err = ("".join(sorted(text.splitlines(keepends=True))) for text in (answer.out, answer.err))
    return answer._replace(out=out, err=err)


def replaced(answer: Answer, pattern: re.Pattern[str] | None, to: str) -> Answer:
    if pattern is None:
        return answer
    return answer._replace(out=pattern.sub(to, answer.out), err=pattern.sub(to, answer.err))


def known(path: Path = FOLDER / "known.toml") -> Known:
    """Reads known.toml; the plays over time have that of the command lines."""
    data = tomllib.loads(path.read_text())
    return Known(
        [rule_of(entry) for entry in data.get("rule", [])], [rule_of(entry) for entry in data.get("known", [])]
    )


def rule_of(entry: dict[str, object]) -> Rule:
    assert set(entry) <= KEYS and entry.get("reason"), entry

    def pattern(key: str) -> re.Pattern[str] | None:
        return re.compile(str(entry[key]), re.M) if key in entry else None

    status = entry.get("exit")
    assert status is None or isinstance(status, list)
    pair = (int(status[0]), int(status[1])) if status else None
    return Rule(
        pattern("command") or re.compile(""),
        pattern("ours"),
        pattern("slurm"),
        str(entry.get("to", "")),
        pair,
        bool(entry.get("sorted")),
        str(entry["reason"]),
    )
