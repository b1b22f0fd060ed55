"""The option table of srun, and the meaning of the values. salloc uses the part that describes a job.

    JOB         of both an allocation and a step: nodes, tasks, CPUs, memory, devices, placement, time limit
    ALLOCATION  only of a job that srun (or salloc) creates itself; ignored inside an allocation, as in Slurm
    STEP        only of a step: where tasks go, input and output, what ends it

Each option has its variable. srun does not read SLURM_CPUS_PER_TASK: since Slurm 22.05 the job's value does not apply
to its steps; it reads SRUN_CPUS_PER_TASK. An option's field is a field of the job's request, of the step's, or of both
under the same name.
"""

from typing import TYPE_CHECKING

from cli.base.options import (
    ACCEPTED,
    MAYBE,
    NO,
    REFUSED,
    STATUS_WRONG_LINE,
    YES,
    Command,
    LateText,
    LateValue,
    Option,
    message_text,
)
from cli.base.requestkey import REQUEST_KEY
from cli.jobs.bindwords import cpu_bind, hint, mem_bind
from cli.jobs.jobopts import FOR_ALLOCATION, HELP_GROUPS, IMMEDIATE, JOB_OPTIONS
from cli.jobs.jobwords import exclusive, late, number, open_mode
from penstock.values.errors import BadValue
from penstock.values.jobid import SLUID_LENGTH, parse_sluid
from penstock.values.numbers import parse_int

if TYPE_CHECKING:
    from penstock.values.gres import Gres

WAIT_S_MAX = 86_400 * 365
MPI_TYPES = ("none", "pmi2", "pmix")
MPI_LIST = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix"
NO_CONTAINERS = "nodes run no containers; a program like apptainer or enroot in the script does"


def _hint(text: str) -> str:
    hint(text)
    return text


def _mpi(text: str) -> str:
    if text != "list" and text not in MPI_TYPES:
        raise LateValue(f"{text!r} is not one of {', '.join(MPI_TYPES)}")
    return text


def _het_group(text: str) -> tuple[int, ...]:
    groups: list[int] = []
    try:
        for part in text.split(","):
            low, dash, high = part.partition("-")
            first = parse_int(low, 0, 127, "component")
            groups += range(first, (parse_int(high, first, 127, "component") if dash else first) + 1)
    except BadValue as error:
        raise LateText(f"Invalid --het-group value: {message_text(text)}") from error
    return tuple(groups)


_job_number = number("--jobid", 1)


class SluidJob(int):
    """The id of a job that was named by its SLUID."""

    sluid = ""


def _job_id(text: str) -> int:
    if len(text) == SLUID_LENGTH and text[0] == "s":
        found = SluidJob(late(parse_sluid)(text)[1])
        found.sluid = text
        return found
    head, plus, offset = text.partition("+")
    component = parse_int(offset, 0, 127, "component") if plus else 0
    return int(_job_number(head)) + component  # the components of a job have consecutive ids


def _gres_of_step(text: str) -> "tuple[Gres, ...] | str":
    from penstock.values.gres import parse_gres

    return text.lower() if text.lower() in ("none", "all") else late(parse_gres)(text)


_zero_one = number("--kill-on-bad-exit", 0, 1)


def _kill_on_bad_exit(text: str) -> bool:
    return _zero_one(text) == 1


def _accel_bind(text: str) -> str:
    if not text or set(text) - set("gmnv"):
        raise BadValue(f"{message_text(text)}: write letters of gmnv")
    return text


def _yes_no(text: str) -> str:
    if text not in ("yes", "no"):
        raise BadValue("it is neither yes nor no")
    return text


def _exclusive(text: str) -> str:
    return FOR_ALLOCATION if text.lower() == FOR_ALLOCATION else exclusive(text)


def _container(name: str, value: str, what: str, env: str = "", metavar: str = "value") -> Option:
    return Option(name, "", value, env, what, metavar, status=REFUSED, note=NO_CONTAINERS)


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
        "ntasks-per-tres", "mem=SLURM_MEM_PER_NODE", "mem-per-cpu=SLURM_MEM_PER_CPU", "gpus-per-node=SLURM_GPUS_PER_NODE",
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
    IMMEDIATE._replace(env="SLURM_IMMEDIATE"),
    Option("hint", "", YES, "SLURM_HINT", "bind tasks according to hints; help lists them", "type", convert=_hint,
           invalid='unrecognized --hint argument "{value}", see --hint=help', field="hint"),
    Option("verbose", "v", NO, "SRUN_DEBUG", "verbose mode (multiple -v's increase verbosity)", counted=True),
    Option("quiet", "Q", help="quiet mode (suppress informational messages)"),
)  # fmt: skip

ALLOCATION = (
    *_taken(
        "account=SLURM_ACCOUNT", "partition=SLURM_PARTITION", "qos=SLURM_QOS", "constraint=SLURM_CONSTRAINT",
        "reservation=SLURM_RESERVATION", "wckey=SLURM_WCKEY", "comment", "begin", "deadline", "time-min", "nice",
        "priority", "hold", "prefer", "mincpus", "tmp", "sockets-per-node", "cores-per-socket", "extra-node-info",
        "switches=SLURM_REQ_SWITCH", "spread-job=SLURM_SPREAD_JOB", "use-min-nodes=SLURM_USE_MIN_NODES",
        "segment=SLURM_SEGMENT_SIZE", "mail-type", "mail-user", "gres-flags=SLURM_GRES_FLAGS",
        "dependency=SLURM_DEPENDENCY", "kill-on-invalid-dep", "oversubscribe",
        "contiguous", "core-spec=SLURM_CORE_SPEC", "thread-spec=SLURM_THREAD_SPEC", "extra", "mcs-label",
        "acctg-freq=SLURM_ACCTG_FREQ", "oom-kill-step=SLURM_OOM_KILL_STEP", "reboot", "delay-boot=SLURM_DELAY_BOOT",
        "uid", "gid", "bb=SLURM_BURST_BUFFER", "bbf", "cluster-constraint", "clusters=SLURM_CLUSTERS",
        "consolidate-segments", "spread-segments", "cpu-freq=SLURM_CPU_FREQ_REQ", "power=SLURM_POWER",
        "profile=SLURM_PROFILE", "stepmgr", "container=SRUN_CONTAINER", "container-id=SRUN_CONTAINER_ID", "resources",
        "node-fail-policy",
    ),
    *(
        option._replace(
            help=f"{option.help}; of a step --exact, but with {FOR_ALLOCATION} only of a job of its own",
            metavar=f"{option.metavar}|{FOR_ALLOCATION}", convert=_exclusive,
        )
        for option in _taken("exclusive=SLURM_EXCLUSIVE")
    ),
)  # fmt: skip

STEP = (
    Option("accel-bind", "", YES, "", "bind tasks to the devices near them: g (GPUs), n (network cards), v (verbose)",
           "options", convert=_accel_bind, status=ACCEPTED, note="devices near the CPUs of a job are preferred anyway"),
    Option("async", "", NO, "", "return as soon as the step is created", status=REFUSED,
           note="srun carries the input and output of its step; put it into the background with &"),
    Option("bcast", "", MAYBE, "SLURM_BCAST", "copy executable file to compute nodes", "dest", const=""),
    Option("bcast-exclude", "", YES, "SLURM_BCAST_EXCLUDE", "paths of libraries that --send-libs leaves out", "paths",
           status=ACCEPTED, note="libraries are not copied"),
    Option("compress", "", MAYBE, "SLURM_COMPRESS", "compress the file that --bcast copies", "library", const="",
           status=ACCEPTED, note="the copy is sent to each node once, uncompressed"),
    Option("cpu-bind", "", YES, "SLURM_CPU_BIND", "bind tasks to CPUs; help lists how", "type", convert=cpu_bind,
           invalid='unrecognized --cpu-bind argument "{value}"', field="cpu_bind"),
    Option("cpu_bind", "", YES, "", convert=cpu_bind, dest="cpu_bind",
           invalid='unrecognized --cpu-bind argument "{value}"', field="cpu_bind"),
    Option("debugger-test", "", NO, "", "show node and process id of each task, as a debugger reads them"),
    Option("disable-status", "X", NO, "SLURM_DISABLE_STATUS", "disable Ctrl-C status feature"),
    Option("epilog", "", YES, "SLURM_EPILOG", "program to run here after the step, with the step's command", "program"),
    Option("error", "e", YES, "SRUN_ERROR", "location of stderr redirection", "err"),
    Option("exact", "", NO, "SLURM_EXACT", "use only the resources requested for the step", field="exact"),
    Option("export", "", YES, "SLURM_EXPORT_ENV", "environment variables to export to tasks", "names"),
    Option("external-launcher", "", MAYBE, "", "the step is a launcher's own helper on each node, beside other steps",
           "args", const=""),
    Option("het-group", "", YES, "", "heterogeneous job component on which to launch", "value", convert=_het_group),
    Option("input", "i", YES, "SRUN_INPUT", "location of stdin redirection", "in"),
    Option("interactive", "", NO, "", "the step is an allocation's own shell, and shares what other steps have",
           field="interactive"),
    Option("jobid", "", YES, "SLURM_JOB_ID", "run under already allocated job", "id", convert=_job_id),
    Option("kill-on-bad-exit", "K", MAYBE, "SLURM_KILL_BAD_EXIT", "kill the job if any task terminates with a "
           "non-zero exit code", "0|1", convert=_kill_on_bad_exit, field="kill_on_bad_exit"),
    Option("label", "l", NO, "SLURM_LABELIO", "prepend task number to lines of stdout/err"),
    Option("mem-bind", "", YES, "SLURM_MEM_BIND", "bind memory to locality domains; help lists how", "type",
           convert=mem_bind, invalid='unrecognized --mem-bind argument "{value}"', field="mem_bind"),
    Option("mpi", "", YES, "SLURM_MPI_TYPE", "type of MPI being used: none, pmi2, pmix, list", "type", convert=_mpi,
           invalid="Invalid MPI type '{value}', --mpi=list for acceptable types", field="mpi"),
    Option("msg-timeout", "", YES, "", "seconds to wait for the nodes to launch the step", "seconds",
           convert=number("--msg-timeout", 0), status=ACCEPTED, note="a launch is repeated until the node answers"),
    Option("multi-prog", "", NO, "", "the program name is the configuration of several programs"),
    Option("no-allocate", "Z", NO, "", "run tasks on nodes without an allocation", status=REFUSED,
           note="a node runs only what the controller sends"),
    Option("open-mode", "", YES, "SLURM_OPEN_MODE", "how output files are opened", "append|truncate",
           convert=open_mode),
    Option("output", "o", YES, "SRUN_OUTPUT", "location of stdout redirection", "out"),
    Option("overlap", "", NO, "SLURM_OVERLAP", "share all resources of the step with other steps", field="overlap"),
    Option("preserve-env", "E", NO, "", "pass on the environment's numbers of nodes and tasks", field="preserve_env"),
    Option("prolog", "", YES, "SLURM_PROLOG", "program to run here before the step, with the step's command",
           "program"),
    Option("pty", "", MAYBE, "", "run task zero in pseudo terminal", "fd"),
    Option("quit-on-interrupt", "", NO, "", "quit on single Ctrl-C"),
    Option("relative", "r", YES, "", "run job step relative to node n of allocation", "n",
           convert=number("--relative", 0), field="relative"),
    Option("send-libs", "", MAYBE, "SLURM_SEND_LIBS", "copy the libraries of the file that --bcast copies", "yes|no",
           const="yes", convert=_yes_no, status=ACCEPTED, note="programs find their libraries on the nodes"),
    Option("slurmd-debug", "", YES, "SLURMD_DEBUG", "level of the step's own messages", "level", status=ACCEPTED,
           note="the messages of a step do not depend on it"),
    Option("task-epilog", "", YES, "SLURM_TASK_EPILOG", "program to run after launching task", "program"),
    Option("task-prolog", "", YES, "SLURM_TASK_PROLOG", "program to run before launching task", "program"),
    Option("test-only", "", NO, "", "show when and where the job would start, run nothing"),
    Option("threads", "T", YES, "SLURM_THREADS", "set srun launch fanout", "threads", convert=number("--threads", 1),
           status=ACCEPTED, note="srun needs no threads"),
    Option("treewidth", "", YES, "SLURM_TREE_WIDTH", "fan-out of messages to nodes", "size|off", status=ACCEPTED,
           note="nodes do not relay messages: each has its own connection"),
    Option("unbuffered", "u", NO, "SLURM_UNBUFFEREDIO", "do not line-buffer stdout/err", field="unbuffered"),
    Option("wait", "W", YES, "SLURM_WAIT", "seconds to wait after first task ends before killing job", "sec",
           convert=number("--wait", 0, WAIT_S_MAX)),
    Option("wait-for-children", "", NO, "SLURM_WAIT_FOR_CHILDREN", "a task ends when all of its processes have",
           status=ACCEPTED, note="a task ends with its first process, and its other processes end with the step"),
    Option("whole", "", NO, "SLURM_WHOLE", "use whole nodes of the allocation for this step", field="whole"),
    Option("x11", "", MAYBE, "", "forward X11 from the nodes", "all|first|last", status=REFUSED,
           invalid="X11 forwarding not available", note="nodes forward no X11; ssh -X to the node does"),
    _container("container-image", YES, "image of a container", "SRUN_CONTAINER_IMAGE", "[user@][registry#]image[:tag]"),
    _container("container-mounts", YES, "mounts of the container", "SRUN_CONTAINER_MOUNTS", "src:dst[:flags]"),
    _container("container-workdir", YES, "working directory of its tasks", "SRUN_CONTAINER_WORKDIR", "path"),
    _container("container-name", YES, "name of the container, to keep it", "SRUN_CONTAINER_NAME", "name"),
    _container("container-save", YES, "file to save the container to", "SRUN_CONTAINER_SAVE", "path"),
    _container("container-env", YES, "variables that its image does not set", "SRUN_CONTAINER_ENV", "names"),
    _container("container-mount-home", NO, "mount the home folder"),
    _container("no-container-mount-home", NO, "do not mount the home folder"),
    _container("container-remap-root", NO, "be root inside"),
    _container("no-container-remap-root", NO, "be the same user inside"),
    _container("container-entrypoint", NO, "run the entry point of the image"),
    _container("no-container-entrypoint", NO, "do not run the entry point of the image"),
    _container("container-writable", NO, "make its file system writable"),
    _container("container-readonly", NO, "make its file system read-only"),
)  # fmt: skip

#: Variables of older Slurm versions and of other commands, besides the option's own.
OTHER_VARIABLES = {
    "SRUN_EXPORT_ENV": "SLURM_EXPORT_ENV", "SLURM_NPROCS": "SLURM_NTASKS", "SLURM_JOB_NUM_NODES": "SLURM_NNODES",
    "SLURM_JOBID": "SLURM_JOB_ID", "SLURM_STDOUTMODE": "SRUN_OUTPUT", "SLURM_STDERRMODE": "SRUN_ERROR",
    "SLURM_STDINMODE": "SRUN_INPUT", "SLURM_REMOTE_CWD": "SLURM_WORKING_DIR", "SLURM_DEBUG": "SRUN_DEBUG",
}  # fmt: skip
#: Of these the left one takes precedence.
STRONGER = ("SRUN_EXPORT_ENV",)

COMMAND = Command(
    "srun",
    "[OPTIONS(0)... [executable(0) [args(0)...]]] [ : [OPTIONS(N)...]] executable(N) [args(N)...]",
    (*JOB, *ALLOCATION, *STEP, REQUEST_KEY),
    interspersed=False,
    usage_end="executable [args...]",
    groups=HELP_GROUPS,
    wrong_status=STATUS_WRONG_LINE,
)
