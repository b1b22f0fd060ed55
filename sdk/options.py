"""The options of a job as keyword arguments: those of sbatch by their long names, with underscores.

    cluster.submit("train.sbatch", nodes=2, gpus_per_node=8, time=timedelta(hours=4), dependency="afterok:17")

A value is a text as on the command line, a number, or what Python has for it: True for an option without a value, a
timedelta for a duration, a datetime for a time (without a zone: the machine's), a list for values with commas. None and
False leave the option out. Every value is parsed by the option table of sbatch, so the limits and the messages are its.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias, TypedDict, Unpack

from cli.base.options import Command, OptionValues, parse
from cli.base.run import CommandError, RemoteAnswer
from cli.jobs.jobopts import JOB_OPTIONS
from penstock.values.dates import format_date
from penstock.values.refusals import Code
from sdk.errors import InvalidRequest

COMMAND: Final = Command("job", "", JOB_OPTIONS)
Duration: TypeAlias = timedelta | str | int
Moment: TypeAlias = datetime | str
OneOrMore: TypeAlias = str | Sequence[str]
OptionValue: TypeAlias = bool | int | str | timedelta | datetime | Sequence[str] | None
#: Of the machine that submits, not of the job.
_NOT_OFFERED: Final = frozenset(("clusters", "nodefile", "uid", "gid", "export_file", "bbf"))
_S: Final = {"day": 86_400, "hour": 3_600, "minute": 60}


class JobOptions(TypedDict, total=False):
    """The options that `submit` and its relatives take. Durations as numbers are minutes, memory in MB, as sbatch's."""

    account: str
    acctg_freq: str
    array: str
    batch: str
    bb: str
    begin: Moment
    chdir: str
    cluster_constraint: str
    comment: str
    consolidate_segments: bool
    constraint: str
    container: str
    container_id: str
    contiguous: bool
    core_spec: int
    cores_per_socket: int
    cpu_freq: str
    cpus_per_gpu: int
    cpus_per_task: int
    deadline: Moment
    delay_boot: Duration
    dependency: OneOrMore
    distribution: str
    error: str
    exclude: OneOrMore
    exclusive: bool | str
    export: OneOrMore
    extra: str
    extra_node_info: str
    get_user_env: bool
    gpu_bind: str
    gpu_freq: str
    gpu_mem: int | str
    gpus: int | str
    gpus_per_node: int | str
    gpus_per_socket: int | str
    gpus_per_task: int | str
    gres: OneOrMore
    gres_flags: str
    hint: str
    hold: bool
    input: str
    job_name: str
    kill_on_invalid_dep: str
    licenses: OneOrMore
    mail_type: OneOrMore
    mail_user: str
    mcs_label: str
    mem: int | str
    mem_bind: str
    mem_per_cpu: int | str
    mem_per_gpu: int | str
    mincpus: int
    network: str
    nice: bool | int
    no_kill: bool
    no_requeue: bool
    node_fail_policy: str
    nodelist: OneOrMore
    nodes: int | str
    ntasks: int
    ntasks_per_core: int
    ntasks_per_gpu: int
    ntasks_per_node: int
    ntasks_per_socket: int
    ntasks_per_tres: int
    oom_kill_step: bool | int
    open_mode: str
    output: str
    overcommit: bool
    oversubscribe: bool
    partition: OneOrMore
    power: str
    prefer: str
    priority: int
    profile: str
    propagate: bool | str
    qos: str
    reboot: bool
    requeue: bool | str
    reservation: OneOrMore
    resources: str
    resv_ports: bool | int
    segment: int
    signal: str
    sockets_per_node: int
    spread_job: bool
    spread_segments: bool
    stepmgr: bool
    switches: int | str
    thread_spec: int
    threads_per_core: int
    time: Duration
    time_min: Duration
    tmp: int | str
    tres_bind: str
    tres_per_task: str
    use_min_nodes: bool
    wait_all_nodes: int
    wckey: str


def offered() -> set[str]:
    """The names that keyword arguments may have."""
    return {option.name.replace("-", "_") for option in JOB_OPTIONS} - _NOT_OFFERED


def option_values(**options: Unpack[JobOptions]) -> OptionValues:
    """The values, parsed. Raises InvalidRequest, which names the option."""
    values = OptionValues()
    known = offered()
    given: Mapping[str, object] = options
    for name, value in given.items():
        if name not in known:
            raise InvalidRequest(Code.CONFIG_INVALID, f"{name} is no option of a job")
        for words in _words(name, value):
            values |= parsed(words, f"{name}={value!r}")
    return values


def parsed(words: Sequence[str], shown: str) -> OptionValues:
    """The values of these words of a command line. Raises InvalidRequest."""
    try:
        line = parse(COMMAND, words)
    except CommandError as error:
        raise InvalidRequest(Code.CONFIG_INVALID, f"{shown}: {error.text}", error.detail) from error
    except RemoteAnswer as answer:
        raise InvalidRequest(Code.CONFIG_INVALID, f"{shown} asks for a list of values:\n{answer}") from answer
    if line.positional:
        raise InvalidRequest(Code.CONFIG_INVALID, f"{shown}: {line.positional[0]!r} is no option")
    return line.values


def _words(name: str, value: object) -> Iterator[list[str]]:
    if value is None or value is False:
        return
    word = f"--{name.replace('_', '-')}"
    yield [word if value is True else f"{word}={option_text(value)}"]


def option_text(value: object) -> str:
    """The value as a command line has it. Raises InvalidRequest."""
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, datetime):
        return format_date(round(value.timestamp() * 1_000_000))
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, Sequence):
        return ",".join(map(str, value))
    raise InvalidRequest(Code.CONFIG_INVALID, f"{value!r} is no value of an option")


def _duration(value: timedelta) -> str:
    """D-HH:MM:SS, rounded up to seconds."""
    seconds = -(-value // timedelta(seconds=1))
    if seconds < 0:
        raise InvalidRequest(Code.INVALID_TIME_LIMIT, f"{value} is a negative duration")
    days, seconds = divmod(seconds, _S["day"])
    hours, seconds = divmod(seconds, _S["hour"])
    minutes, seconds = divmod(seconds, _S["minute"])
    return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
