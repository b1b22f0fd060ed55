"""Are two answers alike? What differs is named in a few words, so that known.toml can say of which kinds there is a reason.

    [[rule]]            a variable or a text that is not compared, or only after a change
    env = "NAME"        this variable is left out
    told = "regex"      replaced in what both wrote on stderr by `to` (default: the line is left out)
    reason = "why"

    [[known]]           a family of differences that are meant; an answer that has one counts as different
    family = "name"
    request = "regex"   searched in the request (for a step: `JOB: srun STEP`)
    differs = "regex"   matched against the whole of what differs, as `names` below says it
    slurm = "regex"     searched in Slurm's answer, as text (default: any)
    ours = "regex"      the same of ours
    since = "23.02"     a quirk of 22.05 that this release of Slurm has fixed ("" = none has)
    reason = "why"

What differs is called `said refused runs`, `words`, `nodes names`, `nodes cpus mem gpus`, `env NAME NAME`, `told`, `srun refused
runs`, `ranks`; several stand behind each other with commas. `words` alone means that both refuse the request or both let it wait,
and begin with another complaint: it gets the same, nothing, so these are counted apart (compared.py). On stderr our line may go on where Slurm's ends, and lines of
explanation may follow it.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from differential.grants.answers import REFUSED, RUNS, Job, Step

KNOWN = Path(__file__).parent / "known.toml"
_PARTS = ("cpus", "mem", "gpus")
#: What differs where both refuse, or both wait, and only say it otherwise.
WORDS = "words"


class Family(NamedTuple):
    """One kind of difference that is meant."""

    name: str
    request: re.Pattern[str]
    differs: re.Pattern[str]
    slurm: re.Pattern[str]
    ours: re.Pattern[str]
    since: str
    reason: str


class Judge(NamedTuple):
    """All of known.toml."""

    hidden: frozenset[str]
    texts: tuple[tuple[re.Pattern[str], str | None], ...]
    families: tuple[Family, ...]

    def jobs(self, slurm: tuple[Job, list[Step]], ours: tuple[Job, list[Step]]) -> str:
        """What differs between two answers to a request; "" = nothing."""
        (theirs, their_steps), (own, own_steps) = slurm, ours
        if theirs.said != own.said:
            return f"said {theirs.said} {own.said}"
        told = self._told(theirs.told, own.told)
        if theirs.said != RUNS:
            return "" if told else WORDS
        found = [_nodes(theirs, own), self._env(theirs, own), "" if told else "told"]
        found += [self.steps(a, b, "srun ") for a, b in zip(their_steps, own_steps, strict=True)]
        return ", ".join(filter(None, found))

    def steps(self, slurm: Step, ours: Step, prefix: str = "said ") -> str:
        """The same of a step."""
        if slurm.said != ours.said:
            return f"{prefix}{slurm.said} {ours.said}"
        if slurm.said == REFUSED and not self._told(slurm.told, ours.told):
            return WORDS
        return "ranks" if slurm.ranks != ours.ranks else ""

    def family(self, request: str, differs: str, slurm: object, ours: object) -> Family | None:
        """The reason for a difference, if there is one."""
        for family in self.families:
            if not (family.request.search(request) and family.differs.fullmatch(differs)):
                continue
            if family.slurm.search(str(slurm)) and family.ours.search(str(ours)):
                return family
        return None

    def _env(self, slurm: Job, ours: Job) -> str:
        names = sorted({*slurm.env, *ours.env} - self.hidden)
        wrong = [name.removeprefix("SLURM_") for name in names if slurm.env.get(name) != ours.env.get(name)]
        return " ".join(("env", *wrong)) if wrong else ""

    def _told(self, slurm: Sequence[str], ours: Sequence[str]) -> bool:
        """Each line of Slurm's is there, in order; ours may be longer, and lines that explain it may follow."""
        own = iter(self._plain(ours))
        return all(any(line == text or line.startswith((f"{text}: ", f"{text} ")) for line in own) for text in self._plain(slurm))  # fmt: skip

    def _plain(self, lines: Sequence[str]) -> list[str]:
        found = []
        for line in lines:
            kept: str | None = line
            for pattern, to in self.texts:
                if kept is not None and pattern.search(kept):
                    kept = None if to is None else pattern.sub(to, kept)
            if kept is not None:
                found.append(kept)
        return found


def _nodes(slurm: Job, ours: Job) -> str:
    if list(slurm.nodes) != list(ours.nodes):
        return "nodes names"
    wrong = [
        what for i, what in enumerate(_PARTS)
        if [each[i] for each in slurm.nodes.values()] != [each[i] for each in ours.nodes.values()]
    ]  # fmt: skip
    return " ".join(("nodes", *wrong)) if wrong else ""


def read_known() -> Judge:
    """Reads known.toml."""
    data = tomllib.loads(KNOWN.read_text())
    assert all(one["reason"] for one in (*data["rule"], *data.get("known", ())))
    return Judge(
        frozenset(one["env"] for one in data["rule"] if "env" in one),
        tuple((re.compile(one["told"]), one.get("to")) for one in data["rule"] if "told" in one),
        tuple(
            Family(
                one["family"], re.compile(one["request"]), re.compile(one["differs"]), re.compile(one.get("slurm", "")),
                re.compile(one.get("ours", "")), one.get("since", ""), one["reason"],
            )
            for one in data.get("known", ())
        ),
    )  # fmt: skip
