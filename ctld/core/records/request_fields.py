"""The common fields of a submission (`JobSubmission`) and of the request made from it (`JobRequest`), each declared
once.

Names are those of the wire's JobRequest. None = not given.

A field belongs to the first class unless admission (queue/defaults.py) processes its value. A field that is text in a
submission and names in a request, or has another default there, is declared in both classes and not here.

Requests are stored as JSON in the database, by name: a field is only ever added, with a default.
"""

import msgspec


class UnchangedFields(msgspec.Struct, frozen=True, gc=False):
    """The fields that are copied from the submission to the request unchanged: a new field of this kind is declared
    here only."""

    comment: str = ""
    std_err: bytes = b""
    std_in: bytes = b""
    begin_at_us: int = 0
    ntasks_per_node: int = 0
    features: str = ""
    dependency: str = ""
    array: str = ""
    nice: int = 0
    umask: int | None = None
    submit_line: str = ""
    gpus_per_node_asked: bool = False  # by --gpus-per-node, not by --gres
    switches_max: int = 0  # --switches; 0 = any
    switches_wait_s: int = 0
    time_min_s: int = 0  # --time-min: the least acceptable limit; 0 = not given
    deadline_at_us: int = 0
    priority: int | None = None  # set by hand, and kept; None = computed
    prefer: str = ""  # features that are tried before `features`
    sockets_per_node: int = 0  # of a node, at least; 0 = any
    cores_per_socket: int = 0
    threads_per_core: int = 0  # the threads of each core that are used
    mincpus: int = 0  # cpus of a node, at least
    tmp_disk_mb: int = 0
    ntasks_per_core: int = 0  # at most; 0 = any
    ntasks_per_socket: int = 0
    spread_job: bool = False  # over as many nodes as possible
    use_min_nodes: bool = False  # of a range of nodes preferably the fewest
    overcommit: bool = False
    immediate_s: int | None = None
    gres_per_job: tuple[tuple[str, str, int], ...] = ()  # as requested; `gres_per_node` is the result
    gres_per_task: tuple[tuple[str, str, int], ...] = ()
    ntasks_per_gpu: int = 0
    cpus_per_gpu: int = 0
    mem_per_gpu_mb: int | None = None
    resv_ports: int = 0
    distribution: str = ""  # of its steps, as written
    no_kill: bool = False  # continues when one of its nodes fails
    wait_all_nodes: bool = False
    node_fail_policy: str = ""  # stop or keep: while the controller is unreachable; "" = the site's setting
    mpi: str = ""
    cpu_bind: str = ""
    mem_bind: str = ""
    gpu_bind: str = ""
    network: str = ""
    gpu_mem_mb: int = 0  # minimum of every GPU; 0 = any
    gpu_freq: str = ""
    gres_per_socket: tuple[tuple[str, str, int], ...] = ()
    gres_sockets: int = 0
    contiguous: bool = False
    oversubscribe: bool | None = None
    extra: str = ""
    batch_features: str = ""  # of the node that runs the script
    get_user_env: bool = False
    acctg_freq: str = ""
    oom_kill_step: bool | None = None
    reboot: bool = False
    delay_boot_s: int | None = None
    exclusive_mcs: bool = False
    expedite: bool = False  # requeued after a failure of its node, it precedes all others
    container: str = ""
    cpu_freq: str = ""
    profile: str = ""  # --profile as written


class RequestFields(UnchangedFields, frozen=True, gc=False):
    """The fields that admission completes from the configuration, normalises, or shares between jobs with equal values."""

    name: str = ""
    partitions: tuple[str, ...] = ()
    account: str = ""
    qos: str = ""
    std_out: bytes = b""
    open_append: bool = False
    time_limit_s: int | None = None
    mem_per_node_mb: int | None = None  # 0 = all of the node's memory
    mem_per_cpu_mb: int | None = None
    gres_per_node: tuple[tuple[str, str, int], ...] = ()  # (name, type, count)
    exclusive: bool = False
    rlimits: tuple[tuple[str, int], ...] = ()
    kill_on_invalid_dep: bool = False
    export_env: str = ""
    submit_host: str = ""
    submit_dir: bytes = b""
    command: str = ""
    wckey: str = ""
    exclusive_user: bool = False
    exclusive_topo: bool = False  # no other job on the leaf switches (or blocks) of its nodes
    licenses: str = ""
    segment: int = 0
    signal: str = ""  # --signal as written: signal and time before the limit
    reservation: str = ""  # --reservation as written: names with commas, any of which is acceptable
    mail_types: tuple[str, ...] = ()  # penstock.values.mail
    mail_user: str = ""  # "" = the job's owner
    trace_parent: str = ""  # the trace context of the submission (penstock.values.tracecontext); "" = none
    core_spec: int | None = None  # cores of a node reserved for the system
    thread_spec: int | None = None
    mcs_label: str = ""
