"""Applies Slurm's defaults to a submission: counts, memory, time and file names.

Rules (man sbatch): no -n = one task a node; -n without -N = as many nodes as needed, at most one a task; -N with
fewer tasks than nodes = as many nodes as tasks, with a warning; --ntasks-per-node sets the number of nodes or of
tasks, whichever is missing; with --overcommit CPUs are taken for one task a node; memory is in queue/memory.py. Numbers are
checked against ranges here, so that no sum can overflow a column.
"""

from operator import attrgetter

import msgspec

from ctld.core.demand import specialized
from ctld.core.gpus import counts as gpu_counts
from ctld.core.gpus.kinds import can_be_asked
from ctld.core.jobs.sharing import gives_whole_nodes
from ctld.core.queue import hres, mcs, memory
from ctld.core.queue.qos import DEFAULT_QOS
from ctld.core.records.compact_request import compact
from ctld.core.records.effects import Refused
from ctld.core.records.events import JobSubmission
from ctld.core.records.node import Partition
from ctld.core.records.request import JobRequest
from ctld.core.records.request_fields import UnchangedFields
from ctld.core.state.shares import GPU, conflict
from ctld.core.state.state import ClusterState
from penstock.values.acctg import task_interval_s
from penstock.values.errors import BadValue
from penstock.values.features import parse_features
from penstock.values.filenames import default_output
from penstock.values.hostlist import expand
from penstock.values.jobkind import JobKind
from penstock.values.licenses import format_licenses, parse_licenses
from penstock.values.mail import parse_mail_types, parse_mail_user
from penstock.values.refusals import Code
from penstock.values.signals import parse_end_warning
from penstock.values.tracecontext import checked_traceparent

#: Largest count of anything in a request: far above any cluster, far below the columns' 32 bits.
COUNT_MAX = 16_000_000
#: Longest time limit that is not UNLIMITED: a hundred years.
TIME_LIMIT_S_MAX = 3_153_600_000
MEM_MB_MAX = 1 << 40
COUNTS = (
    "nodes_min", "nodes_max", "ntasks", "cpus_per_task", "ntasks_per_node", "switches_max", "sockets_per_node",
    "cores_per_socket", "threads_per_core", "mincpus", "ntasks_per_core", "ntasks_per_socket", "ntasks_per_gpu",
    "cpus_per_gpu", "resv_ports",
)  # fmt: skip
#: Fields that are copied into the request unchanged: the first ones of both classes, by position, which takes a fifth
#: of the time of copying by name.
_unchanged = attrgetter(*UnchangedFields.__struct_fields__)


def complete(
    state: ClusterState, partitions: tuple[Partition, ...], wanted: JobSubmission
) -> tuple[JobRequest, tuple[str, ...]]:
    """Fills in the defaults. Returns the request and warnings. Raises Refused or BadValue."""
    _check_ranges(state, wanted)
    wanted, ignored = specialized.permitted(state.config, wanted)
    cpus_per_task_asked, nodes_asked = bool(wanted.cpus_per_task), bool(wanted.nodes_min)
    wanted, memory_asked = memory.with_cpus(state, partitions[0], wanted)
    if partitions[0].config.over_subscribe.startswith("FORCE") and not wanted.exclusive:
        wanted = msgspec.structs.replace(wanted, oversubscribe=True)  # its jobs show OverSubscribe=YES
    required, excluded = _node_lists(state, partitions, wanted)
    wanted = gpu_counts.spread(state, partitions[0], _per_gpu(state, partitions[0], wanted), len(required))
    nodes_min, nodes_max, ntasks, warnings = _counts(wanted, len(required))
    ntasks_over = ntasks if wanted.overcommit and ntasks > nodes_min else 0
    if ntasks_over and not wanted.nodes_min and not wanted.spread_job:
        nodes_max = nodes_min
    mem_node, mem_cpu = memory.of_job(state, partitions[0], wanted)
    _check_words(state, wanted)
    _check_acctg_freq(state, wanted.acctg_freq, bool(mem_node or mem_cpu))
    kind = _kind(wanted)
    share = state.submissions.share  # equal values of many jobs share one object
    request = JobRequest(  # type: ignore[misc]  # mypy thinks that the star is all fields
        *_unchanged(wanted),
        name=wanted.name or (kind.name.lower() if kind else "sbatch"),
        partitions=share(tuple(p.name for p in partitions)),
        account=share(wanted.account),
        qos=share(find_qos(state, wanted.qos)),
        work_dir=share(wanted.work_dir or b"/"),
        std_out=share(wanted.std_out or default_output(bool(wanted.array))),
        open_append=wanted.open_append or (state.config.job_file_append and not wanted.open_truncate),
        time_limit_s=_time_limit(partitions[0], wanted),
        nodes_min=nodes_min,
        nodes_max=nodes_max,
        nodes_asked=nodes_asked,
        ntasks=nodes_min if ntasks_over else ntasks,
        ntasks_over=ntasks_over,
        ntasks_asked=bool(wanted.ntasks) and not ntasks_over,
        cpus_per_task=wanted.cpus_per_task or 1,
        cpus_per_task_asked=cpus_per_task_asked,
        memory_asked=memory_asked,
        mem_per_node_mb=mem_node,
        mem_per_cpu_mb=mem_cpu,
        gres_per_node=share(_gres(state, wanted)),
        nodes_required=share(required),
        nodes_excluded=share(excluded),
        exclusive=wanted.exclusive or all(gives_whole_nodes(partition) for partition in partitions),
        requeue=not kind and (state.config.job_requeue if wanted.requeue is None else wanted.requeue),
        kind=kind,
        rlimits=share(_rlimits(state, wanted)),
        kill_on_invalid_dep=_kills_on_invalid_dep(state, wanted),
        export_env=share(wanted.export_env),
        submit_host=share(wanted.submit_host),
        submit_dir=share(wanted.submit_dir or wanted.work_dir),
        command=share(wanted.command),
        wckey=share(wanted.wckey),
        signal=share(_end_warning(wanted)),
        licenses=share(check_licenses(state, wanted.licenses)),
        reservation=share(wanted.reservation),
        segment=_segment(wanted.segment, nodes_min, wanted),
        exclusive_user=wanted.exclusive_user or partitions[0].config.exclusive_user,
        exclusive_topo=wanted.exclusive_topo or partitions[0].config.exclusive_topo,
        mail_user=parse_mail_user(wanted.mail_user),
        mail_types=share(parse_mail_types(",".join(wanted.mail_types))) if wanted.mail_types else (),
        trace_parent=checked_traceparent(wanted.trace_parent),
        core_spec=wanted.core_spec,
        thread_spec=wanted.thread_spec,
        mcs_label=share(wanted.mcs_label),
        apart_label=share(wanted.mcs_label) if mcs.is_kept_apart(state.config, wanted) else "",
    )
    return compact(request), (*ignored, *warnings)


def _per_gpu(state: ClusterState, partition: Partition, wanted: JobSubmission) -> JobSubmission:
    """Adds the site's CPUs and memory for each GPU, where the job has GPUs and does not give them (DefCpuPerGPU,
    DefMemPerGPU)."""
    config, site = partition.config, state.config
    cpus, mem_mb = config.def_cpu_per_gpu or site.def_cpu_per_gpu, config.def_mem_per_gpu_mb or site.def_mem_per_gpu_mb
    if not (cpus or mem_mb or site.gpu_freq_def):
        return wanted
    counts = (*wanted.gres_per_node, *wanted.gres_per_job, *wanted.gres_per_task)
    if not any(name == GPU for name, _, _ in counts):
        return wanted
    if cpus and not wanted.cpus_per_task and not wanted.cpus_per_gpu:
        wanted = msgspec.structs.replace(wanted, cpus_per_gpu=cpus)
    said = (wanted.mem_per_node_mb, wanted.mem_per_cpu_mb, wanted.mem_per_gpu_mb)
    if site.gpu_freq_def and not wanted.gpu_freq:
        wanted = msgspec.structs.replace(wanted, gpu_freq=site.gpu_freq_def)
    if mem_mb and site.memory_is_consumable() and said == (None, None, None):
        wanted = msgspec.structs.replace(wanted, mem_per_gpu_mb=mem_mb)
    return wanted


def _rlimits(state: ClusterState, wanted: JobSubmission) -> tuple[tuple[str, int], ...]:
    """Returns the resource limits to propagate: those that --propagate named, else those that the site allows."""
    return wanted.rlimits if wanted.propagate_asked else let_through(state, wanted.rlimits)


def let_through(state: ClusterState, rlimits: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Returns the limits that PropagateResourceLimits[Except] allows."""
    only, but = state.config.propagate_resource_limits, state.config.propagate_resource_limits_except
    if but:
        words = but.split(",")
        return () if "ALL" in words else tuple(pair for pair in rlimits if pair[0] not in words)
    words = only.split(",")
    return rlimits if "ALL" in words else tuple(pair for pair in rlimits if pair[0] in words)


def _kills_on_invalid_dep(state: ClusterState, wanted: JobSubmission) -> bool:
    return wanted.kill_on_invalid_dep or state.config.has_word("dependency_parameters", "kill_invalid_depend")


def _kind(wanted: JobSubmission) -> JobKind:
    try:
        kind = JobKind(wanted.kind)
    except ValueError:
        raise Refused(Code.NOT_SUPPORTED, f"jobs of kind {wanted.kind}") from None
    if kind and wanted.array:
        raise Refused(Code.INVALID_ARRAY, "only a batch job can be an array")
    return kind


def find_qos(state: ClusterState, name: str) -> str:
    """Returns the QOS of that name; the default for none. Raises Refused."""
    found = name.lower() or DEFAULT_QOS
    if found not in state.qos:
        raise Refused(Code.INVALID_QOS, name)
    return found


def _end_warning(wanted: JobSubmission) -> str:
    if wanted.signal:
        parse_end_warning(wanted.signal)
    return wanted.signal


def _check_words(state: ClusterState, wanted: JobSubmission) -> None:
    """Checks texts with a syntax of their own that are copied into the request unchanged."""
    for text in filter(None, (wanted.features, wanted.prefer)):
        check_features(state, text)
    _check_batch(wanted)


def _check_acctg_freq(state: ClusterState, text: str, has_memory: bool) -> None:
    """Refuses to sample a job with a memory limit less often than the site does (sbatch(1))."""
    if not text:
        return
    asked_s, site_s = task_interval_s(text), state.config.job_acct_gather_frequency_s
    if has_memory and site_s and asked_s is not None and not 0 < asked_s <= site_s:
        raise Refused(Code.INVALID_ACCTG_FREQ, f"{asked_s} seconds, JobAcctGatherFrequency is {site_s}")


def _check_batch(wanted: JobSubmission) -> None:
    if not wanted.batch_features:
        return
    if parse_features(wanted.batch_features).names() - parse_features(wanted.features).names():
        raise Refused(Code.INVALID_BATCH_FEATURES)
    if wanted.segment:
        raise Refused(Code.NOT_SUPPORTED, "--segment together with --batch")


def check_features(state: ClusterState, text: str) -> None:
    """Raises Refused for a feature that no node has, BadValue for a text that is no constraint."""
    wanted = parse_features(text).names()
    known = {f for node in state.node_list for f in node.features} if wanted else set()
    for name in sorted(wanted - known):
        raise Refused(Code.INVALID_FEATURE, name)


def check_licenses(state: ClusterState, text: str) -> str:
    """Returns the requested licenses, checked against the cluster's. Raises Refused."""
    if not text:
        return ""
    words = {name: pool.variables for name, pool in state.layout.hres.items()}
    try:
        wanted = parse_licenses(text, words)
    except BadValue as problem:
        raise Refused(Code.INVALID_LICENSES, str(problem)) from None
    for name, count in wanted:
        pool = state.layout.hres.get(name)
        if pool is not None:
            if not hres.is_enough(pool, count):
                raise Refused(Code.INVALID_LICENSES, f"{name}:{count}, no layer of {name} has so many")
            continue
        if name not in state.layout.license_kinds:
            raise Refused(Code.INVALID_LICENSES, name)
        if count > state.layout.license_totals[name]:
            raise Refused(Code.INVALID_LICENSES, f"{name}:{count}, the cluster has {state.layout.license_totals[name]}")
    return format_licenses(wanted)


def _segment(segment: int, nodes_min: int, wanted: JobSubmission) -> int:
    if not 0 <= segment <= COUNT_MAX or (segment and nodes_min % segment):
        raise Refused(Code.INVALID_NODE_COUNT, f"--segment={segment} must divide the number of nodes, {nodes_min}")
    if segment and (wanted.nodes_required or wanted.features.count("*")):
        raise Refused(Code.NOT_SUPPORTED, "--segment together with --nodelist or counted features")
    return segment


def _check_ranges(state: ClusterState, wanted: JobSubmission) -> None:
    for text in (wanted.features, wanted.prefer, wanted.batch_features, wanted.licenses):
        state.handling.allowance.spend(
            len(text)
        )  # parsed character by character, for each component of a heterogeneous job
    for what in COUNTS:
        value = getattr(wanted, what)
        if not 0 <= value <= COUNT_MAX:
            raise Refused(Code.INVALID_VALUE, f"{what} must be between 1 and {COUNT_MAX}, not {value}")
    for what in ("mem_per_node_mb", "mem_per_cpu_mb", "mem_per_gpu_mb", "tmp_disk_mb", "gpu_mem_mb"):
        value = getattr(wanted, what)
        if value is not None and not 0 <= value <= MEM_MB_MAX:
            raise Refused(Code.INVALID_TASK_MEMORY, f"{what} must be between 0 and {MEM_MB_MAX}, not {value}")
    if wanted.nodes_max and wanted.nodes_max < wanted.nodes_min:
        raise Refused(Code.INVALID_NODE_COUNT, f"{wanted.nodes_min}-{wanted.nodes_max}")
    if sum(getattr(wanted, f"mem_per_{of}_mb") is not None for of in ("node", "cpu", "gpu")) > 1:
        raise Refused(Code.INVALID_TASK_MEMORY, "--mem, --mem-per-cpu and --mem-per-gpu exclude each other")
    check_limit(state, wanted)


def check_limit(state: ClusterState, wanted: JobSubmission) -> None:
    """Checks the time limit, --time-min and --deadline. Raises Refused."""
    limit, least = wanted.time_limit_s, wanted.time_min_s
    if not 0 <= least <= TIME_LIMIT_S_MAX or (least and limit is not None and 0 < limit < least):
        raise Refused(Code.INVALID_TIME_MIN, f"--time-min of {least} seconds is more than --time")
    deadline_us, begin_us = wanted.deadline_at_us, max(state.now_us, wanted.begin_at_us)
    if deadline_us and begin_us >= deadline_us:
        raise Refused(Code.INVALID_TIME_LIMIT, "the deadline would have passed")
    if deadline_us and least and begin_us + least * 1_000_000 > deadline_us:
        raise Refused(Code.INVALID_TIME_MIN, "the deadline would have passed")
    if limit is not None and limit != -1 and not 0 < limit <= TIME_LIMIT_S_MAX:
        raise Refused(Code.INVALID_TIME_LIMIT, f"{limit} seconds")


def _counts(wanted: JobSubmission, required: int) -> tuple[int, int, int, tuple[str, ...]]:
    """Computes (nodes_min, nodes_max, ntasks, warnings)."""
    per_node, warnings = wanted.ntasks_per_node, []
    nodes_min = max(wanted.nodes_min, required)
    ntasks = wanted.ntasks
    if ntasks and per_node and not wanted.nodes_min:
        nodes_min = max(nodes_min, -(-ntasks // per_node))
    if not ntasks:
        ntasks = max(1, nodes_min) * (per_node or 1)
    nodes_max = max(wanted.nodes_max, nodes_min) if wanted.nodes_min else max(ntasks, nodes_min)
    if ntasks < nodes_min and not required:
        warnings.append(f"can't run {ntasks} processes on {nodes_min} nodes, setting nnodes to {ntasks}")
        nodes_min = nodes_max = ntasks
    if not wanted.nodes_max and wanted.nodes_min:
        nodes_max = nodes_min
    if per_node and nodes_max * per_node < ntasks:
        code = Code.REQUESTED_NODE_CONFIG_UNAVAILABLE
        raise Refused(code, f"{ntasks} tasks at {per_node} a node need more than {nodes_max} nodes")
    return max(1, nodes_min), max(1, nodes_max), max(ntasks, required, 1), tuple(warnings)


def _nodes(state: ClusterState, text: str) -> tuple[str, ...]:
    """Returns the nodes of a list. Components of a heterogeneous job often have the same one."""
    if not text:
        return ()
    found = state.handling.expanded.get(text)
    if found is not None:
        state.handling.allowance.spend(len(found))
        return found
    found = tuple(dict.fromkeys(expand(text, state.handling.allowance)))
    for name in found:
        if name not in state.nodes:
            raise Refused(Code.INVALID_NODE_NAME, name)
    state.handling.expanded[text] = found
    return found


def _node_lists(
    state: ClusterState, partitions: tuple[Partition, ...], wanted: JobSubmission
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    required, excluded = _nodes(state, wanted.nodes_required), _nodes(state, wanted.nodes_excluded)
    for name in required:
        if name in excluded:
            raise Refused(Code.INVALID_NODE_NAME, f"{name} is both required and excluded")
        if not any(p.node_bits >> state.nodes[name].index & 1 for p in partitions):
            raise Refused(Code.REQUESTED_NODES_NOT_IN_PARTITION, name)
    return required, excluded


def _gres(state: ClusterState, wanted: JobSubmission) -> tuple[tuple[str, str, int], ...]:
    asked = check_gres(state, wanted.gres_per_node)
    if wanted.gpu_mem_mb and not any(name == GPU for name, _, _ in asked):
        raise Refused(Code.INVALID_GRES, "--gpu-mem needs whole GPUs: --gpus, --gpus-per-node, --gres")
    return asked


def check_gres(state: ClusterState, wanted: tuple[tuple[str, str, int], ...]) -> tuple[tuple[str, str, int], ...]:
    """Returns the requested GRES on each node, by kind. Raises Refused."""
    found: dict[tuple[str, str], int] = {}
    for name, type_, count in wanted:
        if not can_be_asked(state, name, type_):
            raise Refused(Code.INVALID_GRES, f"{name}:{type_}" if type_ else name)
        if not 0 <= count <= COUNT_MAX:
            raise Refused(Code.INVALID_GRES, f"{name}:{count}")
        found[name, type_] = found.get((name, type_), 0) + count
    asked = tuple((name, type_, count) for (name, type_), count in found.items() if count)
    if problem := conflict(asked):
        raise Refused(Code.INVALID_GRES, problem)
    return asked


def _time_limit(partition: Partition, wanted: JobSubmission) -> int:
    if wanted.time_limit_s is not None:
        return wanted.time_limit_s
    return int(partition.config.default_time_s or partition.config.max_time_s)
