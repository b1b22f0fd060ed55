"""The options of srun: one table, and what the values mean. salloc takes the part that describes a job.

    JOB         of an allocation and of a step alike: nodes, tasks, cpus, memory, devices, where, how long
    ALLOCATION  only of a job that srun (or salloc) makes itself; without meaning inside an allocation, as on Slurm
    STEP        only of a step: where tasks go, input and output, what ends it

Each option's variable stands beside it. SLURM_CPUS_PER_TASK is not one of srun's: what a job asked for is no order to
its steps since Slurm 22.05; SRUN_CPUS_PER_TASK is.

Options of Slurm that Penstock has not yet (containers, X11, ...) are in the table and say so when they are used.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from cli.jobopts import IMMEDIATE, JOB_OPTIONS
from cli.jobwords import number
from cli.options import MAYBE, NO, NUMERIC, YES, Option, later
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int

if TYPE_CHECKING:
    from penstock.values.gres import Gres

WAIT_S_MAX = 86_400 * 365
BIND_WORDS = ("quiet", "verbose")
CPU_BIND_WORDS = (
    "none", "no", "rank", "rank_ldom", "sockets", "socket", "cores", "core", "threads", "thread", "ldoms", "ldom",
    "boards", "board", "map_cpu", "mask_cpu", "map_ldom", "mask_ldom",
)  # fmt: skip
MEM_BIND_WORDS = ("none", "no", "rank", "local", "map_mem", "mask_mem", "sort", "nosort", "prefer", "p")
HINTS = ("compute_bound", "memory_bound", "multithread", "nomultithread")
MPI_TYPES = ("none", "pmi2", "pmix")
MPI_LIST = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix"


def _binding(known: tuple[str, ...]) -> Callable[[str], str]:
    """A binding as written: words before a colon or comma, then what a map or a mask lists."""

    def convert(text: str) -> str:
        rest = text
        while rest:
            ends = [at for at in (rest.find(","), rest.find(":"), len(rest)) if at >= 0]
            word, rest = rest[: min(ends)].lower(), rest[min(ends) :]
            if word not in (*known, *BIND_WORDS, "q", "v"):
                raise BadValue(f"{word!r} is none of {', '.join((*BIND_WORDS, *known))}")
            if word.startswith(("map_", "mask_")):
                if len(rest) < 2:
                    raise BadValue(f"{word} needs a list: {word}:0,1,...")
                return text
            rest = rest[1:]
        return text

    return convert


cpu_bind = _binding(CPU_BIND_WORDS)
mem_bind = _binding(MEM_BIND_WORDS)


def _hint(text: str) -> str:
    for word in text.split(","):
        if word not in HINTS:
            raise BadValue(f"{word!r} is none of {', '.join(HINTS)}")
    return text


def _mpi(text: str) -> str:
    if text != "list" and text not in MPI_TYPES:
        raise BadValue(f"{text!r} is none of {', '.join(MPI_TYPES)}")
    return text


def _kill_on_bad_exit(text: str) -> bool:
    return parse_int(text, 0, 1, "--kill-on-bad-exit") == 1


def _het_group(text: str) -> tuple[int, ...]:
    groups: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        first = parse_int(low, 0, 127, "component")
        groups += range(first, (parse_int(high, first, 127, "component") if dash else first) + 1)
    return tuple(groups)


def _job_id(text: str) -> int:
    head, plus, offset = text.partition("+")
    if plus:
        parse_int(offset, 0, 127, "component")
    return parse_int(head, 1, 2**31 - 1, "job id")


def _gres_of_step(text: str) -> "tuple[Gres, ...] | str":
    from penstock.values.gres import parse_gres

    return text.lower() if text.lower() in ("none", "all") else parse_gres(text)


def _whole_number(name: str, short: str, what: str, env: str = "", low: int = 1) -> Option:
    return Option(name, short, YES, env, what, "n", convert=number(f"--{name}", low), invalid=NUMERIC)


def _taken(*pairs: str) -> tuple[Option, ...]:
    """Options that all jobs have in the same form, with srun's variable: `name` or `name=VARIABLE`."""
    table = {option.name: option for option in JOB_OPTIONS}
    split = (pair.partition("=") for pair in pairs)
    return tuple(table[name]._replace(env=env) for name, _, env in split)


JOB = (
    *_taken(
        "nodes=SLURM_NNODES", "ntasks=SLURM_NTASKS", "cpus-per-task=SRUN_CPUS_PER_TASK",
        "ntasks-per-node=SLURM_NTASKS_PER_NODE", "ntasks-per-core=SLURM_NTASKS_PER_CORE",
        "ntasks-per-socket=SLURM_NTASKS_PER_SOCKET", "threads-per-core=SLURM_THREADS_PER_CORE",
        "mem=SLURM_MEM_PER_NODE", "mem-per-cpu=SLURM_MEM_PER_CPU", "gpus-per-node=SLURM_GPUS_PER_NODE",
        "nodelist", "nodefile", "exclude", "time=SLURM_TIMELIMIT", "job-name=SLURM_JOB_NAME",
        "chdir=SLURM_WORKING_DIR", "propagate=SLURM_PROPAGATE", "signal=SLURM_SIGNAL", "licenses",
        "gpus=SLURM_GPUS", "gpus-per-task=SLURM_GPUS_PER_TASK", "gpus-per-socket=SLURM_GPUS_PER_SOCKET",
        "gpu-bind=SLURM_GPU_BIND", "tres-bind=SLURM_TRES_BIND", "gpu-freq=SLURM_GPU_FREQ", "gpu-mem",
        "cpus-per-gpu=SLURM_CPUS_PER_GPU", "ntasks-per-gpu=SLURM_NTASKS_PER_GPU",
        "mem-per-gpu=SLURM_MEM_PER_GPU", "tres-per-task=SLURM_TRES_PER_TASK", "distribution=SLURM_DISTRIBUTION",
        "overcommit=SLURM_OVERCOMMIT", "no-kill=SLURM_NO_KILL", "resv-ports=SLURM_RESV_PORTS", "network=SLURM_NETWORK",
    ),
    Option("gres", "", YES, "SLURM_GRES", "required generic resources", "list", convert=_gres_of_step,
           invalid="Invalid generic resource (gres) specification"),
    IMMEDIATE._replace(env="SLURM_IMMEDIATE", invalid=NUMERIC),
    Option("hint", "", YES, "SLURM_HINT", "bind tasks according to application hints", "type", convert=_hint),
    Option("verbose", "v", NO, "SRUN_DEBUG", "verbose mode (multiple -v's increase verbosity)", counted=True),
    Option("quiet", "Q", help="quiet mode (suppress informational messages)"),
)  # fmt: skip

ALLOCATION = (
    *_taken(
        "account=SLURM_ACCOUNT", "partition=SLURM_PARTITION", "qos=SLURM_QOS", "constraint=SLURM_CONSTRAINT",
        "reservation=SLURM_RESERVATION", "wckey=SLURM_WCKEY", "comment", "begin", "deadline", "time-min", "nice",
        "priority", "hold", "prefer", "mincpus", "tmp", "sockets-per-node", "cores-per-socket", "extra-node-info",
        "switches=SLURM_REQ_SWITCH", "spread-job=SLURM_SPREAD_JOB", "use-min-nodes=SLURM_USE_MIN_NODES",
        "segment=SLURM_SEGMENT_SIZE", "mail-type", "mail-user", "gres-flags", "dependency=SLURM_DEPENDENCY",
        "kill-on-invalid-dep",
    ),
)  # fmt: skip

STEP = (
    Option("jobid", "", YES, "SLURM_JOB_ID", "run under already allocated job", "id", convert=_job_id),
    Option("exclusive", "", MAYBE, "SLURM_EXCLUSIVE", "allocate nodes in exclusive mode, or cpus to steps alone",
           "user", const=""),
    Option("exact", "", NO, "SLURM_EXACT", "use only the resources requested for the step"),
    Option("overlap", "", NO, "SLURM_OVERLAP", "share all resources of the step with other steps"),
    Option("whole", "", NO, "SLURM_WHOLE", "use whole nodes of the allocation for this step"),
    Option("external-launcher", "", MAYBE, "", "the step is a launcher's own helper on each node, beside other steps",
           "args", const=""),
    Option("relative", "r", YES, "", "run job step relative to node n of allocation", "n",
           convert=number("--relative", 0), invalid=NUMERIC),
    Option("multi-prog", "", NO, "", "the program name is the configuration of several programs"),
    Option("label", "l", NO, "SLURM_LABELIO", "prepend task number to lines of stdout/err"),
    Option("unbuffered", "u", NO, "SLURM_UNBUFFEREDIO", "do not line-buffer stdout/err"),
    Option("output", "o", YES, "SRUN_OUTPUT", "location of stdout redirection", "out"),
    Option("error", "e", YES, "SRUN_ERROR", "location of stderr redirection", "err"),
    Option("input", "i", YES, "SRUN_INPUT", "location of stdin redirection", "in"),
    Option("open-mode", "", YES, "SLURM_OPEN_MODE", "how output files are opened", "append|truncate",
           convert=next(o.convert for o in JOB_OPTIONS if o.name == "open-mode")),
    Option("pty", "", MAYBE, "", "run task zero in pseudo terminal", "fd"),
    Option("kill-on-bad-exit", "K", MAYBE, "SLURM_KILL_BAD_EXIT", "kill the job if any task terminates with a "
           "non-zero exit code", "0|1", convert=_kill_on_bad_exit, invalid=NUMERIC),
    Option("wait", "W", YES, "SLURM_WAIT", "seconds to wait after first task ends before killing job", "sec",
           convert=number("--wait", 0, WAIT_S_MAX), invalid=NUMERIC),
    Option("cpu-bind", "", YES, "SLURM_CPU_BIND", "bind tasks to CPUs", "type", convert=cpu_bind,
           invalid="Invalid --cpu-bind argument"),
    Option("mem-bind", "", YES, "SLURM_MEM_BIND", "bind memory to locality domains", "type", convert=mem_bind,
           invalid="Invalid --mem-bind argument"),
    Option("bcast", "", MAYBE, "SLURM_BCAST", "copy executable file to compute nodes", "dest", const=""),
    Option("export", "", YES, "SLURM_EXPORT_ENV", "environment variables to export to tasks", "names"),
    Option("task-prolog", "", YES, "SLURM_TASK_PROLOG", "program to run before launching task", "program"),
    Option("task-epilog", "", YES, "SLURM_TASK_EPILOG", "program to run after launching task", "program"),
    Option("mpi", "", YES, "SLURM_MPI_TYPE", "type of MPI being used: none, pmi2, pmix, list", "type", convert=_mpi,
           invalid="Invalid MPI type '{value}', --mpi=list for acceptable types"),
    Option("het-group", "", YES, "", "heterogeneous job component on which to launch", "value", convert=_het_group),
    Option("disable-status", "X", NO, "SLURM_DISABLE_STATUS", "disable Ctrl-C status feature"),
    Option("quit-on-interrupt", "", NO, "", "quit on single Ctrl-C"),
    Option("interactive", help="the step is an allocation's own shell, and shares what other steps have"),
    Option("preserve-env", "E", help="accepted; the environment's numbers of nodes and tasks are always passed on"),
    _whole_number("threads", "T", "accepted; srun needs no threads", "SLURM_THREADS"),
    *later(
        "acctg-freq", "bb", "bbf", "cluster-constraint", "clusters/M", "container", "container-id",
        "container-image", "container-mounts", "container-workdir", "container-name", "container-save",
        "container-env", "core-spec/S", "cpu-freq", "delay-boot", "export-file", "extra", "gid",
        "mcs-label", "power", "prolog", "epilog",
        "profile", "thread-spec", "uid", "oom-kill-step", "send-libs", "compress",
    ),
    *later(
        "async", "contiguous", "oversubscribe/s", "reboot", "stepmgr", "no-allocate/Z",
        "wait-for-children", "test-only", "container-mount-home", "no-container-mount-home", "container-remap-root",
        "no-container-remap-root", "container-writable", "container-readonly", "no-container-entrypoint",
        "container-entrypoint", value=NO,
    ),
    *later("x11", "treewidth", value=MAYBE),
)  # fmt: skip

#: By the variables of older Slurm versions and of other commands, for those that stand beside the option's own.
OTHER_VARIABLES = {
    "SRUN_EXPORT_ENV": "SLURM_EXPORT_ENV", "SLURM_NPROCS": "SLURM_NTASKS", "SLURM_JOB_NUM_NODES": "SLURM_NNODES",
    "SLURM_JOBID": "SLURM_JOB_ID", "SLURM_STDOUTMODE": "SRUN_OUTPUT", "SLURM_STDERRMODE": "SRUN_ERROR",
    "SLURM_STDINMODE": "SRUN_INPUT",
}  # fmt: skip
#: Of these the one on the left is the stronger.
STRONGER = ("SRUN_EXPORT_ENV",)
