"""See the package. Usage: python -m differential.plays [compare | record | ours] [SITE]"""

import json
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from differential.judge import known
from differential.peers import Answer
from differential.plays.play import FOLDER, Play, Site, sites
from differential.plays.player import PlayedOurs, PlayedSlurm, played

RECORDED, KNOWN = FOLDER / "recorded.json", FOLDER / "known.toml"
Told = dict[str, list[Answer]]


def ask(kind: type[PlayedSlurm] | type[PlayedOurs], site: Site, expected: Told | None = None) -> Told:
    """What one side answers to the plays of a site."""
    work = Path(tempfile.mkdtemp(prefix="plays-"))
    work.chmod(0o777)
    try:
        with kind(work, site) as side:
            return {play.name: played(side, play, (expected or {}).get(play.name)) for play in site.plays}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def recorded() -> Told:
    """What Slurm answered when it was asked."""
    if not RECORDED.exists():
        return {}
    kept = json.loads(RECORDED.read_text())
    return {name: [Answer(*answer) for answer in answers] for name, answers in kept.items()}


def write(told: Told) -> None:
    """One answer a line."""
    plays = [
        json.dumps(name, ensure_ascii=False)
        + ": [\n"
        + ",\n".join(json.dumps(list(answer), ensure_ascii=False) for answer in answers)
        + "\n]"
        for name, answers in told.items()
    ]
    RECORDED.write_text("{\n" + ",\n".join(plays) + "\n}\n")


@lru_cache
def meant() -> tuple[re.Pattern[str], ...]:
    """Plays that are meant to go differently, each with its reason: known.toml."""
    entries = tomllib.loads(KNOWN.read_text())["play"]
    assert all(set(entry) == {"play", "reason"} for entry in entries), entries
    return tuple(re.compile(entry["play"]) for entry in entries)


def is_meant(play: Play) -> bool:
    """Whether a difference of the play is known."""
    return any(pattern.search(play.name) for pattern in meant())


def differences(site: Site, slurm: Told, ours: Told) -> Iterable[tuple[Play, str, Answer, Answer]]:
    """The lines that are answered differently, and not known to be."""
    judge = known().judge
    for play in site.plays:
        if is_meant(play):
            continue
        for line, theirs, own in zip(play.lines, slurm[play.name], ours[play.name], strict=True):
            if not judge(line, theirs, own):
                yield play, line, theirs, own


def main() -> int:
    what, *more = sys.argv[1:] or ["compare"]
    found = 0
    before = recorded()
    for site in sites(*more):
        slurm = {play.name: before[play.name] for play in site.plays if play.name in before}
        if what == "record":
            new = tuple(play for play in site.plays if play.name not in before)
            others = {name: told for name, told in before.items() if not name.startswith(f"{site.name}: ")}
            before = others | slurm | (ask(PlayedSlurm, site._replace(plays=new)) if new else {})
            write(before)
            continue
        if what == "compare":
            slurm = ask(PlayedSlurm, site)
        ours = ask(PlayedOurs, site, slurm)
        last = None
        for play, line, theirs, own in differences(site, slurm, ours):
            if play is not last:
                print(f"---- {play.name}")
                last = play
            print(f"$ {line}\n    Slurm {tuple(theirs)}\n    ours  {tuple(own)}")
            found += 1
    print(f"{found} lines differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
