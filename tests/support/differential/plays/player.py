"""The two sides of a play: clusters of processes with a site's nodes, and what they answer to its lines."""

import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from livecluster import ClusterConf, Daemon, LiveCluster
from patience import END_S

from differential import shape
from differential.normal import normal
from differential.peers import Answer, Ours, Side, Slurm
from differential.plays.play import FILTERED, NODE_LINE, SUBMISSION, Play, Site

#: A recording waits as long for a state that may never come, and a play that expects none as long to see it stay away.
RECORDED_S, NEVER_S = 20.0, 5.0
POLL_S = 0.1
NEVER = 98


class PlayedSlurm(Slurm):
    """The reference with a site's nodes."""

    def __init__(self, work: Path, site: Site) -> None:
        super().__init__(work)
        self.site = site

    def _start(self) -> None:
        (self.folder / "topology.conf").write_text(self.site.topology)
        gres = "".join(
            f"NodeName={name} Name=gpu Type={kind} File={self.folder}/gpu[0-{count - 1}]\n"
            for name, (_, _, kind, count) in sizes(self.site).items()
            if count
        )
        self.start_daemons(self.site.nodes, self.site.conf_text, gres)
        self._until(lambda: set(self.run(["sinfo", "-h", "-o", "%T"]).out.split()) == {"idle"})

    def populate(self) -> None:
        pass


class PlayedCluster(LiveCluster):
    """A LiveCluster with a site's nodes."""

    def __init__(self, site: Site) -> None:
        self.site = site
        super().__init__(len(site.nodes), ClusterConf())

    def conf_text(self, *more: str) -> str:
        own = ("NodeName=", "PartitionName=", "ClusterName=", "GresTypes=", "SelectType", "DefMem", "ReturnTo")
        lines = [line for line in super().conf_text(*more).splitlines() if not line.startswith(own)]
        return "\n".join(lines) + "\n" + self.site.conf_text({name: "NodeAddr=127.0.0.1" for name in self.site.nodes})

    def start(self) -> Self:
        (self.home / "topology.conf").write_text(self.site.topology)
        return super().start()

    def start_node(self, name: str, **env: str) -> Daemon:
        cpus, memory_mb, kind, gpus = sizes(self.site)[name]
        self.conf = replace(self.conf, cpus=cpus, memory_mb=memory_mb, gpus=gpus, gpu_type=kind)
        return super().start_node(name, **env)


class PlayedOurs(Ours):
    """Penstock with a site's nodes."""

    def __init__(self, work: Path, site: Site) -> None:
        self.site = site
        super().__init__(work)

    def new_cluster(self) -> LiveCluster:
        return PlayedCluster(self.site)

    def populate(self) -> None:
        pass


def sizes(site: Site) -> Mapping[str, tuple[int, int, str, int]]:
    """CPUs, memory, type and number of GPUs of each node."""
    found = {}
    for line in site.conf:
        if node := NODE_LINE.match(line):
            number = {key: int(value) for key, value in re.findall(r"(CPUs|RealMemory)=(\d+)", line)}
            gpus = re.search(r"Gres=gpu:(\w+):(\d+)", line)
            kind, count = (gpus[1], int(gpus[2])) if gpus else ("", 0)
            found[node[1]] = (number["CPUs"], number["RealMemory"], kind, count)
    return found


def played(side: Side, play: Play, expected: list[Answer] | None = None) -> list[Answer]:
    """What the side answers to each line; `expected` ends a wait that will not succeed as soon as it answers so."""
    side.ids = {}
    told = []
    for place, line in enumerate(play.lines):
        answer = one(side, line, expected[place] if expected else None)
        ids = [(number, "{" + name + "}") for name, number in side.ids.items() if number]
        words = [shown(text, side, ids) for text in answer[1:]]
        told.append(Answer(answer.status, *words))
    clear(side)
    return told


def shown(text: str, side: Side, ids: list[tuple[str, str]]) -> str:
    """Without paths and job ids."""
    for number, name in ids:
        text = re.sub(rf"(?<![\w.-]){number}(?!\d)", name, text)
    return normal(text, side.paths)


def one(side: Side, line: str, expected: Answer | None) -> Answer:
    """What the side answers to one line."""
    if found := FILTERED.fullmatch(line):
        answer = side.run(shape.words_of(found[1], side.ids))
        return answer._replace(out="".join(f"{text}\n" for text in re.findall(found[2], answer.out)))
    if found := SUBMISSION.fullmatch(line):
        answer = side.run(shape.words_of(found[2].replace("sbatch", "sbatch --parsable", 1), side.ids))
        side.ids[found[1]] = answer.out.strip()
        return answer._replace(out="")
    if line.startswith("sh "):
        done = subprocess.run(
            ["sh", "-c", shape.fill(line[3:], side.ids)], cwd=side.work, capture_output=True, text=True
        )
        return Answer(done.returncode, done.stdout, done.stderr)
    if line.startswith("wait "):
        _, job, wanted = line.split(maxsplit=2)
        number = shape.fill(job, side.ids)
        return awaited(side, number, wanted, expected) if number[:1].isdigit() else Answer(NEVER, "no job\n", "")
    return side.run(shape.words_of(line, side.ids))


def awaited(side: Side, job: str, wanted: str, expected: Answer | None) -> Answer:
    limit_s = RECORDED_S if expected is None else NEVER_S if expected.status else END_S
    deadline = time.monotonic() + limit_s
    while True:
        seen = side.run(["squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%t %r"]).out.strip()
        if seen.startswith(wanted):
            return Answer(0, "", "")
        if time.monotonic() > deadline:
            return Answer(NEVER, f"{seen}\n", "")
        time.sleep(POLL_S)


def clear(side: Side) -> None:
    """No job is left."""
    side.run(["scancel", "-u", "root"])
    deadline = time.monotonic() + END_S
    while side.run(["squeue", "-h"]).out.strip():
        assert time.monotonic() < deadline, side.run(["squeue"]).out
        time.sleep(POLL_S)
    for path in side.work.iterdir():
        path.unlink()
