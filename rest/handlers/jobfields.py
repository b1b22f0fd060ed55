"""The members of a job's description (job_desc_msg) as the options of sbatch.

Each member is turned into the words of one option, and the option table of sbatch parses them (cli/jobs/jobopts.py): a
value means the same in both, with the same limits. Members without an option that does something here have no effect and
get a warning. What no option has (name, paths, environment, script) is submission.py's.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from cli.base.options import Command, OptionValues, parse
from cli.base.run import CommandError, RemoteAnswer
from cli.jobs.gpuchecks import check_gpus
from cli.jobs.jobopts import JOB_OPTIONS
from cli.jobs.jobrequest import check_conflicts, job_request
from penstock.v1.common_pb2 import JobRequest
from penstock.values.allowance import Allowance
from penstock.values.dates import format_date
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from rest.answers import RestError
from rest.calling import too_long
from rest.contract.parse import CONVERSION, INFINITE
from rest.handlers.members import Members
from rest.limits import TEXT_CHARS_MAX

COMMAND: Final = Command("job", "", JOB_OPTIONS)
#: Options whose value is text in both.
_TEXTS: Final = {
    "account": "account", "account_gather_frequency": "acctg-freq", "array": "array", "batch_features": "batch",
    "comment": "comment", "constraints": "constraint", "dependency": "dependency", "distribution": "distribution",
    "extra": "extra", "licenses": "licenses", "mail_user": "mail-user", "mcs_label": "mcs-label", "nodes": "nodes",
    "partition": "partition", "prefer": "prefer", "qos": "qos", "reservation": "reservation", "wckey": "wckey",
    "container": "container", "container_id": "container-id", "burst_buffer": "bb", "tres_per_task": "tres-per-task",
    "tres_bind": "tres-bind",
}  # fmt: skip
_COUNTS: Final = {
    "cpus_per_task": "cpus-per-task", "minimum_cpus_per_node": "mincpus", "tasks": "ntasks",
    "tasks_per_node": "ntasks-per-node", "tasks_per_core": "ntasks-per-core", "tasks_per_socket": "ntasks-per-socket",
    "temporary_disk_per_node": "tmp", "threads_per_core": "threads-per-core", "cores_per_socket": "cores-per-socket",
    "sockets_per_node": "sockets-per-node", "nice": "nice", "core_specification": "core-spec",
    "thread_specification": "thread-spec", "reserve_ports": "resv-ports", "ntasks_per_tres": "ntasks-per-gpu",
    "oom_kill_step": "oom-kill-step", "memory_per_cpu": "mem-per-cpu", "memory_per_node": "mem", "priority": "priority",
    "time_minimum": "time-min", "delay_boot": "delay-boot", "segment_size": "segment",
}  # fmt: skip
#: Counts whose -1 is no limit, which is what they have without the option.
_UNLIMITED: Final = frozenset(("memory_per_cpu", "memory_per_node", "priority", "time_minimum", "segment_size"))
_SWITCHES: Final = {
    "contiguous": "contiguous", "hold": "hold", "overcommit": "overcommit", "reboot": "reboot",
}  # fmt: skip
_HOSTS: Final = {"required_nodes": "nodelist", "excluded_nodes": "exclude"}
_DATES: Final = {"begin_time": "begin", "deadline": "deadline"}
#: Resources with commas (gres/gpu:h200:2) as the value of one option.
_TRES: Final = {"tres_per_job": "gpus", "tres_per_socket": "gpus-per-socket", "cpus_per_tres": "cpus-per-gpu",
                "memory_per_tres": "mem-per-gpu", "tres_freq": "gpu-freq"}  # fmt: skip
#: One of these resources: GPUs, as Slurm's commands and its library write them.
_OF_GPUS: Final = re.compile(r"(?:gres[/:])?gpu(?:[:=](?P<value>.*))?", re.DOTALL)
_FLAGS: Final = {
    "KILL_INVALID_DEPENDENCY": "--kill-on-invalid-dep=yes", "NO_KILL_INVALID_DEPENDENCY": "--kill-on-invalid-dep=no",
    "SPREAD_JOB": "--spread-job", "PREFER_MINIMUM_NODE_COUNT": "--use-min-nodes",
}  # fmt: skip
_SHARED: Final = {
    "none": "--exclusive", "oversubscribe": "--oversubscribe", "user": "--exclusive=user", "mcs": "--exclusive=mcs",
    "topo": "--exclusive=topo",
}  # fmt: skip
_MAIL: Final = {"TIME=100%": "TIME_LIMIT", "TIME=90%": "TIME_LIMIT_90", "TIME=80%": "TIME_LIMIT_80",
                "TIME=50%": "TIME_LIMIT_50", "INVALID_DEPENDENCY": "INVALID_DEPEND"}  # fmt: skip
#: Members that submission.py reads, or a form below with another one.
TAKEN: Final = frozenset(
    ("name", "current_working_directory", "standard_error", "standard_input", "standard_output", "environment", "argv",
     "script", "rlimits", "user_id", "group_id", "minimum_nodes", "maximum_nodes", "time_limit",
     "required_switches", "wait_for_switch", "requeue", "kill_on_node_fail", "wait_all_nodes", "mail_type", "open_mode",
     "shared", "flags", "tres_per_node", "kill_warning_signal", "kill_warning_delay", "kill_warning_flags")
) | {*_TEXTS, *_COUNTS, *_SWITCHES, *_HOSTS, *_DATES, *_TRES}  # fmt: skip


def requested(members: Members, source: str) -> JobRequest:
    """The request that the members describe. Raises RestError with 422. `source`: the path of the description."""
    values = OptionValues()
    for member, value in members.items():
        if member != "script" and isinstance(value, str):
            _check_length(value, member, source)
    _check_gpus_alone(members, source)
    for member, words in option_words(members):
        for word in words:
            _check_length(word, member, source)
        if any(word.lower().endswith("=help") for word in words):
            raise _invalid("help is no value", f"{source}/{member}")
        try:
            values |= parse(COMMAND, words).values
        except CommandError as error:
            raise _invalid(str(error), f"{source}/{member}") from error
        except RemoteAnswer as answer:
            raise _invalid("no value that describes a job", f"{source}/{member}") from answer
    try:
        check_conflicts(values)
        check_gpus(values)
        return job_request(values)
    except CommandError as error:
        raise _invalid(str(error), source) from error


def _check_length(text: str, member: str, source: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        raise _invalid(too_long(member, text, TEXT_CHARS_MAX), f"{source}/{member}")


def check_hosts(components: Iterable[tuple[str, Members]]) -> None:
    """Charges the node lists of a whole request to one allowance, each different one once. Raises RestError."""
    allowance, seen = Allowance(), set[str]()
    for source, members in components:
        for name in _HOSTS:
            text = _joined(members.get(name, ""))
            if text in seen or len(text) > TEXT_CHARS_MAX:  # too long a text is refused where it is read
                continue
            seen.add(text)
            try:
                expand(text, allowance)
            except BadValue as error:
                raise _invalid(str(error), f"{source}/{name}") from error


def option_words(members: Members) -> Iterator[tuple[str, list[str]]]:
    """The words of the options, each with the member from which they come."""
    for member, value in members.items():
        if member in _TEXTS or member in _COUNTS:
            if value != "" and not (value == INFINITE and member in _UNLIMITED):
                yield member, [f"--{_TEXTS.get(member) or _COUNTS[member]}={value}"]
        elif member in _SWITCHES:
            if value:
                yield member, [f"--{_SWITCHES[member]}"]
        elif member in _HOSTS and value:
            yield member, [f"--{_HOSTS[member]}={_joined(value)}"]
        elif member in _DATES:
            if isinstance(value, int) and value > 0:
                yield member, [f"--{_DATES[member]}={format_date(value * 1_000_000)}"]
        elif member in _TRES and value:
            yield member, [f"--{_TRES[member]}={_amount(str(value))}"]
        elif member in _FORMS:
            yield member, _FORMS[member](value, members)


def _joined(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _amount(text: str) -> str:
    """gres/gpu:2 -> 2, gres/gpu:h200:2 -> h200:2, gres/gpu=2 -> 2, gres/gpu -> 1; what follows one of them as it is."""
    found = [(one, _OF_GPUS.fullmatch(one)) for one in text.split(",")]
    return ",".join(one if of_gpus is None else of_gpus["value"] or "1" for one, of_gpus in found)


def _check_gpus_alone(members: Members, source: str) -> None:
    """Raises RestError for resources that are not counted so here: the options have GPUs alone, and would take another name for
    a type of GPU."""
    for member in _TRES:
        value = members.get(member)
        if not value or not isinstance(value, str):
            continue
        amounts = value.split(",")[:1] if member == "tres_freq" else value.split(",")  # its GPUs have several words
        for one in amounts:
            if _OF_GPUS.fullmatch(one) is None:
                raise _invalid(f"{member} is of GPUs here, as in gres/gpu:2: {one!r} is not", f"{source}/{member}")


def _gres(value: object, members: Members) -> list[str]:
    named = [one.removeprefix("gres/").removeprefix("gres:").replace("=", ":") for one in str(value).split(",") if one]
    return [f"--gres={','.join(named)}"] if named else []


def _nodes(value: object, members: Members) -> list[str]:
    """minimum_nodes, with maximum_nodes; `nodes` counts before them."""
    if members.get("nodes"):
        return []
    most = members.get("maximum_nodes")
    return [f"--nodes={members.get('minimum_nodes') or 1}" + (f"-{most}" if most else "")]


def _signal(value: object, members: Members) -> list[str]:
    flags = members.get("kill_warning_flags")
    prefix = "B:" if isinstance(flags, list) and "BATCH_JOB" in flags else ""
    delay = members.get("kill_warning_delay")
    return [f"--signal={prefix}{value}" + (f"@{delay}" if isinstance(delay, int) and delay >= 0 else "")]


def _switches(value: object, members: Members) -> list[str]:
    wait = members.get("wait_for_switch")
    return [f"--switches={value}" + (f"@0:{wait}" if isinstance(wait, int) and wait > 0 else "")] if value else []


def _words_of(table: Mapping[str, str]) -> Callable[[object, Members], list[str]]:
    return lambda value, members: [table[one] for one in value if one in table] if isinstance(value, list) else []


#: Members with a form of their own.
_FORMS: Final[dict[str, Callable[[object, Members], list[str]]]] = {
    "time_limit": lambda value, members: [f"--time={'UNLIMITED' if value == INFINITE else value}"],
    "minimum_nodes": _nodes,
    "maximum_nodes": _nodes,
    "tres_per_node": _gres,
    "kill_warning_signal": _signal,
    "required_switches": _switches,
    "requeue": lambda value, members: ["--requeue" if value else "--no-requeue"],
    "kill_on_node_fail": lambda value, members: [] if value else ["--no-kill"],
    "wait_all_nodes": lambda value, members: [f"--wait-all-nodes={int(bool(value))}"],
    "mail_type": lambda value, members: [
        f"--mail-type={','.join(_MAIL.get(one, one) for one in map(str, value))}"
    ] if isinstance(value, list) and value else [],
    "open_mode": lambda value, members: [f"--open-mode={_joined(value).lower()}"] if value else [],
    "shared": _words_of(_SHARED),
    "flags": _words_of(_FLAGS),
}  # fmt: skip


def without_effect(members: Members) -> list[str]:
    """The members that are accepted and do nothing."""
    flags = members.get("flags")
    unused = [f"flags/{flag}" for flag in flags if flag not in _FLAGS] if isinstance(flags, list) else []
    return [name for name, value in members.items() if name not in TAKEN and value not in ("", [], False, 0)] + unused


def _invalid(text: str, source: str) -> RestError:
    return RestError(422, CONVERSION, text.replace("\n", "; "), source=source)
