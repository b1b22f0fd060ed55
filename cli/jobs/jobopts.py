"""The options that describe a job: one table for sbatch, salloc and srun, each with the field of the request that takes
its value. `cli.jobs.jobwords` parses the value of an option, with the option's name in the error. Values with a syntax
of their own (arrays, dependencies, features, hostlists) are checked there, so that an error needs no round trip, and
sent as written: the controller parses them again and enforces its own limits. GPUs of a job or a task are sent as
given: the controller, which has the nodes, turns them into numbers per node. `cli.jobs.jobrequest` fills in values that
set several fields. `SBATCH_ONLY` names options that mean nothing to a job without a script; `allocation_options` leaves
it out.
"""

from collections.abc import Mapping, Sequence

from cli.base.options import ACCEPTED, MAYBE, NO, REFUSED, YES, Command, Option, OptionValues, parse
from cli.jobs import bindwords as bind
from cli.jobs import jobwords as read

SUBMIT_FAILED = "Batch job submission failed"
ARRAY = "Invalid job array specification"
NICE_DEFAULT = 100  # a bare --nice
#: Set by both --exclusive and --oversubscribe: the last one wins, as in Slurm.
SHARED, OVERSUBSCRIBE = "shared", "oversubscribe"
#: --exclusive=allocation of srun: the nodes of a job of its own are not shared, and a step does not become --exact.
FOR_ALLOCATION = "allocation"

_ENV = {
    "account": "ACCOUNT", "acctg-freq": "ACCTG_FREQ", "array": "ARRAY_INX", "batch": "BATCH", "bb": "BURST_BUFFER",
    "bell": "BELL", "clusters": "CLUSTERS", "constraint": "CONSTRAINT", "container": "CONTAINER",
    "container-id": "CONTAINER_ID", "core-spec": "CORE_SPEC", "cpu-freq": "CPU_FREQ_REQ",
    "cpus-per-gpu": "CPUS_PER_GPU", "delay-boot": "DELAY_BOOT", "distribution": "DISTRIBUTION", "error": "ERROR",
    "exclusive": "EXCLUSIVE", "export": "EXPORT", "get-user-env": "GET_USER_ENV", "gpu-bind": "GPU_BIND",
    "gpu-freq": "GPU_FREQ", "gpu-mem": "GPU_MEM", "gpus": "GPUS", "gpus-per-node": "GPUS_PER_NODE",
    "gpus-per-task": "GPUS_PER_TASK", "gres": "GRES", "gres-flags": "GRES_FLAGS", "hint": "HINT",
    "ignore-pbs": "IGNORE_PBS", "immediate": "IMMEDIATE", "input": "INPUT", "job-name": "JOB_NAME",
    "kill-command": "KILL_CMD", "mem": "MEM_PER_NODE", "mem-bind": "MEM_BIND", "mem-per-cpu": "MEM_PER_CPU",
    "mem-per-gpu": "MEM_PER_GPU", "network": "NETWORK", "no-bell": "NO_BELL", "no-kill": "NO_KILL",
    "no-requeue": "NO_REQUEUE", "open-mode": "OPEN_MODE", "output": "OUTPUT", "overcommit": "OVERCOMMIT",
    "partition": "PARTITION", "power": "POWER", "profile": "PROFILE", "qos": "QOS", "requeue": "REQUEUE",
    "reservation": "RESERVATION", "resv-ports": "RESV_PORTS", "segment": "SEGMENT_SIZE", "signal": "SIGNAL",
    "spread-job": "SPREAD_JOB", "switches": "REQ_SWITCH", "thread-spec": "THREAD_SPEC",
    "threads-per-core": "THREADS_PER_CORE", "time": "TIMELIMIT", "tres-bind": "TRES_BIND",
    "tres-per-task": "TRES_PER_TASK", "use-min-nodes": "USE_MIN_NODES", "verbose": "DEBUG", "wait": "WAIT",
    "wait-all-nodes": "WAIT_ALL_NODES", "wckey": "WCKEY",
}  # fmt: skip
"""The variables that set options, without their prefix (SBATCH_)."""

#: Variables that all three commands read when their own is not set, by the name of their own without prefix.
_COMMON_ENV = {"HINT": "SLURM_HINT", "CLUSTERS": "SLURM_CLUSTERS"}
#: The variable with the waiting time of --switches.
_WAIT4SWITCH = "WAIT4SWITCH"

#: The groups of `sbatch --help`, salloc's and srun's, below the options of the job itself.
HELP_GROUPS = (
    ("Constraint options:", frozenset((
        "cluster-constraint", "constraint", "contiguous", "exclude", "mem", "mincpus", "nodefile", "nodelist",
        "no-allocate", "prefer", "reservation", "tmp",
    ))),
    ("Consumable resources related options:", frozenset(("exact", "exclusive", "mem-per-cpu", "resv-ports"))),
    ("Affinity/Multi-core options: (when the task/affinity plugin is enabled)", frozenset((
        "cores-per-socket", "cpu-bind", "extra-node-info", "hint", "mem-bind", "ntasks-per-core", "ntasks-per-socket",
        "sockets-per-node", "threads-per-core",
    ))),
    ("GPU scheduling options:", frozenset((
        "cpus-per-gpu", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task",
        "mem-per-gpu", "ntasks-per-gpu", "tres-bind", "tres-per-task",
    ))),
)  # fmt: skip


def with_environment(options: Sequence[Option], prefix: str) -> tuple[Option, ...]:
    """The same options, each with its variable."""
    return tuple(o._replace(env=prefix + _ENV[o.name]) if o.name in _ENV else o for o in options)


def environment_values(command: Command, prefix: str, env: Mapping[str, str]) -> OptionValues:
    """The values of a command's options from the environment."""
    present = set(env)  # a look-up in os.environ takes far longer
    known = {o.env: env[o.env] for o in command.options if o.env in present}
    for name, common in _COMMON_ENV.items():
        if common in present:
            known.setdefault(prefix + name, env[common])
    values = parse(command, [], known).values if known else OptionValues()
    if prefix + _WAIT4SWITCH in present and env[prefix + _WAIT4SWITCH]:
        values["switches_wait"] = read.switches_wait(env[prefix + _WAIT4SWITCH])
    return values


def _count(name: str, short: str, field: str, what: str, metavar: str = "n") -> Option:
    return Option(name, short, YES, help=what, metavar=metavar, convert=read.number(f"--{name}", 1), field=field)


JOB_OPTIONS = (
    Option("account", "A", YES, help="charge job to specified account", metavar="name", convert=read.name("account"),
           field="account"),
    Option("acctg-freq", "", YES, help="interval at which the usage of a step is sampled, in seconds: task=30,gpu=60",
           metavar="datatype=interval", convert=read.acctg_freq, field="acctg_freq"),
    Option("array", "a", YES, help="job array index values", metavar="indexes", invalid=f"{SUBMIT_FAILED}: {ARRAY}",
           convert=read.checked(read.array, "job array"), field="array"),
    Option("batch", "", YES, help="features of the node that runs the batch script", metavar="features",
           convert=read.checked(read.features, "features"), invalid="Invalid feature specification",
           field="batch_features"),
    Option("bb", "", YES, help="burst buffer specifications", metavar="spec", status=REFUSED,
           invalid=f"{SUBMIT_FAILED}: Burst Buffer request invalid", note="there are no burst buffers"),
    Option("bbf", "", YES, help="burst buffer specification file", metavar="file_name", status=REFUSED,
           invalid=f"{SUBMIT_FAILED}: Burst Buffer request invalid", note="there are no burst buffers"),
    Option("begin", "b", YES, help="defer job until HH:MM MM/DD/YY", metavar="time", convert=read.begin,
           field="begin_at_us"),
    Option("chdir", "D", YES, help="set working directory", metavar="directory"),
    Option("cluster-constraint", "", YES, help="specify a list of cluster constraints", metavar="[!]list",
           status=ACCEPTED, note="there are no federations"),
    Option("clusters", "M", YES, help="clusters to issue commands to, or all", metavar="names",
           note="of several clusters the one with the earliest expected start"),
    Option("comment", "", YES, help="arbitrary comment", metavar="name", convert=read.name("comment"), field="comment"),
    Option("consolidate-segments", "", NO, help="place the segments of a job in as few blocks as possible",
           status=ACCEPTED, note="segments are always packed into as few blocks as possible"),
    Option("constraint", "C", YES, help="specify a list of constraints", metavar="list",
           convert=read.checked(read.features, "constraint"), invalid="Invalid feature specification",
           field="features"),
    Option("container", "", YES, help="path to OCI container bundle", metavar="path", status=REFUSED,
           invalid=f"{SUBMIT_FAILED}: Container is not configured", note="nodes run no containers"),
    Option("container-id", "", YES, help="OCI container ID", metavar="id", status=REFUSED,
           invalid=f"{SUBMIT_FAILED}: Container is not configured", note="nodes run no containers"),
    Option("contiguous", "", NO, help="demand a contiguous range of nodes", field="contiguous",
           note="of more than 64 possible positions, 64 are tried, at equal distances"),
    Option("core-spec", "S", YES, help="count of reserved cores", metavar="cores",
           convert=read.number("--core-spec", 0), field="core_spec",
           note="as in Slurm, ignored without AllowSpecResourcesUsage"),
    _count("cores-per-socket", "", "cores_per_socket", "least number of cores of a socket", "C"),
    Option("cpu-freq", "", YES, help="requested cpu frequency (and governor)", metavar="min[-max[:gov]]",
           convert=bind.cpu_freq, invalid="Invalid --cpu-freq argument", field="cpu_freq", status=ACCEPTED,
           note="clocks of CPUs are left to the kernel"),
    _count("cpus-per-gpu", "", "cpus_per_gpu", "number of CPUs required per allocated GPU"),
    _count("cpus-per-task", "c", "cpus_per_task", "number of cpus required per task", "ncpus"),
    Option("deadline", "", YES, help="remove the job if it cannot end before this time", metavar="time",
           convert=read.begin, field="deadline_at_us"),
    Option("delay-boot", "", YES, help="delay boot for desired node features", metavar="mins",
           convert=read.time_min, field="delay_boot_s", note="no node is rebooted for its features"),
    Option("dependency", "d", YES, help="defer job until condition on jobid is satisfied", metavar="type:jobid[:time]",
           convert=read.checked(read.dependency, "dependency"), invalid=f"{SUBMIT_FAILED}: Job dependency problem",
           field="dependency"),
    Option("distribution", "m", YES, help="how tasks are spread over nodes, sockets and cores", metavar="type",
           convert=bind.distribution, field="distribution"),
    Option("error", "e", YES, help="file for batch script's standard error", metavar="err"),
    Option("exclude", "x", YES, help="exclude a specific list of hosts", metavar="hosts...",
           convert=read.checked(read.hosts, "host list"), field="nodes_excluded"),
    Option("exclusive", "", MAYBE, help="do not share nodes with other jobs; user: only with the same user's, mcs: only "
           "with jobs of the same label, topo: nor the leaf switches or blocks of its nodes",
           metavar="user|mcs|topo", dest=SHARED, const="exclusive", convert=read.exclusive),
    Option("export", "", YES, help="specify environment variables to export", metavar="names"),
    Option("export-file", "", YES, help="file or descriptor with environment variables, each ended by a NUL",
           metavar="file|fd"),
    Option("extra", "", YES, help="arbitrary text, kept with the job", metavar="string", convert=read.name("extra"),
           field="extra"),
    Option("extra-node-info", "B", YES, help="least sockets, cores and threads of a node", metavar="S[:C[:T]]",
           convert=read.extra_node_info),
    Option("get-user-env", "", MAYBE, help="load the login environment of the user on the node", metavar="timeout",
           convert=read.get_user_env, field="get_user_env"),
    Option("gid", "", YES, help="group ID to run job as (user root only)", metavar="group_id", convert=read.group,
           field="run_as_gid"),
    Option("gpu-bind", "", YES, help="task to GPU binding of the job's steps", metavar="type", convert=bind.gpu_bind,
           invalid="Invalid --gpu-bind argument: gres/gpu:{value}", field="gpu_bind"),
    Option("gpu-freq", "", YES, help="frequency of GPUs", metavar="freq", convert=bind.gpu_freq, field="gpu_freq",
           invalid="Invalid --gpu-freq argument: gpu:{value}",
           note="clocks of GPUs are not changed, and the step gets a message"),
    Option("gpu-mem", "", YES, help="least memory of each GPU", metavar="MB", convert=read.memory("--gpu-mem"),
           field="gpu_mem_mb", own=True, note="not in Slurm"),
    Option("gpus", "G", YES, help="count of GPUs required for the job", metavar="n", convert=read.node_gpus),
    Option("gpus-per-node", "", YES, help="number of GPUs required per allocated node", metavar="n",
           convert=read.node_gpus),
    Option("gpus-per-socket", "", YES, help="number of GPUs required per socket (with --sockets-per-node)",
           metavar="n", convert=read.node_gpus),
    Option("gpus-per-task", "", YES, help="number of GPUs required per task", metavar="n",
           convert=read.node_gpus),
    Option("gres", "", YES, help="required generic resources", metavar="list", convert=read.gres,
           invalid="Invalid generic resource (gres) specification"),
    Option("gres-flags", "", YES, help="flags related to GRES management", metavar="opts", convert=read.gres_flags,
           note="free devices and cores near each other are always preferred; this does not enforce it"),
    Option("hint", "", YES, help="bind tasks according to hints; help lists them", metavar="type", convert=bind.hint,
           invalid='unrecognized --hint argument "{value}", see --hint=help'),
    Option("hold", "H", NO, help="submit job in held state", field="hold"),
    Option("input", "i", YES, help="file for batch script's standard input", metavar="in"),
    Option("job-name", "J", YES, help="name of job", metavar="jobname", convert=read.name("job name")),
    Option("kill-on-invalid-dep", "", YES, help="end the job when its dependency cannot be met", metavar="yes|no",
           convert=read.yes_no, field="kill_on_invalid_dep"),
    Option("licenses", "L", YES, help="required license, comma separated", metavar="names",
           convert=read.checked(read.licenses, "licenses"), invalid="Invalid license specification", field="licenses"),
    Option("mail-type", "", YES, help="notify on state change: NONE, BEGIN, END, FAIL, REQUEUE, ALL, INVALID_DEPEND, "
           "STAGE_OUT, TIME_LIMIT[_90|_80|_50], ARRAY_TASKS", metavar="type", convert=read.mail_types,
           field="mail_types"),
    Option("mail-user", "", YES, help="who to send email notification for job state changes", metavar="user",
           convert=read.mail_user, field="mail_user"),
    Option("mcs-label", "", YES, help="mcs label, where the site uses them", metavar="mcs",
           convert=read.name("mcs label"), field="mcs_label"),
    Option("mem", "", YES, help="minimum amount of real memory per node", metavar="MB", convert=read.memory("--mem"),
           field="mem_per_node_mb"),
    Option("mem-bind", "", YES, help="bind memory to locality domains; help lists how", metavar="type",
           convert=bind.mem_bind, invalid='unrecognized --mem-bind argument "{value}"', field="mem_bind"),
    Option("mem-per-cpu", "", YES, help="real memory per allocated cpu", metavar="MB",
           convert=read.memory("--mem-per-cpu"), field="mem_per_cpu_mb"),
    Option("mem-per-gpu", "", YES, help="real memory per allocated GPU", metavar="MB",
           convert=read.memory("--mem-per-gpu"), field="mem_per_gpu_mb"),
    _count("mincpus", "", "mincpus", "least number of CPUs of a node"),
    Option("network", "", YES, help="specify information pertaining to the network", metavar="type",
           convert=read.name("network"), field="network", status=ACCEPTED, note="there is nothing to choose"),
    Option("nice", "", MAYBE, help="decrease scheduling priority by value", const=NICE_DEFAULT,
           convert=read.nice, invalid="Invalid --nice value", field="nice"),
    Option("no-kill", "k", MAYBE, help="do not end the job when a node of it fails", metavar="off",
           convert=read.no_kill, field="no_kill"),
    Option("no-requeue", "", NO, help="do not permit the job to be requeued", dest="requeue", const=False),
    Option("node-fail-policy", "", YES, metavar="stop|keep", convert=read.node_fail_policy, field="node_fail_policy",
           help="when the node cannot be reached: stop: the job stops and runs again elsewhere; keep: it continues",
           own=True, note="not in Slurm"),
    Option("nodefile", "F", YES, help="request the hosts named in a file", metavar="filename", dest="nodelist",
           convert=read.node_file, invalid="Invalid --nodefile node file", field="nodes_required"),
    Option("nodelist", "w", YES, help="request a specific list of hosts", metavar="hosts...",
           convert=read.late(read.host_list), field="nodes_required"),
    Option("nodes", "N", YES, help="number of nodes on which to run (N = min[-max])", metavar="N", convert=read.nodes,
           invalid='"{value}" is not a valid node count'),
    _count("ntasks", "n", "ntasks", "number of tasks to run", "ntasks"),
    _count("ntasks-per-core", "", "ntasks_per_core", "most tasks on a core"),
    _count("ntasks-per-gpu", "", "ntasks_per_gpu", "number of tasks to invoke for each GPU"),
    _count("ntasks-per-node", "", "ntasks_per_node", "number of tasks to invoke on each node"),
    _count("ntasks-per-socket", "", "ntasks_per_socket", "most tasks for each socket of a node"),
    Option("ntasks-per-tres", "", YES, help="the same as --ntasks-per-gpu", metavar="n", dest="ntasks_per_gpu",
           convert=read.number("--ntasks-per-tres", 1), field="ntasks_per_gpu"),
    Option("oom-kill-step", "", MAYBE, help="end the whole step when a task of it runs out of memory", metavar="0|1",
           convert=read.zero_one, field="oom_kill_step"),
    Option("open-mode", "", YES, help="how output files are opened", metavar="append|truncate", convert=read.open_mode),
    Option("output", "o", YES, help="file for batch script's standard output", metavar="out"),
    Option("overcommit", "O", NO, help="more tasks than CPUs: CPUs are taken for one task a node", field="overcommit"),
    Option("oversubscribe", "s", NO, help="over subscribe resources with other jobs", dest=SHARED,
           const=OVERSUBSCRIBE),
    Option("partition", "p", YES, help="partition requested", metavar="partition", convert=read.partitions,
           field="partitions"),
    Option("power", "", YES, help="power management options", metavar="flags", status=ACCEPTED,
           note="power is not managed by job"),
    Option("prefer", "", YES, help="features to try before those of --constraint", metavar="list",
           convert=read.checked(read.features, "preferred features"), invalid="Invalid feature specification",
           field="prefer"),
    Option("priority", "", YES, help="set the priority of the job to value", convert=read.priority, field="priority"),
    Option("profile", "", YES, help="detailed data of the job: all, none, energy, task, lustre, network",
           convert=read.profile, invalid="invalid --profile={value} option", field="profile",
           note="a profile is always kept, of everything; none: it is not"),
    Option("propagate", "", MAYBE, help="propagate all [or specific list of] rlimits", metavar="rlimits", const="ALL"),
    Option("qos", "q", YES, help="quality of service", metavar="qos", convert=read.name("QOS"), field="qos"),
    Option("reboot", "", NO, help="reboot compute nodes before starting job", field="reboot",
           note="for administrators; without RebootProgram the job starts at once"),
    Option("requeue", "", MAYBE, help="permit the job to be requeued; expedite: with the highest priority, when its node "
           "fails", metavar="expedite", convert=read.requeue),
    Option("reservation", "", YES, help="allocate resources from named reservations", metavar="names",
           convert=read.name("reservation"), field="reservation"),
    Option("resources", "", YES, help="resources of a hierarchy", metavar="list", status=REFUSED,
           note="--licenses requests hierarchical resources, too"),
    Option("resv-ports", "", MAYBE, help="reserve communication ports", metavar="count", const=1,
           convert=read.number("--resv-port", 0), field="resv_ports"),
    Option("segment", "", YES, help="nodes of one segment inside a block", metavar="n",
           convert=read.number("--segment", 1), field="segment"),
    Option("signal", "", YES, help="signal before the time limit", metavar="[[R][B]:]num[@time]", convert=read.signal,
           field="signal"),
    _count("sockets-per-node", "", "sockets_per_node", "least number of sockets of a node", "S"),
    Option("spread-job", "", NO, help="spread the job over as many nodes as possible", field="spread_job"),
    Option("spread-segments", "", NO, help="place each segment of a job in a block of its own", status=ACCEPTED,
           note="segments are packed into as few blocks as possible"),
    Option("stepmgr", "", NO, help="manage the job's steps on its first node", status=ACCEPTED,
           note="the controller creates all steps, and is fast enough"),
    Option("switches", "", YES, help="maximum number of leaf switches, and how long to wait for them",
           metavar="count[@max-time]", convert=read.switches),
    Option("thread-spec", "", YES, help="count of reserved threads", metavar="threads",
           convert=read.number("--thread-spec", 1), field="thread_spec",
           note="as in Slurm, ignored without AllowSpecResourcesUsage"),
    _count("threads-per-core", "", "threads_per_core", "least number of threads of a core; the job uses this many", "T"),
    Option("time", "t", YES, help="time limit", metavar="minutes", convert=read.time_limit, field="time_limit_s"),
    Option("time-min", "", YES, help="minimum time limit (if distinct)", metavar="minutes", convert=read.time_min,
           field="time_min_s"),
    Option("tmp", "", YES, help="least size of a node's temporary disk", metavar="MB", convert=read.memory("--tmp"),
           field="tmp_disk_mb"),
    Option("tres-bind", "", YES, help="the same as --gpu-bind, as gres/gpu:TYPE", metavar="type", dest="gpu_bind",
           convert=bind.tres_bind, field="gpu_bind"),
    Option("tres-per-task", "", YES, help="cpu=N and gres/NAME=N of each task", metavar="list",
           convert=read.tres_per_task),
    Option("uid", "", YES, help="user ID to run job as (user root only)", metavar="user_id", convert=read.user,
           field="run_as_uid"),
    Option("use-min-nodes", "", NO, help="of a range of nodes prefer the smaller number", field="use_min_nodes"),
    Option("wait-all-nodes", "", YES, help="start when all nodes are ready", metavar="0|1",
           convert=read.number("--wait-all-nodes", 0, 1),
           field="wait_all_nodes", note="all nodes are always waited for"),
    Option("wckey", "", YES, help="wckey to run job under", metavar="wckey", convert=read.name("wckey"),
           field="wckey"),
)  # fmt: skip

#: By key, the fields that take a value unchanged.
FIELDS = {option.key: option.field for option in JOB_OPTIONS if option.field}

#: Options that mean nothing to a job without a script: salloc and srun do not have them.
SBATCH_ONLY = frozenset(
    ("array", "batch", "error", "input", "output", "open-mode", "export", "export-file", "requeue", "no-requeue",
     "propagate")
)  # fmt: skip
IMMEDIATE = Option("immediate", "I", MAYBE, help="fail if the resources are not available within this many seconds",
                   metavar="secs", const=0, convert=read.immediate, field="immediate_s")  # fmt: skip


def allocation_options() -> tuple[Option, ...]:
    """The options of a job that runs no script."""
    return (*(o for o in JOB_OPTIONS if o.name not in SBATCH_ONLY), IMMEDIATE)
