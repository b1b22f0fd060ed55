"""Builds the requests of srun from its options: a step, and the job around it if there is none.

The source of a value matters: options of this step (command line) and those of its job (SLURM_* variables) may
contradict each other. Then the step's options win, as in Slurm:
    - fewer tasks than nodes: fewer nodes, with a warning;
    - a job's tasks per node that contradict the step's tasks and nodes are ignored, with a warning;
    - devices of the job's options are not requested if the step requests devices. The job's numbers of GPUs and of
      tasks remain, also for a step with its own number of nodes.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cli.base.environment import current_umask, export_text, soft_limits, trace_parent
from cli.base.options import Command, OptionValues, parse
from cli.base.run import CommandError
from cli.filters.hooks import OptionFilters
from cli.jobs.bindwords import hint
from cli.jobs.hostfile import apply_hostfile, is_arbitrary
from cli.jobs.jobopts import FOR_ALLOCATION, OVERSUBSCRIBE, SHARED, environment_values
from cli.jobs.jobrequest import (
    counts,
    current_folder,
    job_request,
    merge,
    open_for_job,
    put_fields,
    shown,
    submit_line,
)
from cli.jobs.jobwords import devices
from cli.steps.console import Mode, parse_mode
from cli.steps.stepopts import JOB, OTHER_VARIABLES, STEP, STRONGER, SluidJob
from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.v1.common_pb2 import SRUN, JobRequest
from penstock.v1.steps_pb2 import StepSpec
from penstock.values.filenames import PATH_BYTES_MAX

if TYPE_CHECKING:
    from cli.steps.multiprog import RankProgram
    from penstock.v1.controller_pb2 import SubmitJobRequest

#: With these and a number of GPUs the number of tasks follows.
TASKS_FOLLOW_KEYS = ("gpus_per_task", "tres_per_task", "ntasks_per_gpu")
DEVICE_KEYS = ("gres", "gpus", "gpus_per_node", "gpus_per_task", "gpus_per_socket", "tres_per_task")
#: An interactive step is one shell on the job's first node, whatever the tasks of its job.
COUNT_KEYS = (
    "ntasks_per_node", "ntasks_per_core", "ntasks_per_socket", "ntasks_per_gpu", "nodelist", "exclude", "cpus_per_task",
    "distribution", "mem", "mem_per_cpu", *DEVICE_KEYS,
)  # fmt: skip
#: Options of the job that a step does not inherit, besides those of allocations only.
OF_THE_JOB = ("job_name", "time", "licenses", "signal")
#: Slurm's numbers for the recipients of standard input.
STDIN_TO_FIRST, STDIN_TO_ALL, STDIN_TO_NONE, STDIN_TO_ONE = range(4)


#: By key, the step's fields that take a value unchanged. --time applies to the step only if given for it.
STEP_FIELDS = {
    o.key: o.field for o in (*JOB, *STEP) if o.field in StepSpec.DESCRIPTOR.fields_by_name and o.name != "time"
}


class Streams(NamedTuple):
    """The destinations and sources of the three streams of a step."""

    out: Mode
    err: Mode
    input: Mode
    append: bool


class StepValues(NamedTuple):
    """All options in force, and those given for this step."""

    all: OptionValues
    own: OptionValues


def read_values(command: Command, argv: list[str], env: Mapping[str, str]) -> tuple[StepValues, list[str]]:
    """Reads the command line, with the environment for defaults; returns the remaining words, too."""
    line = parse(command, argv)
    own = line.values
    inherited = environment_values(command, "SLURM_", _with_old_names(env))
    if any(key in own for key in DEVICE_KEYS):
        for key in DEVICE_KEYS:
            inherited.pop(key, None)
    if "SLURM_JOB_ID" in env or "jobid" in own:
        inherited.pop("tres_per_task", None)  # as in SLURM_GPUS_PER_TASK; its CPUs do not apply to steps
        inherited.pop("gpus_per_socket", None)  # the job has them; a step does not know its sockets
        for key in OF_THE_JOB:
            inherited.pop(key, None)
        if "pack" in merge(inherited, own).text("distribution").lower().split(","):
            inherited.pop("nodes", None)  # as few of the job's nodes as suffice
    found = merge(inherited, own)
    apply_hostfile(found, env)
    return StepValues(found, own), line.positional


def _with_old_names(env: Mapping[str, str]) -> dict[str, str]:
    known = dict(env)
    for other, name in OTHER_VARIABLES.items():
        if other in known and (name not in known or other in STRONGER):
            known[name] = known[other]
    if "SLURM_JOB_ID" in known and "SLURM_STEP_GRES" in known:
        known["SLURM_GRES"] = known["SLURM_STEP_GRES"]
    if known.get("SLURM_DISTRIBUTION") == "plane" and "SLURM_DIST_PLANESIZE" in known:
        known["SLURM_DISTRIBUTION"] = f"plane={known['SLURM_DIST_PLANESIZE']}"
    return known


def settle_counts(values: StepValues, warn: Callable[[str], None]) -> None:
    """Makes the numbers of tasks and nodes consistent."""
    found = values.all
    ntasks = found.number("ntasks")
    if not ntasks or "nodes" not in found:
        return
    least, most = found.numbers("nodes")
    if ntasks < least:
        warn(f"can't run {ntasks} processes on {least} nodes, setting nnodes to {ntasks}")
        least = most = ntasks
        found["nodes"] = (least, most)
    each = found.number("ntasks_per_node")
    if each and ntasks > each * most:
        warn(
            f"can't honor --ntasks-per-node set to {each} which doesn't match the requested tasks {ntasks} with the "
            f"number of requested nodes {least}. Ignoring --ntasks-per-node."
        )
        del found["ntasks_per_node"]


def streams_of(values: StepValues) -> Streams:
    """The streams of the options; without --error stderr goes where stdout goes."""
    out = parse_mode(values.all.of(str, "output"))
    err = parse_mode(values.all.text("error")) if "error" in values.all else out
    given = values.all.of(str, "input")
    if given is None:
        input_ = Mode("task", 0) if "pty" in values.all else Mode("all")
    else:
        input_ = parse_mode(given)
    return Streams(out, err, input_, values.all.text("open_mode") == "append")


def step_spec(values: StepValues, command: list[str], argv: list[str], *, owns_job: bool) -> StepSpec:
    """Builds the request of the step. In a job created by srun it takes all of the job's resources."""
    found = OptionValues(values.all)
    _bind_gpus(found, owns_job)
    if owns_job:
        keeps_nodes = is_arbitrary(found)
        for key in ("mem", "mem_per_cpu", "exclude", "immediate", "signal", *DEVICE_KEYS):
            found.pop(key, None)
        if not keeps_nodes:
            found.pop("nodelist", None)
        elif "nodelist" in found:  # the job's CPUs are those of its tasks distributed in rounds
            found["overcommit"] = True
    if found.flag("interactive"):
        for key in COUNT_KEYS:
            found.pop(key, None)
        found |= {"nodes": (1, 1), "ntasks": 1, "relative": 0}
    spec = StepSpec()
    put_fields(spec, STEP_FIELDS, found)
    if "nodes" in found and not owns_job:
        spec.nodes_min, spec.nodes_max = found.numbers("nodes")
    if "time" in values.own and not owns_job:
        spec.time_limit_s = found.number("time")
    if found.get(SHARED, OVERSUBSCRIBE) not in (OVERSUBSCRIBE, FOR_ALLOCATION) and not owns_job:  # --exclusive
        spec.exact = True
    if "external_launcher" in found:  # as Open MPI requests: all of the job's resources, shared
        spec.overlap = True
        spec.whole = True
    _devices(spec, found)
    _paths(spec, values)
    spec.name = found.text("job_name") or _name_of(command)
    spec.export_env = export_text(found.text("export"))
    spec.submit_line = submit_line("srun", argv)
    spec.submit_host = os.uname().nodename
    spec.umask = current_umask()
    spec.rlimits.update(soft_limits(found.text("propagate")))
    spec.propagate_asked = bool(found.text("propagate"))
    groups = found.numbers("het_group")
    if len(groups) == 1:
        spec.het_group = groups[0]
    return spec


def follows_gpus(values: StepValues) -> bool:
    """Whether the number of tasks follows from the GPUs. In a job created by srun the controller has computed it."""
    return "ntasks" not in values.all and any(key in values.all for key in TASKS_FOLLOW_KEYS)


def _bind_gpus(found: OptionValues, owns_job: bool) -> None:
    """--ntasks-per-gpu=N implies --gpu-bind=single:N, --gpus-per-task=N per_task:N.

    The node handles the latter; but a step that has all of its own job does not carry per-task GPUs.
    """
    if "gpu_bind" not in found and found.flag("ntasks_per_gpu"):
        found["gpu_bind"] = f"single:{found.number('ntasks_per_gpu')}"
    if not owns_job:
        return
    asked = found.only("gpus_per_task", "tres_per_task")
    each = sum(gres.count for gres in job_request(asked).gres_per_task if gres.name == "gpu") if asked else 0
    if each and "gpu_bind" not in found:
        found["gpu_bind"] = f"per_task:{each}"


def _devices(spec: StepSpec, found: OptionValues) -> None:
    spec.no_gres = found.get("gres") == "none"
    job = job_request(found.only(*(key for key in DEVICE_KEYS if not isinstance(found.get(key), str))))
    spec.gres_per_node.extend(job.gres_per_node)
    spec.gres_per_socket.extend(job.gres_per_socket)
    spec.gres_per_step.extend(counts(devices(found, "gpus")))
    spec.gres_per_task.extend(job.gres_per_task)
    spec.cpus_per_task = spec.cpus_per_task or job.cpus_per_task


def _paths(spec: StepSpec, values: StepValues) -> None:
    spec.work_dir = work_dir(values)
    for key in ("task_prolog", "task_epilog"):
        if path := values.all.text(key):
            setattr(spec, key, os.path.join(current_folder(), os.fsencode(path)))
    streams = streams_of(values)
    spec.open_append = streams.append
    for mode, field in ((streams.out, "std_out"), (streams.err, "std_err")):
        if mode.kind in ("nodes", "none"):
            setattr(spec, field, os.fsencode(mode.path) or b"/dev/null")
    _client_files(spec, streams)
    _input(spec, streams.input)
    if "pty" in values.all:
        spec.pty = True
        if streams.out.kind != "all" or streams.err.kind != "all":
            raise CommandError("--pty cannot be used together with --output or --error")


def _client_files(spec: StepSpec, streams: Streams) -> None:
    """Names the files that srun writes itself, if it runs on a node of its job: there they can be read for the step."""
    node, folder = os.environ.get("SLURMD_NODENAME", ""), current_folder()
    if not node or "SLURM_JOB_ID" not in os.environ or b"\\" in folder:
        return
    for mode, field in ((streams.out, "client_out"), (streams.err, "client_err")):
        path = os.fsencode(mode.path)
        whole = os.path.join(folder if b"\\" in path else folder.replace(b"%", b"%%"), path)
        if mode.kind == "file" and len(whole) <= PATH_BYTES_MAX:
            setattr(spec, field, whole)
            spec.client_node = node


def _input(spec: StepSpec, mode: Mode) -> None:
    if mode.kind == "nodes":
        spec.std_in = os.fsencode(mode.path)
        spec.stdin_to = STDIN_TO_NONE
    elif mode.kind == "none":
        spec.stdin_to = STDIN_TO_NONE
    elif mode.kind == "task":
        spec.stdin_to = STDIN_TO_ONE if mode.task else STDIN_TO_FIRST
        spec.stdin_task = mode.task
    else:
        spec.stdin_to = STDIN_TO_ALL


def filtered(filters: OptionFilters, components: Sequence[StepValues]) -> list[StepValues]:
    """Returns the options of each component after the filters; what a filter has changed counts as given for the step."""
    found = filters.applied([values.all for values in components])
    return [
        StepValues(one.values, OptionValues({k: v for k, v in values.own.items() if k in one.values} | one.given))
        for one, values in zip(found, components, strict=True)
    ]


def open_client(
    values: StepValues, job_id: object, request: "Callable[[], SubmitJobRequest]", here: ClusterFile | None = None
) -> Client:
    """Opens a client of the cluster that --clusters names for a new job, or for a job outside of which srun runs. Inside the
    job its own cluster is the one. `here`: that without --clusters, if it is known.
    """
    if job_id and os.environ.get("SLURM_JOB_ID"):
        return Client.open(cluster=here)
    if job_id and values.all.text("clusters"):
        from cli.base.clusters import open_one

        return open_one("srun", values.all.text("clusters"))
    return open_for_job("srun", values.all, request, stays=True, here=here)


def check_job(client: Client, values: StepValues) -> None:
    """Raises CommandError for a SLUID in --jobid that is no job's: the id in it may be another job's."""
    job = values.all.get("jobid")
    if not isinstance(job, SluidJob):
        return
    from cli.base.jobids import is_known

    if not is_known(client, job.sluid):
        raise CommandError(f"Unable to confirm allocation for job {job.sluid}: Invalid job id specified")


def own_job(values: StepValues, command: list[str], argv: list[str]) -> JobRequest:
    """Builds the request of the job that srun creates outside of a job."""
    found = OptionValues(values.all)
    if "hint" in found:
        found["hint"] = hint(found.text("hint"))
    if isinstance(found.get("gres"), str):
        del found["gres"]
    for key in ("output", "error", "input", "open_mode"):
        found.pop(key, None)
    job = job_request(found)
    job.kind = SRUN
    job.name = found.text("job_name") or _name_of(command)
    job.submit_dir = current_folder()
    job.work_dir = work_dir(values)
    job.submit_host = os.uname().nodename
    job.trace_parent = trace_parent(os.environ)
    job.submit_line = submit_line("srun", argv)
    job.command = shown(command[0])
    job.umask = current_umask()
    return job


def work_dir(values: StepValues) -> bytes:
    """The working directory of the tasks."""
    return os.path.join(current_folder(), os.fsencode(values.all.text("chdir"))).rstrip(b"/") or b"/"


def own_address(cluster: ClusterFile) -> str:
    """This machine's address on the route to the controller; "" when that is not a network."""
    import socket

    from penstock.clusterfile import split_address

    if not cluster.address:
        return ""
    host, port = split_address(cluster.address)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.encode(), port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # nothing is sent: the kernel chooses the route
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def ask_programs(spec: StepSpec, programs: "list[RankProgram]") -> None:
    """--multi-prog: the programs instead of one command."""
    for program in programs:
        spec.multi_prog.add(ranks=program.ranks, argv=[os.fsencode(word) for word in program.argv])


def _name_of(command: list[str]) -> str:
    return shown(os.path.basename(command[0])) or "srun"
