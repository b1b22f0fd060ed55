"""The options that describe a job: one table, and the way from its values to a JobRequest.

Whatever must be turned into numbers is read here, with the option's name in the error; what is a language of its own
(arrays, dependencies, features, hostlists) is checked here, so that a mistake is told without a round trip, and sent as
it was written: the controller reads it again and its limits are the strict ones.

Left out on purpose: --uid and --gid (a job belongs to who submits it), several clusters, heterogeneous jobs.
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cli.options import MAYBE, NO, NUMERIC, YES, Option, later
from cli.run import CommandError
from penstock.v1.common_pb2 import GresCount, JobRequest
from penstock.values.duration import UNLIMITED, parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.memory import parse_mb
from penstock.values.numbers import parse_int
from penstock.values.signals import parse_end_warning
from penstock.values.text import check_name

if TYPE_CHECKING:
    from penstock.values.gres import Gres

COUNT_MAX = 2**31 - 1  # nodes, tasks, CPUs: Slurm's range; the controller's limits are far below
NICE_MAX = 2_147_483_645
NICE_DEFAULT = 100  # a bare --nice
PRIORITY_MAX = 2**32 - 2
#: Slurm's hard limit of MaxArraySize; the cluster's own is checked by the controller.
ARRAY_SIZE_MAX = 4_000_001
#: Texts with a language of their own: a dependency on thousands of jobs is not unheard of.
TEXT_MAX = 256 * 1024
#: A list of hosts in a file: room for 65,536 names.
NODE_FILE_BYTES_MAX = 4 * 1024 * 1024
REFUSED = "Batch job submission failed"


def _name(what: str) -> Callable[[str], str]:
    return lambda text: check_name(text, what)


def _number(what: str, low: int, high: int = COUNT_MAX) -> Callable[[str], int]:
    return lambda text: parse_int(text, low, high, what)


def _memory(what: str) -> Callable[[str], int]:
    return lambda text: parse_mb(text, what)


def _checked(check: Callable[[str], object], what: str) -> Callable[[str], str]:
    """Check a text that is sent as written; empty means "not said"."""

    def convert(text: str) -> str:
        if text:
            check(check_name(text, what, TEXT_MAX))
        return text

    return convert


# The parsers below are imported when they are needed: most submissions need one or two, and start-up time counts.


def _array(text: str) -> None:
    from penstock.values.taskset import parse_array

    parse_array(text, ARRAY_SIZE_MAX)


def _dependency(text: str) -> None:
    from penstock.values.dependency import parse_dependency

    parse_dependency(text)


def _features(text: str) -> None:
    from penstock.values.features import parse_features

    parse_features(text)


def _licenses(text: str) -> None:
    from penstock.values.licenses import parse_licenses

    parse_licenses(text)


def _switches(text: str) -> tuple[int, int]:
    count, at, wait = text.partition("@")
    return parse_int(count, 1, COUNT_MAX, "number of switches"), max(0, parse_duration_s(wait)) if at else 0


def _extra_node_info(text: str) -> tuple[int, int, int]:
    """-B: least sockets a node, cores a socket, threads a core; `*` or nothing is any."""
    words = text.split(":")
    if len(words) > 3:
        raise BadValue(f"{text!r} is not SOCKETS[:CORES[:THREADS]]")
    counts = [0 if word in ("*", "") else parse_int(word, 1, COUNT_MAX, "--extra-node-info") for word in words]
    sockets, cores, threads = (*counts, 0, 0)[:3]
    return sockets, cores, threads


#: By --hint: threads of a core that work, 0 = all.
_HINTS = {"nomultithread": 1, "compute_bound": 1, "multithread": 0}


def _hint(text: str) -> int:
    if text not in _HINTS:
        raise BadValue(f"{text!r} is none of {', '.join(_HINTS)}, which Penstock knows")
    return _HINTS[text]


def _gres_flags(text: str) -> str:
    for word in text.split(","):
        if word not in ("enforce-binding", "disable-binding"):
            raise BadValue(f"{word!r} is not supported by Penstock; enforce-binding and disable-binding are")
    return text


def _hosts(text: str) -> None:
    from penstock.values.hostlist import expand

    expand(text)


def _begin(text: str) -> int:
    from penstock.values.dates import parse_date_us

    return parse_date_us(text, time.time_ns() // 1000)


def _gres(text: str) -> "tuple[Gres, ...]":
    from penstock.values.gres import parse_gres

    return parse_gres(text)


def _gpus(text: str) -> "tuple[Gres, ...]":
    return _gres(",".join(f"gpu:{part}" for part in text.split(",")))


def _time_limit(text: str) -> int:
    return parse_duration_s(text) or UNLIMITED  # Slurm: a limit of 0 is no limit


def _time_min(text: str) -> int:
    return max(0, parse_duration_s(text))


def _nodes(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    least = parse_int(low, 1, COUNT_MAX, "node count")
    most = parse_int(high, 1, COUNT_MAX, "node count") if dash else least
    if most < least:
        raise BadValue(f"Maximum node count {most} is less than minimum node count {least}")
    return least, most


def _partitions(text: str) -> list[str]:
    return [check_name(word, "partition name") for word in text.split(",") if word]


def _exclusive(text: str) -> str:
    if text.lower() not in ("user", "mcs", "topo", "exclusive", ""):
        raise BadValue(f"{text!r} is none of user, mcs, topo")
    if text.lower() in ("mcs", "topo"):
        raise BadValue(f"{text!r} is not supported yet by Penstock; a plain --exclusive and =user are")
    return text.lower() if text.lower() == "user" else ""


def _open_mode(text: str) -> str:
    for mode in ("append", "truncate"):
        if text.lower() in (mode, mode[0]):
            return mode
    raise BadValue(f"{text!r} is neither append nor truncate")


def _yes_no(text: str) -> bool:
    if text.lower() not in ("yes", "no"):
        raise BadValue(f"{text!r} is neither yes nor no")
    return text.lower() == "yes"


def _signal(text: str) -> str:
    parse_end_warning(text)
    return text


def _mail_type(text: str) -> str:
    if text.upper() != "NONE":
        raise BadValue("mail is not supported yet by Penstock; only NONE is")
    return text


def _node_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(NODE_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadValue(f"{path}: {error.strerror}") from error
    if len(data) > NODE_FILE_BYTES_MAX:
        raise BadValue(f"{path}: larger than {NODE_FILE_BYTES_MAX} bytes")
    names = ",".join(data.decode("utf-8", "surrogateescape").split())
    _hosts(check_name(names, path, NODE_FILE_BYTES_MAX))
    return names


_ENV = {
    "account": "ACCOUNT", "array": "ARRAY_INX", "constraint": "CONSTRAINT", "error": "ERROR", "exclusive": "EXCLUSIVE",
    "export": "EXPORT", "get-user-env": "GET_USER_ENV", "gpus-per-node": "GPUS_PER_NODE", "gres": "GRES",
    "ignore-pbs": "IGNORE_PBS", "input": "INPUT", "job-name": "JOB_NAME", "mem": "MEM_PER_NODE",
    "mem-per-cpu": "MEM_PER_CPU", "no-requeue": "NO_REQUEUE", "open-mode": "OPEN_MODE", "output": "OUTPUT",
    "partition": "PARTITION", "qos": "QOS", "requeue": "REQUEUE", "signal": "SIGNAL", "time": "TIMELIMIT",
    "verbose": "DEBUG", "wait": "WAIT", "wckey": "WCKEY", "clusters": "CLUSTERS", "cpus-per-gpu": "CPUS_PER_GPU",
    "distribution": "DISTRIBUTION", "gpus": "GPUS", "gpus-per-task": "GPUS_PER_TASK", "gpu-bind": "GPU_BIND",
    "gpu-freq": "GPU_FREQ", "hint": "HINT", "mem-per-gpu": "MEM_PER_GPU", "overcommit": "OVERCOMMIT",
    "switches": "REQ_SWITCH", "reservation": "RESERVATION", "segment": "SEGMENT_SIZE", "spread-job": "SPREAD_JOB",
    "threads-per-core": "THREADS_PER_CORE", "tres-per-task": "TRES_PER_TASK", "use-min-nodes": "USE_MIN_NODES",
    "profile": "PROFILE", "core-spec": "CORE_SPEC", "network": "NETWORK", "container": "CONTAINER",
}  # fmt: skip
"""The variables that stand in for options, without their prefix (SBATCH_)."""


def with_environment(options: Sequence[Option], prefix: str) -> tuple[Option, ...]:
    """The same options, each with its variable."""
    return tuple(o._replace(env=prefix + _ENV[o.name]) if o.name in _ENV else o for o in options)


def _count(name: str, short: str, what: str) -> Option:
    return Option(name, short, YES, help=what, metavar="n", convert=_number(f"--{name}", 1), invalid=NUMERIC)


JOB_OPTIONS = (
    Option("array", "a", YES, help="job array index values", metavar="indexes", invalid=REFUSED,
           convert=_checked(_array, "job array")),
    Option("account", "A", YES, help="charge job to specified account", metavar="name", convert=_name("account")),
    Option("begin", "b", YES, help="defer job until HH:MM MM/DD/YY", metavar="time",
           convert=_begin),
    Option("comment", "", YES, help="arbitrary comment", metavar="name", convert=_name("comment")),
    _count("cpus-per-task", "c", "number of cpus required per task"),
    Option("dependency", "d", YES, help="defer job until condition on jobid is satisfied", metavar="type:jobid",
           convert=_checked(_dependency, "dependency"), invalid=f"{REFUSED}: Job dependency problem"),
    Option("chdir", "D", YES, help="set working directory for batch script", metavar="directory"),
    Option("error", "e", YES, help="file for batch script's standard error", metavar="err"),
    Option("export", "", YES, help="specify environment variables to export", metavar="names"),
    Option("export-file", "", YES, help="file or descriptor with environment variables", metavar="file|fd"),
    Option("get-user-env", "", MAYBE, help="accepted; the submitted environment is used"),
    Option("gres", "", YES, help="required generic resources", metavar="list", convert=_gres,
           invalid="Invalid generic resource (gres) specification"),
    Option("gpus-per-node", "", YES, help="number of GPUs required per allocated node", metavar="n", convert=_gpus),
    Option("hold", "H", help="submit job in held state"),
    Option("input", "i", YES, help="file for batch script's standard input", metavar="in"),
    Option("job-name", "J", YES, help="name of job", metavar="jobname", convert=_name("job name")),
    Option("kill-on-invalid-dep", "", YES, help="end the job when its dependency cannot be met", metavar="yes|no",
           convert=_yes_no),
    Option("mail-type", "", YES, help="NONE only", metavar="type", convert=_mail_type),
    Option("mail-user", "", YES, help="accepted; no mail is sent yet", metavar="user"),
    _count("ntasks", "n", "number of tasks to run"),
    Option("nice", "", MAYBE, help="decrease scheduling priority by value", const=NICE_DEFAULT,
           convert=_number("--nice", -NICE_MAX, NICE_MAX), invalid="Invalid --nice value"),
    Option("no-requeue", "", NO, help="do not permit the job to be requeued", dest="requeue", const=False),
    _count("ntasks-per-node", "", "number of tasks to invoke on each node"),
    Option("nodes", "N", YES, help="number of nodes on which to run (N = min[-max])", metavar="N", convert=_nodes,
           invalid='"{value}" is not a valid node count'),
    Option("output", "o", YES, help="file for batch script's standard output", metavar="out"),
    Option("open-mode", "", YES, help="how output files are opened", metavar="append|truncate", convert=_open_mode),
    Option("partition", "p", YES, help="partition requested", metavar="partition", convert=_partitions),
    Option("priority", "", YES, help="set the priority of the job to value",
           convert=_number("--priority", 0, PRIORITY_MAX)),
    Option("propagate", "", MAYBE, help="propagate all [or specific list of] rlimits", metavar="rlimits", const="ALL"),
    Option("qos", "q", YES, help="quality of service", metavar="qos", convert=_name("QOS")),
    Option("reservation", "", YES, help="allocate resources from named reservations", metavar="names",
           convert=_name("reservation")),
    Option("requeue", "", help="permit the job to be requeued"),
    Option("signal", "", YES, help="signal before the time limit", metavar="[[R][B]:]num[@time]",
           convert=_signal),
    Option("deadline", "", YES, help="remove the job if it cannot end before this time", metavar="time", convert=_begin),
    Option("time-min", "", YES, help="minimum time limit (if distinct)", metavar="minutes", convert=_time_min),
    Option("time", "t", YES, help="time limit", metavar="minutes", convert=_time_limit),
    Option("wckey", "", YES, help="wckey to run job under", metavar="wckey", convert=_name("wckey")),
    Option("constraint", "C", YES, help="specify a list of constraints", metavar="list",
           convert=_checked(_features, "constraint"), invalid="Invalid feature specification"),
    Option("prefer", "", YES, help="features to try before those of --constraint", metavar="list",
           convert=_checked(_features, "preferred features"), invalid="Invalid feature specification"),
    _count("sockets-per-node", "", "least number of sockets of a node"),
    _count("cores-per-socket", "", "least number of cores of a socket"),
    _count("threads-per-core", "", "least number of threads of a core, and most that work"),
    Option("extra-node-info", "B", YES, help="least sockets, cores and threads of a node", metavar="S[:C[:T]]",
           convert=_extra_node_info),
    _count("mincpus", "", "least number of CPUs of a node"),
    Option("tmp", "", YES, help="least size of a node's temporary disk", metavar="MB", convert=_memory("--tmp")),
    _count("ntasks-per-core", "", "most tasks on a core"),
    _count("ntasks-per-socket", "", "most tasks for each socket of a node"),
    Option("hint", "", YES, help="bind tasks according to hints", metavar="nomultithread|multithread",
           convert=_hint),
    Option("gres-flags", "", YES, help="accepted; devices and cores near each other are taken where they are free",
           metavar="enforce-binding", convert=_gres_flags),
    Option("spread-job", help="spread the job over as many nodes as possible"),
    Option("use-min-nodes", help="of a range of nodes prefer the smaller number"),
    Option("nodefile", "F", YES, help="request the hosts named in a file", metavar="filename", dest="nodelist",
           convert=_node_file, invalid="Invalid --nodefile node file"),
    Option("licenses", "L", YES, help="required license, comma separated", metavar="names",
           convert=_checked(_licenses, "licenses"), invalid="Invalid license specification"),
    Option("segment", "", YES, help="nodes of one segment inside a block", metavar="n",
           convert=_number("--segment", 1), invalid=NUMERIC),
    Option("switches", "", YES, help="most leaf switches, and how long to wait for so few",
           metavar="count[@max-time]", convert=_switches),
    Option("mem", "", YES, help="minimum amount of real memory per node", metavar="MB", convert=_memory("--mem")),
    Option("mem-per-cpu", "", YES, help="real memory per allocated cpu", metavar="MB",
           convert=_memory("--mem-per-cpu")),
    Option("nodelist", "w", YES, help="request a specific list of hosts", metavar="hosts...",
           convert=_checked(_hosts, "host list")),
    Option("exclude", "x", YES, help="exclude a specific list of hosts", metavar="hosts...",
           convert=_checked(_hosts, "host list")),
    Option("exclusive", "", MAYBE, help="do not share nodes with other jobs", metavar="user", convert=_exclusive),
    *later(
        "acctg-freq", "batch", "bb", "bbf", "cluster-constraint", "clusters/M", "container", "container-id",
        "core-spec/S", "cpu-freq", "cpus-per-gpu", "delay-boot", "distribution/m",
        "extra", "gid", "gpu-bind", "gpu-freq", "gpus/G", "gpus-per-socket", "gpus-per-task",
        "mcs-label", "mem-bind", "mem-per-gpu", "network",
        "ntasks-per-gpu", "ntasks-per-tres", "power", "profile",
        "resources", "thread-spec", "tres-bind", "tres-per-task", "uid", "oom-kill-step", "wait-all-nodes",
    ),
    *later(
        "contiguous", "oversubscribe/s", "overcommit/O", "reboot", "stepmgr",
        "consolidate-segments", "spread-segments", value=NO,
    ),
    *later("no-kill/k", value=MAYBE),
)  # fmt: skip

#: Options that cannot stand together in one place; one from a higher place replaces the other from a lower one.
EXCLUSIVE_KEYS = ("mem", "mem_per_cpu")
MEMORY_CONFLICT = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."

_SAME = {"comment": "comment", "account": "account", "qos": "qos", "wckey": "wckey", "signal": "signal",
         "array": "array", "dependency": "dependency", "constraint": "features", "nodelist": "nodes_required",
         "exclude": "nodes_excluded", "time": "time_limit_s", "begin": "begin_at_us",
         "licenses": "licenses", "segment": "segment",
         "time_min": "time_min_s", "deadline": "deadline_at_us", "ntasks": "ntasks",
         "cpus_per_task": "cpus_per_task", "ntasks_per_node": "ntasks_per_node", "mem": "mem_per_node_mb",
         "mem_per_cpu": "mem_per_cpu_mb", "hold": "hold", "requeue": "requeue",
         "nice": "nice", "priority": "priority", "kill_on_invalid_dep": "kill_on_invalid_dep",
         "reservation": "reservation", "prefer": "prefer", "sockets_per_node": "sockets_per_node",
         "cores_per_socket": "cores_per_socket", "threads_per_core": "threads_per_core", "mincpus": "mincpus",
         "tmp": "tmp_disk_mb", "ntasks_per_core": "ntasks_per_core", "ntasks_per_socket": "ntasks_per_socket",
         "spread_job": "spread_job", "use_min_nodes": "use_min_nodes"}  # fmt: skip
"""Values that go into the request as they are, by the request's field."""

_PATHS = {"output": "std_out", "error": "std_err", "input": "std_in"}


def merge(*layers: dict[str, Any]) -> dict[str, Any]:
    """Lay the places where options were given over each other, the lowest first."""
    merged: dict[str, Any] = {}
    for layer in layers:
        given = [key for key in EXCLUSIVE_KEYS if key in layer]
        if len(given) > 1:
            raise CommandError(MEMORY_CONFLICT)
        if given:
            for key in EXCLUSIVE_KEYS:
                merged.pop(key, None)
        merged |= layer
    return merged


def job_request(values: dict[str, Any]) -> JobRequest:
    """The request that the options describe; what the submitting process adds is left to the caller."""
    job = JobRequest(**{field: values[key] for key, field in _SAME.items() if key in values})
    job.partitions.extend(values.get("partition", ()))
    if "nodes" in values:
        job.nodes_min, job.nodes_max = values["nodes"]
    for key, field in _PATHS.items():
        setattr(job, field, os.fsencode(values.get(key, "")))
    if "extra_node_info" in values:
        job.sockets_per_node, job.cores_per_socket, job.threads_per_core = values["extra_node_info"]
    if values.get("hint") and not job.threads_per_core:
        job.threads_per_core = values["hint"]
    if "switches" in values:
        job.switches_max, job.switches_wait_s = values["switches"]
    if "exclusive" in values:
        job.exclusive_user = values["exclusive"] == "user"
        job.exclusive = not job.exclusive_user
    mode = values.get("open_mode")
    if mode:
        job.open_append = mode == "append"
        job.open_truncate = mode == "truncate"
    job.gres_per_node.extend(GresCount(name=g.name, type=g.type, count=g.count) for g in _all_gres(values))
    return job


def _all_gres(values: dict[str, Any]) -> "list[Gres]":
    """--gpus-per-node stands in the place of the GPUs in --gres."""
    gres = list(values.get("gres", ()))
    if "gpus_per_node" not in values:
        return gres
    return [g for g in gres if g.name != "gpu"] + list(values["gpus_per_node"])
