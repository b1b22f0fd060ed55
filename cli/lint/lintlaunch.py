"""Lint rule for programs that start processes by themselves, started by srun: N tasks a node times N processes of each.

`srun` starts a program once for each task. torchrun and similar programs start all processes of a node from one, so
they need one task per node. With --ntasks-per-node=8 and --nproc_per_node=8 there are 64 processes on 8 GPUs, and the
symptom is a hang or "address already in use". Conversely, such a launcher without srun runs on the job's first node
only.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from cli.base.options import OptionValues, parse
from cli.base.run import CommandError, RemoteAnswer
from cli.jobs.jobwords import devices
from cli.lint.lintwords import Finding, LintScript, without_lookups
from penstock.values.numbers import is_digits


class ProcessLauncher(NamedTuple):
    """The options that set a launcher's number of processes per node; `total`: of all nodes together."""

    counts: tuple[str, ...]
    total: bool = False


_TORCH = ProcessLauncher(("--nproc_per_node", "--nproc-per-node"))
_MPI = ProcessLauncher(("-np", "-n", "-c", "--np"), total=True)
LAUNCHERS = {
    "torchrun": _TORCH,
    "torch.distributed.run": _TORCH,
    "torch.distributed.launch": _TORCH,
    "accelerate": ProcessLauncher(("--num_processes", "--num-processes"), total=True),
    "deepspeed": ProcessLauncher(("--num_gpus", "--num-gpus")),
    "mpirun": _MPI,
    "mpiexec": _MPI,
    "orterun": _MPI,
}
#: Programs that start a launcher on other nodes.
SPREADERS = ("srun", "mpirun", "mpiexec", "orterun", "pdsh", "ssh", "clush", "prun")
ALL_GPUS = ("gpu", "auto")
#: Of a number of processes; a longer one is text.
DIGITS_MAX = 9


def launch_findings(script: LintScript) -> Iterator[Finding]:
    """Launchers in the script's commands that would start too many processes, or too few."""
    values = script.values()
    for number, words in script.commands:
        at = next((i for i, word in enumerate(words) if _name(word) in LAUNCHERS), -1)
        if at < 0:
            continue
        name = _name(words[at])
        starter = next((_name(word) for word in words[:at] if _name(word) in SPREADERS), "")
        if starter == "srun":
            yield from _many(script, values, number, words, at)
        elif not starter and name not in ("mpirun", "mpiexec", "orterun") and _nodes(values) > 1:
            text = f"{name} without srun starts on the first of {_nodes(values)} nodes alone"
            yield Finding(number, "n-times-n", text, f"srun --ntasks-per-node=1 {name} ...")


def _many(script: LintScript, values: OptionValues, number: int, words: list[str], at: int) -> Iterator[Finding]:
    """srun in front of a launcher."""
    name = _name(words[at])
    count = _count(LAUNCHERS[name], words[at + 1 :], values)
    if count in ("", "0", "1"):
        return
    said = _of_srun(words[:at])
    tasks, meant_on = _tasks(script, said.over(values), said)
    if tasks < 2:
        return
    nodes = max(_nodes(said.over(values)), 1)
    each = count if not LAUNCHERS[name].total or not _is_number(count) else str(max(1, int(count) // nodes))
    if each == "1":
        return
    product = f"{tasks * int(each)} processes" if _is_number(each) else f"{tasks} times {each} processes"
    asked = f"line {meant_on} is meant to request" if meant_on else "there are"
    text = f"{asked} {tasks} tasks on a node, and srun starts {name} in each, which starts {each}: {product} on a node"
    fix = f"srun --ntasks-per-node=1 {name} ..., which then has all CPUs and GPUs of the node"
    yield Finding(number, "n-times-n", text, fix)


def _is_number(text: str) -> bool:
    return is_digits(text) and len(text) <= DIGITS_MAX


def _name(word: str) -> str:
    return os.path.basename(word.lstrip("("))


def _of_srun(words: list[str]) -> OptionValues:
    """srun's own options."""
    from cli.steps.stepopts import COMMAND

    start = max(i for i, word in enumerate(words) if _name(word) == "srun")
    try:
        return parse(without_lookups(COMMAND), words[start + 1 :]).values
    except (CommandError, RemoteAnswer):
        return OptionValues()  # mostly values with shell variables


def _tasks(script: LintScript, values: OptionValues, said: OptionValues) -> tuple[int, int]:
    """Tasks of srun per node, and the line of the misspelt directive that sets them (0 = a valid option does). `said`: of
    `values`, those of srun itself.
    """
    found = _tasks_of(values)
    if found > 1 or "ntasks_per_node" in said or "ntasks" in said:
        return found, 0
    for line in script.meant:
        found = _tasks_of(line.values.over(values))
        if found > 1:
            return found, line.number
    return 1, 0


def _tasks_of(values: OptionValues) -> int:
    if "ntasks_per_node" in values:
        return values.number("ntasks_per_node")
    return -(-values.number("ntasks", 1) // max(_nodes(values), 1)) if "ntasks" in values else 1


def _nodes(values: OptionValues) -> int:
    return values.numbers("nodes", 1, 1)[0]


def _count(launcher: ProcessLauncher, words: list[str], values: OptionValues) -> str:
    """The launcher's number of processes: a number, or the text in its place; "" = not given."""
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in launcher.counts:
            text = value if equals else "".join(words[i + 1 : i + 2])
            gpus = _gpus(values)
            if gpus and (text in ALL_GPUS or "GPUS" in text):
                return str(gpus)
            return text
    return ""


def _gpus(values: OptionValues) -> int:
    """GPUs per node, if given."""
    for key in ("gpus_per_node", "gres"):
        found = sum(g.count for g in devices(values, key) if g.name == "gpu")
        if found:
            return int(found)
    return 0
