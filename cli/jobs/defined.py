"""The output of -v before the request is sent: the options in force, in Slurm's format.

sbatch: defined options
sbatch: -------------------- --------------------
sbatch: cpus-per-task       : 2
sbatch: -------------------- --------------------
sbatch: end of defined options
"""

from collections.abc import Callable, Iterator

from cli.base.environment import current_umask, soft_limits
from cli.base.options import Command, OptionValues
from cli.base.run import CommandError, complain
from cli.jobs.jobwords import devices
from penstock.values.dates import format_date
from penstock.values.duration import format_duration
from penstock.values.memory import format_mb

LIMITS_SHOWN = ("CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS")
#: How Slurm shows a limit that does not limit.
UNLIMITED = 2**64 - 1
LINE = f"{'-' * 20} {'-' * 20}"
BOTH = "don't specify both --verbose (-v) and --quiet (-Q)"


def _range(values: OptionValues, key: str) -> str:
    low, high = values.numbers(key)
    return str(low) if low == high else f"{low}-{high}"


def _switches(values: OptionValues, key: str) -> str:
    count, *wait_s = values.numbers(key)
    return f"{count}@{format_duration(wait_s[0])}" if wait_s else str(count)


def _devices(values: OptionValues, key: str) -> str:
    return ",".join(":".join(filter(None, (g.name, g.type, str(g.count)))) for g in devices(values, key))


def _gpus(values: OptionValues, key: str) -> str:
    return ",".join(":".join(filter(None, (g.type, str(g.count)))) for g in devices(values, key))


_GPU_KEYS = ("gpus", "gpus_per_node", "gpus_per_task", "gpus_per_socket")
#: The words for numbers, and for lists, by key.
_NUMBERS: dict[str, Callable[[int], str]] = {
    "begin": format_date,
    "deadline": format_date,
    "time": format_duration,
    "time_min": format_duration,
    "delay_boot": format_duration,
    **dict.fromkeys(("mem", "mem_per_cpu", "mem_per_gpu", "tmp", "gpu_mem"), format_mb),
}
_LISTS: dict[str, Callable[[OptionValues, str], str]] = {
    "nodes": _range,
    "switches": _switches,
    "gres": _devices,
    **dict.fromkeys(_GPU_KEYS, _gpus),
}


def print_defined(command: Command, values: OptionValues) -> None:
    """Shows the options with -v; -v and -Q together are an error, as in Slurm."""
    if not values.flag("verbose"):
        return
    if values.flag("quiet"):
        raise CommandError(BOTH)
    lines = ("defined options", LINE, *_lines(command, values), LINE, "end of defined options")
    complain(
        command.name, "\n".join(f"{command.name}: {line}" for line in (*lines, *_carried(command, values))), plain=True
    )


def _carried(command: Command, values: OptionValues) -> Iterator[str]:
    """With -vv what the job takes along from this process; the command of salloc runs here."""
    if values.number("verbose") < 2 or command.name == "salloc":
        return
    limits = soft_limits(values.text("propagate"))
    for name in filter(limits.__contains__, LIMITS_SHOWN):
        yield f"debug:  propagating RLIMIT_{name}={UNLIMITED if limits[name] < 0 else limits[name]}"
    yield f"debug:  propagating UMASK={current_umask():04o}"


def _lines(command: Command, values: OptionValues) -> Iterator[str]:
    names: dict[str, str] = {}
    for option in command.options:
        if option.name.replace("-", "_") == option.key or option.key not in names:
            names[option.key] = option.name
    for name, key in sorted((names.get(key, key), key) for key in values):
        yield f"{name:<20}: {option_text(values, key)}"


def option_text(values: OptionValues, key: str) -> str:
    """The text of an option that has a value, in Slurm's form."""
    value = values[key]
    if value is True:
        return "set"
    if isinstance(value, str):
        return value
    if key in _NUMBERS:
        return _NUMBERS[key](values.number(key))
    if key in _LISTS:
        return _LISTS[key](values, key)
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
