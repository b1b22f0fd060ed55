"""What a real Slurm did in plays over time, recorded, and what Penstock does in the same ones: tests/support/differential/plays.

A difference is meant (known.toml, with a reason), or it fails here. The first submission of each play is also made without
processes, which takes a second for all of them.
"""

import re

import pytest
from differential.grants.ours import Ours
from differential.judge import known
from differential.peers import Answer
from differential.plays.__main__ import ask, differences, is_meant, recorded
from differential.plays.play import SUBMISSION, Site, sites
from differential.plays.player import PlayedOurs

#: A core without processes begins in 1970, and has no other commands.
NEEDS_MORE = re.compile(r" : |now\+|\b20\d\d-|\{")


@pytest.mark.parametrize("site", sites(), ids=lambda site: site.name)
def test_submissions_are_answered_as_on_slurm(site: Site) -> None:
    slurm, judge = recorded(), known().judge
    ours = Ours(site.conf_text({name: "NodeAddr=127.0.0.1" for name in site.nodes}), site.topology)
    different = []
    try:
        for play in site.plays:
            line = SUBMISSION.fullmatch(play.lines[0])
            if line is None or NEEDS_MORE.search(play.lines[0]) or is_meant(play):
                continue
            theirs, (status, err) = slurm[play.name][0], ours.submitted(line[2].removeprefix("sbatch "))
            if not judge(play.lines[0], theirs, Answer(status, "", err)):
                different.append(f"{play.lines[0]}\n  Slurm {theirs}\n  ours  {status} {err}")
    finally:
        ours.close()
    assert not different, "\n".join(different)


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("site", sites(), ids=lambda site: site.name)
def test_plays_go_as_on_slurm(site: Site) -> None:
    slurm = recorded()
    missing = [play.name for play in site.plays if play.name not in slurm]
    assert not missing, f"python -m differential.plays record {site.name}, with slurm-wlm: {missing}"
    ours = ask(PlayedOurs, site, slurm)
    new = [
        f"{play.name}\n$ {line}\n  Slurm {theirs}\n  ours  {own}"
        for play, line, theirs, own in differences(site, slurm, ours)
    ]
    assert not new, "\n".join(new)
