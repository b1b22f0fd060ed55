"""Translates #PBS and #BSUB lines of a batch script to options of sbatch.

Slurm reads them unless --ignore-pbs is given, and so does Penstock: a script with a #BSUB line is for LSF, any other
for PBS or Torque. They override the #SBATCH lines, and the environment and the command line override them. Options
without a counterpart (`-j oe`: stderr goes to the output file anyway; `-V`: the environment is passed on anyway) are
ignored; an option that neither system has is an error.

As in Slurm, times are Slurm's: `walltime=3600` is 3600 minutes. Different from Slurm: `host:` before an absolute path
is removed, and a word after a number of nodes (`nodes=2:bigmem`) is a feature, not a host.
"""

import re
from collections.abc import Callable, Iterator

from cli.base.options import NO, YES, Command, Option, message_text, parse
from cli.base.run import CommandError
from cli.jobs.script import Directive
from penstock.values.errors import BadValue
from penstock.values.memory import MEM_MB_MAX
from penstock.values.numbers import is_digits, parse_int

PBS, LSF = "#PBS", "#BSUB"
_HINT = "--ignore-pbs leaves #PBS and #BSUB lines out"
_FLAG_LETTERS = {PBS: "hIVz", LSF: "x"}
_VALUE_LETTERS = {PBS: "aAcCejJklmMNopqrStuvW", LSF: "ceJmMnoqW"}
_MAIL = {"a": "FAIL", "b": "BEGIN", "e": "END", "n": "NONE"}
_SIZE = re.compile(r"([0-9]{1,15})(?:([kmgtp]?)([bw]?))?", re.IGNORECASE)
_BYTES_PER_WORD = 8
COUNT_MAX = 2**31 - 1


def _table(mark: str) -> Command:
    flags = (Option(letter, letter, NO) for letter in _FLAG_LETTERS[mark])
    values = (Option(letter, letter, YES, joined=letter in "lW" and mark == PBS) for letter in _VALUE_LETTERS[mark])
    return Command(mark, "", (*flags, *values))


_TABLES = {mark: _table(mark) for mark in (PBS, LSF)}


def options_of(directive: Directive, mark: str) -> list[str]:
    """The words of sbatch's command line that correspond to one line. Raises CommandError."""
    words = ["-c" if word == "-cwd" and mark == LSF else word for word in directive.words]
    try:
        line = parse(_TABLES[mark], words)
        reader = _of_pbs if mark == PBS else _of_lsf
        return [word for letter, value in line.values.items() for word in reader(letter, str(value))]
    except BadValue as error:
        raise CommandError(f"{error}\n{mark} line {directive.line}; {_HINT}") from error
    except CommandError as error:
        text = error.text.partition("\n")[0].removeprefix(f"{mark}: ")
        shown = message_text(" ".join(directive.words))
        raise CommandError(f"{text}\nUnrecognized {mark} line {directive.line}: {shown}; {_HINT}") from error


def _of_pbs(letter: str, value: str) -> Iterator[str]:
    simple = {"A": "account", "J": "array", "t": "array", "M": "mail-user", "N": "job-name", "p": "nice",
              "q": "partition", "v": "export"}  # fmt: skip
    if letter in simple:
        yield f"--{simple[letter]}={value}"
    elif letter == "a":
        yield f"--begin={_date(value)}"
    elif letter in "eo":
        yield f"--{'error' if letter == 'e' else 'output'}={re.sub(r'^[A-Za-z0-9._-]+:(?=/)', '', value)}"
    elif letter == "h":
        yield "--hold"
    elif letter == "m":
        yield f"--mail-type={','.join(_MAIL.get(char, char) for char in value)}"
    elif letter == "r":
        yield "--no-requeue" if value[:1].lower() == "n" else "--requeue"
    elif letter == "W":
        for name, text in _pairs(value):
            if name == "depend":
                yield f"--dependency={text}"
    elif letter == "l":
        for name, text in _pairs(value):
            yield from _RESOURCES.get(name, _nothing)(text)


def _of_lsf(letter: str, value: str) -> Iterator[str]:
    simple = {"c": "chdir", "e": "error", "J": "job-name", "o": "output", "q": "partition", "W": "time"}
    if letter in simple:
        yield f"--{simple[letter]}={value}"
    elif letter == "m":
        yield f"--nodelist={','.join(value.split())}"
    elif letter == "M":
        yield f"--mem-per-cpu={_mb(value, default='k')}"
    elif letter == "n":
        yield f"--ntasks={value.rpartition(',')[2]}"
    elif letter == "x":
        yield "--exclusive"


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for word in text.split(","):
        name, _, value = word.partition("=")
        yield name.strip(), value


def _nothing(text: str) -> Iterator[str]:
    yield from ()


def _as(option: str) -> Callable[[str], Iterator[str]]:
    def give(text: str) -> Iterator[str]:
        yield f"--{option}={text}"

    return give


def _gpus(text: str) -> Iterator[str]:
    yield f"--gres=gpu:{text}"


def _size(option: str) -> Callable[[str], Iterator[str]]:
    def give(text: str) -> Iterator[str]:
        yield f"--{option}={_mb(text)}"

    return give


def _accelerator(text: str) -> Iterator[str]:
    if text.lower() == "true":
        yield "--gres=gpu:1"


def _count(text: str) -> int:
    return parse_int(text, 1, COUNT_MAX, "count in a #PBS line")


def _nodes(text: str) -> Iterator[str]:
    """`2:ppn=4:gpus=1:bigmem+n1`."""
    nodes = 0
    tasks = 0
    hosts = []
    features = []
    gpus = ""
    for part in text.split("+"):
        first, *words = part.split(":")
        count = _count(first) if is_digits(first) else 1
        if is_digits(first):
            nodes += count
        else:
            hosts.append(first)
        for word in words:
            name, equals, value = word.partition("=")
            if name == "ppn":
                tasks += count * _count(value)
            elif name == "gpus":
                gpus = value
            elif not equals:
                features.append(word)
    yield from [f"--nodes={nodes + len(hosts)}"] if nodes else []
    yield from [f"--ntasks={tasks}"] if tasks else []
    yield from [f"--nodelist={','.join(hosts)}"] if hosts else []
    yield from [f"--constraint={'&'.join(features)}"] if features else []
    yield from [f"--gres=gpu:{gpus}"] if gpus else []


def _select(text: str) -> Iterator[str]:
    """`2:ncpus=4:mpiprocs=2:mem=2gb:ngpus=1`; of several chunks the first determines the resources of a node."""
    chunks = [part.split(":") for part in text.split("+")]
    yield f"--nodes={sum(_count(words[0]) if is_digits(words[0]) else 1 for words in chunks)}"
    said = dict(_pairs(",".join(chunks[0])))
    if "mem" in said:
        yield f"--mem={_mb(said['mem'])}"
    if "ngpus" in said:
        yield f"--gres=gpu:{said['ngpus']}"
    ncpus, procs = said.get("ncpus", ""), said.get("mpiprocs", "")
    if ncpus:
        yield f"--mincpus={ncpus}"
    if procs:
        yield f"--ntasks-per-node={procs}"
        if ncpus and _count(procs) <= _count(ncpus):
            yield f"--cpus-per-task={_count(ncpus) // _count(procs)}"


_RESOURCES: dict[str, Callable[[str], Iterator[str]]] = {
    "accelerator": _accelerator,
    "cput": _as("time"),
    "file": _size("tmp"),
    "mem": _size("mem"),
    "mpiprocs": _as("ntasks-per-node"),
    "naccelerators": _gpus,
    "ncpus": _as("mincpus"),
    "nice": _as("nice"),
    "nodes": _nodes,
    "pcput": _as("time"),
    "proc": _as("constraint"),
    "select": _select,
    "walltime": _as("time"),
}


def _mb(text: str, default: str = "m") -> str:
    """A size of PBS or LSF (`4gb`, `100mw`) in megabytes, rounded up; other text is returned for sbatch to refuse."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return text
    number = int(match[1])
    unit = match[2].lower()
    kind = match[3].lower()
    power = "kmgtp".index(unit or default) if unit or not kind else -1
    scale = 1024 ** (power + 1) * (_BYTES_PER_WORD if kind == "w" else 1)
    return str(min(-(-number * scale // 1024**2), MEM_MB_MAX))


def _date(text: str) -> str:
    """[[[[CC]YY]MM]DD]hhmm[.SS] as a date of Slurm's; omitted parts are today's."""
    digits, dot, seconds = text.partition(".")
    if not is_digits(digits) or len(digits) not in (4, 6, 8, 10, 12) or (dot and len(seconds) != 2):
        return text
    clock = f"{digits[-4:-2]}:{digits[-2:]}:{seconds or '00'}"
    date = digits[:-4]
    if len(date) < 4:  # today, or a day of this month
        from datetime import datetime

        today = datetime.now().astimezone()
        date = f"{today:%Y%m}{date or f'{today:%d}'}"
    elif len(date) == 4:
        from datetime import datetime

        date = f"{datetime.now().astimezone():%Y}{date}"
    elif len(date) == 6:
        date = f"20{date}"
    return f"{date[:4]}-{date[4:6]}-{date[6:]}T{clock}"
