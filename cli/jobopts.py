"""The options that describe a job: one table for sbatch, salloc and srun, and the way from its values to a JobRequest.

What stands behind an option is read by `cli.jobwords`, with the option's name in the error. What is a language of its
own (arrays, dependencies, features, hostlists) is checked there, so that a mistake is told without a round trip, and
sent as it was written: the controller reads it again and its limits are the strict ones. GPUs of a job or a task are
sent as said: the controller, which knows the nodes, makes numbers for each node of them.

`SBATCH_ONLY` names what means nothing to a job without a script; `allocation_options` leaves it out.

Left out on purpose: --uid and --gid (a job belongs to who submits it), several clusters.
"""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cli import jobwords as read
from cli.jobwords import NICE_MAX, PRIORITY_MAX
from cli.options import MAYBE, NO, NUMERIC, YES, Option, later
from cli.run import CommandError
from penstock.v1.common_pb2 import GresCount, JobRequest

if TYPE_CHECKING:
    from penstock.values.gres import Gres

REFUSED = "Batch job submission failed"
NICE_DEFAULT = 100  # a bare --nice

_ENV = {
    "account": "ACCOUNT", "array": "ARRAY_INX", "constraint": "CONSTRAINT", "error": "ERROR", "exclusive": "EXCLUSIVE",
    "export": "EXPORT", "get-user-env": "GET_USER_ENV", "gpus-per-node": "GPUS_PER_NODE", "gres": "GRES",
    "ignore-pbs": "IGNORE_PBS", "input": "INPUT", "job-name": "JOB_NAME", "mem": "MEM_PER_NODE",
    "mem-per-cpu": "MEM_PER_CPU", "no-requeue": "NO_REQUEUE", "open-mode": "OPEN_MODE", "output": "OUTPUT",
    "partition": "PARTITION", "qos": "QOS", "requeue": "REQUEUE", "signal": "SIGNAL", "time": "TIMELIMIT",
    "verbose": "DEBUG", "wait": "WAIT", "wckey": "WCKEY", "clusters": "CLUSTERS", "cpus-per-gpu": "CPUS_PER_GPU",
    "distribution": "DISTRIBUTION", "gpus": "GPUS", "gpus-per-task": "GPUS_PER_TASK", "gpu-bind": "GPU_BIND",
    "gpu-freq": "GPU_FREQ",
    "gpu-mem": "GPU_MEM", "tres-bind": "TRES_BIND", "hint": "HINT", "mem-per-gpu": "MEM_PER_GPU", "overcommit": "OVERCOMMIT",
    "switches": "REQ_SWITCH", "reservation": "RESERVATION", "segment": "SEGMENT_SIZE", "spread-job": "SPREAD_JOB",
    "threads-per-core": "THREADS_PER_CORE", "tres-per-task": "TRES_PER_TASK", "use-min-nodes": "USE_MIN_NODES",
    "wait-all-nodes": "WAIT_ALL_NODES", "no-kill": "NO_KILL", "mem-bind": "MEM_BIND", "resv-ports": "RESV_PORTS",
    "immediate": "IMMEDIATE", "bell": "BELL", "no-bell": "NO_BELL", "kill-command": "KILL_CMD",
    "profile": "PROFILE", "core-spec": "CORE_SPEC", "network": "NETWORK", "container": "CONTAINER",
}  # fmt: skip
"""The variables that stand in for options, without their prefix (SBATCH_)."""


def with_environment(options: Sequence[Option], prefix: str) -> tuple[Option, ...]:
    """The same options, each with its variable."""
    return tuple(o._replace(env=prefix + _ENV[o.name]) if o.name in _ENV else o for o in options)


def _count(name: str, short: str, what: str) -> Option:
    return Option(name, short, YES, help=what, metavar="n", convert=read.number(f"--{name}", 1), invalid=NUMERIC)


JOB_OPTIONS = (
    Option("array", "a", YES, help="job array index values", metavar="indexes", invalid=REFUSED,
           convert=read.checked(read.array, "job array")),
    Option("account", "A", YES, help="charge job to specified account", metavar="name", convert=read.name("account")),
    Option("begin", "b", YES, help="defer job until HH:MM MM/DD/YY", metavar="time",
           convert=read.begin),
    Option("comment", "", YES, help="arbitrary comment", metavar="name", convert=read.name("comment")),
    _count("cpus-per-task", "c", "number of cpus required per task"),
    Option("dependency", "d", YES, help="defer job until condition on jobid is satisfied", metavar="type:jobid",
           convert=read.checked(read.dependency, "dependency"), invalid=f"{REFUSED}: Job dependency problem"),
    Option("chdir", "D", YES, help="set working directory for batch script", metavar="directory"),
    Option("error", "e", YES, help="file for batch script's standard error", metavar="err"),
    Option("export", "", YES, help="specify environment variables to export", metavar="names"),
    Option("export-file", "", YES, help="file or descriptor with environment variables", metavar="file|fd"),
    Option("get-user-env", "", MAYBE, help="accepted; the submitted environment is used"),
    Option("gres", "", YES, help="required generic resources", metavar="list", convert=read.gres,
           invalid="Invalid generic resource (gres) specification"),
    Option("gpus-per-node", "", YES, help="number of GPUs required per allocated node", metavar="n", convert=read.gpus),
    Option("hold", "H", help="submit job in held state"),
    Option("input", "i", YES, help="file for batch script's standard input", metavar="in"),
    Option("job-name", "J", YES, help="name of job", metavar="jobname", convert=read.name("job name")),
    Option("kill-on-invalid-dep", "", YES, help="end the job when its dependency cannot be met", metavar="yes|no",
           convert=read.yes_no),
    Option("mail-type", "", YES, help="NONE only", metavar="type", convert=read.mail_type),
    Option("mail-user", "", YES, help="accepted; no mail is sent yet", metavar="user"),
    _count("ntasks", "n", "number of tasks to run"),
    Option("nice", "", MAYBE, help="decrease scheduling priority by value", const=NICE_DEFAULT,
           convert=read.number("--nice", -NICE_MAX, NICE_MAX), invalid="Invalid --nice value"),
    Option("no-requeue", "", NO, help="do not permit the job to be requeued", dest="requeue", const=False),
    _count("ntasks-per-node", "", "number of tasks to invoke on each node"),
    Option("nodes", "N", YES, help="number of nodes on which to run (N = min[-max])", metavar="N", convert=read.nodes,
           invalid='"{value}" is not a valid node count'),
    Option("output", "o", YES, help="file for batch script's standard output", metavar="out"),
    Option("open-mode", "", YES, help="how output files are opened", metavar="append|truncate", convert=read.open_mode),
    Option("partition", "p", YES, help="partition requested", metavar="partition", convert=read.partitions),
    Option("priority", "", YES, help="set the priority of the job to value",
           convert=read.number("--priority", 0, PRIORITY_MAX)),
    Option("propagate", "", MAYBE, help="propagate all [or specific list of] rlimits", metavar="rlimits", const="ALL"),
    Option("qos", "q", YES, help="quality of service", metavar="qos", convert=read.name("QOS")),
    Option("reservation", "", YES, help="allocate resources from named reservations", metavar="names",
           convert=read.name("reservation")),
    Option("requeue", "", help="permit the job to be requeued"),
    Option("signal", "", YES, help="signal before the time limit", metavar="[[R][B]:]num[@time]",
           convert=read.signal),
    Option("deadline", "", YES, help="remove the job if it cannot end before this time", metavar="time", convert=read.begin),
    Option("time-min", "", YES, help="minimum time limit (if distinct)", metavar="minutes", convert=read.time_min),
    Option("time", "t", YES, help="time limit", metavar="minutes", convert=read.time_limit),
    Option("wckey", "", YES, help="wckey to run job under", metavar="wckey", convert=read.name("wckey")),
    Option("constraint", "C", YES, help="specify a list of constraints", metavar="list",
           convert=read.checked(read.features, "constraint"), invalid="Invalid feature specification"),
    Option("prefer", "", YES, help="features to try before those of --constraint", metavar="list",
           convert=read.checked(read.features, "preferred features"), invalid="Invalid feature specification"),
    _count("sockets-per-node", "", "least number of sockets of a node"),
    _count("cores-per-socket", "", "least number of cores of a socket"),
    _count("threads-per-core", "", "least number of threads of a core, and most that work"),
    Option("extra-node-info", "B", YES, help="least sockets, cores and threads of a node", metavar="S[:C[:T]]",
           convert=read.extra_node_info),
    _count("mincpus", "", "least number of CPUs of a node"),
    Option("tmp", "", YES, help="least size of a node's temporary disk", metavar="MB", convert=read.memory("--tmp")),
    _count("ntasks-per-core", "", "most tasks on a core"),
    _count("ntasks-per-socket", "", "most tasks for each socket of a node"),
    Option("hint", "", YES, help="bind tasks according to hints", metavar="nomultithread|multithread",
           convert=read.hint),
    Option("gres-flags", "", YES, help="accepted; devices and cores near each other are taken where they are free",
           metavar="enforce-binding", convert=read.gres_flags),
    Option("spread-job", help="spread the job over as many nodes as possible"),
    Option("use-min-nodes", help="of a range of nodes prefer the smaller number"),
    Option("nodefile", "F", YES, help="request the hosts named in a file", metavar="filename", dest="nodelist",
           convert=read.node_file, invalid="Invalid --nodefile node file"),
    Option("licenses", "L", YES, help="required license, comma separated", metavar="names",
           convert=read.checked(read.licenses, "licenses"), invalid="Invalid license specification"),
    Option("segment", "", YES, help="nodes of one segment inside a block", metavar="n",
           convert=read.number("--segment", 1), invalid=NUMERIC),
    Option("switches", "", YES, help="most leaf switches, and how long to wait for so few",
           metavar="count[@max-time]", convert=read.switches),
    Option("mem", "", YES, help="minimum amount of real memory per node", metavar="MB", convert=read.memory("--mem")),
    Option("mem-per-cpu", "", YES, help="real memory per allocated cpu", metavar="MB",
           convert=read.memory("--mem-per-cpu")),
    Option("nodelist", "w", YES, help="request a specific list of hosts", metavar="hosts...",
           convert=read.checked(read.hosts, "host list")),
    Option("exclude", "x", YES, help="exclude a specific list of hosts", metavar="hosts...",
           convert=read.checked(read.hosts, "host list")),
    Option("exclusive", "", MAYBE, help="do not share nodes with other jobs", metavar="user", convert=read.exclusive),
    Option("overcommit", "O", help="more tasks than CPUs: CPUs are taken for one task a node"),
    Option("distribution", "m", YES, help="how tasks are spread over nodes, sockets and cores", metavar="type",
           convert=read.distribution),
    Option("gpus", "G", YES, help="number of GPUs required for the job", metavar="n", convert=read.node_gpus),
    Option("gpus-per-task", "", YES, help="number of GPUs required per task", metavar="n", convert=read.node_gpus),
    Option("gpus-per-socket", "", YES, help="number of GPUs required per socket (with --sockets-per-node)", metavar="n",
           convert=read.node_gpus),
    Option("tres-per-task", "", YES, help="cpu=N and gres/NAME=N of each task", metavar="list",
           convert=read.tres_per_task),
    _count("ntasks-per-gpu", "", "number of tasks to invoke for each GPU"),
    _count("cpus-per-gpu", "", "number of CPUs required per allocated GPU"),
    Option("mem-per-gpu", "", YES, help="real memory per allocated GPU", metavar="MB",
           convert=read.memory("--mem-per-gpu")),
    Option("gpu-bind", "", YES, help="task to GPU binding of the job's steps", metavar="type", convert=read.gpu_bind,
           invalid="Invalid --gpu-bind specification"),
    Option("tres-bind", "", YES, help="the same as gres/gpu:TYPE", metavar="type", dest="gpu_bind", convert=read.tres_bind,
           invalid="Invalid --tres-bind specification"),
    Option("gpu-freq", "", YES, help="accepted; clocks of GPUs are not changed, and the step is told so", metavar="freq",
           convert=read.gpu_freq, invalid="Invalid --gpu-freq specification"),
    Option("gpu-mem", "", YES, help="least memory of each GPU", metavar="MB", convert=read.memory("--gpu-mem")),
    Option("mem-bind", "", YES, help="task to memory binding of the job's steps", metavar="type",
           convert=read.name("memory binding")),
    Option("no-kill", "k", MAYBE, help="do not end the job when a node of it fails", metavar="off", convert=read.no_kill),
    Option("node-fail-policy", "", YES, metavar="stop|keep", convert=read.node_fail_policy,
           help="stop: stops itself and runs again elsewhere when its node is out of reach; keep: goes on"),
    Option("wait-all-nodes", "", YES, help="start when all nodes are ready (1), as Penstock always does", metavar="0|1",
           convert=read.zero_one),
    Option("resv-ports", "", MAYBE, help="reserve communication ports", metavar="count", const=1,
           convert=read.number("--resv-ports", 0)),
    Option("network", "", YES, help="accepted; there is nothing to choose", metavar="type", convert=read.name("network")),
    *later(
        "acctg-freq", "batch", "bb", "bbf", "cluster-constraint", "clusters/M", "container", "container-id",
        "core-spec/S", "cpu-freq", "delay-boot",
        "extra", "gid",
        "mcs-label",
        "ntasks-per-tres", "power", "profile",
        "resources", "thread-spec", "uid", "oom-kill-step",
    ),
    *later(
        "contiguous", "oversubscribe/s", "reboot", "stepmgr",
        "consolidate-segments", "spread-segments", value=NO,
    ),
)  # fmt: skip

#: Options that cannot stand together in one place; one from a higher place replaces the other from a lower one.
EXCLUSIVE_KEYS = ("mem", "mem_per_cpu", "mem_per_gpu")
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
         "mem_per_gpu": "mem_per_gpu_mb", "ntasks_per_gpu": "ntasks_per_gpu", "cpus_per_gpu": "cpus_per_gpu",
         "overcommit": "overcommit", "distribution": "distribution", "gpu_bind": "gpu_bind",
         "gpu_freq": "gpu_freq", "gpu_mem": "gpu_mem_mb", "mem_bind": "mem_bind",
         "no_kill": "no_kill", "node_fail_policy": "node_fail_policy",
         "wait_all_nodes": "wait_all_nodes", "resv_ports": "resv_ports", "network": "network",
         "immediate": "immediate_s",
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
    job.gres_per_node.extend(_counts(_node_gres(values)))
    if "gpus_per_socket" in values:
        job.gres_per_socket.extend(_counts(values["gpus_per_socket"]))
        job.gres_sockets = _sockets(values)
    job.gres_per_job.extend(_counts(values.get("gpus", ())))
    job.gres_per_task.extend(_counts(values.get("gpus_per_task", ())))
    if "tres_per_task" in values:
        cpus, gres = values["tres_per_task"]
        if (cpus and "cpus_per_task" in values) or (gres and "gpus_per_task" in values):
            raise CommandError("--tres-per-task says again what --cpus-per-task or --gpus-per-task say: leave one out")
        job.cpus_per_task = cpus or job.cpus_per_task
        job.gres_per_task.extend(_counts(gres))
    return job


def _counts(gres: "Iterable[Gres]") -> list[GresCount]:
    return [GresCount(name=g.name, type=g.type, count=g.count) for g in gres]


def _sockets(values: dict[str, Any]) -> int:
    found: int = values.get("sockets_per_node") or (values.get("extra_node_info") or (0,))[0]
    return found


def _node_gres(values: dict[str, Any]) -> "list[Gres]":
    """--gpus-per-node stands in the place of the GPUs in --gres; --gpus-per-socket likewise."""
    gres = list(values.get("gres", ()))
    each = values.get("gpus_per_node")
    if "gpus_per_socket" in values:
        sockets = _sockets(values)
        if not sockets:
            raise CommandError("--gpus-per-socket option requires --sockets-per-node to be specified")
        each = [g.__class__(g.name, g.type, g.count * sockets) for g in values["gpus_per_socket"]]
    return gres if each is None else [g for g in gres if g.name != "gpu"] + list(each)


#: What means nothing to a job without a script: neither salloc nor srun know these.
SBATCH_ONLY = frozenset(
    ("array", "error", "input", "output", "open-mode", "export", "export-file", "requeue", "no-requeue", "propagate")
)
IMMEDIATE = Option("immediate", "I", MAYBE, help="give up if the resources are not there within so many seconds",
                   metavar="secs", const=0, convert=read.number("--immediate", 0))  # fmt: skip


def allocation_options() -> tuple[Option, ...]:
    """The options of a job that runs no script."""
    return (*(o for o in JOB_OPTIONS if o.name not in SBATCH_ONLY), IMMEDIATE)


def shown(text: str) -> str:
    """Text that can stand in a table: what is not UTF-8, and control characters, are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
