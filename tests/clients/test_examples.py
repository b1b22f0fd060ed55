"""The examples of Slurm's manual pages on a cluster of eight nodes: tests/support/differential/examples.txt.

The examples of one page run one after the other, since later ones use what earlier ones made. Each has a folder of its
own; its commands are those of a shell, and what they print on both streams is compared line by line.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import differential
import pytest
from differential.plays.play import Site
from differential.plays.player import PlayedCluster
from livecluster import LAUNCHERS
from patience import END_S

from tools.manual import compatibility

PLAYED = Path(differential.__file__).with_name("examples.txt")
HEADING = re.compile(r"## (\w+): (.+)")
COMMAND = re.compile(r"\$(\d*) (.+)")
SITE = Site(
    "examples",
    (
        "ClusterName=e2e", "FirstJobId=1001", "ReturnToService=2", "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU", "PriorityType=priority/basic", "SlurmdParameters=config_overrides",
        *(f"NodeName=n{n} CPUs=16 Sockets=4 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=64000" for n in range(1, 9)),
        "PartitionName=debug Nodes=n[1-8] Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=batch Nodes=n[5-8] MaxTime=30 State=UP",
    ),
    (),
)  # fmt: skip


class Step(NamedTuple):
    """A command, the status with which it ends, and the lines that it prints."""

    status: int
    command: str
    lines: list[str]


class Example(NamedTuple):
    """One example of a page."""

    page: str
    line: str
    steps: list[Step]


def read() -> list[Example]:
    """All of the file."""
    found: list[Example] = []
    for text in PLAYED.read_text().splitlines():
        if heading := HEADING.fullmatch(text):
            found.append(Example(heading[1], heading[2], []))
        elif found and (command := COMMAND.fullmatch(text)):
            found[-1].steps.append(Step(int(command[1] or 0), command[2], []))
        elif found and text:
            found[-1].steps[-1].lines.append(text)
    return found


EXAMPLES = read()


def test_every_example_is_played() -> None:
    listed = tomllib.loads(compatibility.EXAMPLES.read_text())
    assert sorted((one.page, one.line) for one in EXAMPLES) == sorted(
        (page, line) for page, lines in listed.items() for line, _ in lines
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[PlayedCluster]:
    with PlayedCluster(SITE) as made:
        yield made


@pytest.mark.parametrize("page", dict.fromkeys(one.page for one in EXAMPLES))
def test_examples_do_what_the_page_says(page: str, cluster: PlayedCluster) -> None:
    env = cluster.environment()
    env["PATH"] = f"{LAUNCHERS}:{env['PATH']}"
    wrong = []
    for number, example in enumerate(one for one in EXAMPLES if one.page == page):
        folder = cluster.work / f"{page}-{number}"
        folder.mkdir()
        for step in example.steps:
            done = subprocess.run(
                ["sh", "-c", step.command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=END_S, check=False,
            )  # fmt: skip
            lines = done.stdout.splitlines()
            matched = len(lines) == len(step.lines) and all(map(re.fullmatch, step.lines, lines))
            if done.returncode != step.status or not matched:
                wrong.append(f"{example.page}: {example.line}\n$ {step.command}\n{done.stdout}= {done.returncode}")
        cluster.clean()
    assert not wrong, "\n".join(wrong)
