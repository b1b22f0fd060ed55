"""What -v shows before anything is asked for: the options that are in force, in the form that Slurm has.

sbatch: defined options
sbatch: -------------------- --------------------
sbatch: cpus-per-task       : 2
sbatch: -------------------- --------------------
sbatch: end of defined options
"""

from collections.abc import Callable, Iterator
from typing import Any

from cli.options import Command
from cli.run import CommandError, complain
from penstock.values.dates import format_date
from penstock.values.duration import format_duration
from penstock.values.memory import format_mb

LINE = f"{'-' * 20} {'-' * 20}"
BOTH = "don't specify both --verbose (-v) and --quiet (-Q)"


def _range(value: Any) -> str:
    low, high = value
    return str(low) if low == high else f"{low}-{high}"


def _switches(value: Any) -> str:
    count, wait_s = value
    return str(count) if wait_s is None else f"{count}@{format_duration(wait_s)}"


def _devices(value: Any) -> str:
    return ",".join(":".join(filter(None, (g.name, g.type, str(g.count)))) for g in value)


def _gpus(value: Any) -> str:
    return ",".join(":".join(filter(None, (g.type, str(g.count)))) for g in value)


_GPU_KEYS = ("gpus", "gpus_per_node", "gpus_per_task", "gpus_per_socket")
_WORDS: dict[str, Callable[[Any], str]] = {
    "begin": format_date,
    "deadline": format_date,
    "time": format_duration,
    "time_min": format_duration,
    "delay_boot": format_duration,
    "nodes": _range,
    "switches": _switches,
    "gres": _devices,
    **dict.fromkeys(_GPU_KEYS, _gpus),
    **dict.fromkeys(("mem", "mem_per_cpu", "mem_per_gpu", "tmp", "gpu_mem"), format_mb),
}


def tell_defined(command: Command, values: dict[str, Any]) -> None:
    """Show the options with -v; -v and -Q together are a mistake, as in Slurm."""
    if not values.get("verbose"):
        return
    if values.get("quiet"):
        raise CommandError(BOTH)
    lines = ("defined options", LINE, *_lines(command, values), LINE, "end of defined options")
    complain(command.name, "\n".join(f"{command.name}: {line}" for line in lines), plain=True)


def _lines(command: Command, values: dict[str, Any]) -> Iterator[str]:
    names: dict[str, str] = {}
    for option in command.options:
        if option.name.replace("-", "_") == option.key or option.key not in names:
            names[option.key] = option.name
    for name, key in sorted((names.get(key, key), key) for key in values):
        yield f"{name:<20}: {_text(key, values[key])}"


def _text(key: str, value: Any) -> str:
    if value is True:
        return "set"
    if isinstance(value, str):
        return value
    if key in _WORDS:
        return _WORDS[key](value)
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
