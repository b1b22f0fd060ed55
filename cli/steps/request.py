"""From the values of srun's options to what is asked of the controller: a step, and the job around it if there is none.

Where a value came from matters: what was said for this step (command line) and what the job around it said of itself
(SLURM_* variables) may not fit together. Then the step's word holds, as on Slurm:
    - fewer tasks than nodes: fewer nodes, with a warning;
    - a count of tasks and nodes that a job's tasks per node contradicts: that is left out, with a warning;
    - devices of the job's own options are not asked for once the step asks for devices.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cli.bindwords import hint
from cli.environment import current_umask, export_text, soft_limits
from cli.jobopts import OVERSUBSCRIBE, SHARED, environment_values
from cli.jobrequest import counts, current_folder, job_request, merge, shown
from cli.options import Command, parse
from cli.run import CommandError
from cli.steps.console import Mode, parse_mode
from cli.steps.stepopts import JOB, OTHER_VARIABLES, STEP, STRONGER
from penstock.cluster import ClusterFile
from penstock.v1.common_pb2 import SRUN, JobRequest
from penstock.v1.steps_pb2 import StepSpec

if TYPE_CHECKING:
    from cli.steps.multiprog import Program

SUBMIT_LINE_MAX = 16 * 1024
DEVICE_KEYS = ("gres", "gpus", "gpus_per_node", "gpus_per_task", "gpus_per_socket", "tres_per_task")
#: An interactive step is one shell on the job's first node, whatever the job around it said of its tasks.
COUNT_KEYS = (
    "ntasks_per_node", "ntasks_per_core", "ntasks_per_socket", "ntasks_per_gpu", "nodelist", "exclude", "cpus_per_task",
    "distribution", "mem", "mem_per_cpu", *DEVICE_KEYS,
)  # fmt: skip
#: Of the job's own that a step does not inherit, beside what only an allocation has.
OF_THE_JOB = ("job_name", "time", "licenses", "signal")
#: Slurm's numbers for whom standard input is.
STDIN_TO_FIRST, STDIN_TO_ALL, STDIN_TO_NONE, STDIN_TO_ONE = range(4)


#: By key, the step's fields that take a value as it is. --time is the step's only where it was said for it.
STEP_FIELDS = {
    o.key: o.field for o in (*JOB, *STEP) if o.field in StepSpec.DESCRIPTOR.fields_by_name and o.name != "time"
}


class Streams(NamedTuple):
    """Where the three streams of a step go."""

    out: Mode
    err: Mode
    input: Mode
    append: bool


class Values(NamedTuple):
    """All options in force, and those that were said for this very step."""

    all: dict[str, Any]
    own: dict[str, Any]

    def get(self, key: str, default: Any = None) -> Any:
        """A value, wherever it came from."""
        return self.all.get(key, default)


def read_values(command: Command, argv: list[str], env: Mapping[str, str]) -> tuple[Values, list[str]]:
    """The command line over the environment, and the words that are left."""
    line = parse(command, argv)
    own = line.values
    inherited = environment_values(command, "SLURM_", _with_old_names(env))
    if any(key in own for key in DEVICE_KEYS):
        for key in DEVICE_KEYS:
            inherited.pop(key, None)
    elif "nodes" in own or "ntasks" in own:
        inherited.pop("gpus", None)
    if "nodes" in own and "ntasks_per_node" in own and "ntasks" not in own:
        inherited.pop("ntasks", None)
    if "SLURM_JOB_ID" in env or "jobid" in own:
        inherited.pop("tres_per_task", None)  # as SLURM_GPUS_PER_TASK has it; its cpus are no order to steps
        for key in OF_THE_JOB:
            inherited.pop(key, None)
    return Values(merge(inherited, own), own), line.positional


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


def settle_counts(values: Values, warn: Callable[[str], None]) -> None:
    """Make numbers of tasks and nodes fit together."""
    found = values.all
    ntasks = found.get("ntasks", 0)
    if not ntasks or "nodes" not in found:
        return
    least, most = found["nodes"]
    if ntasks < least:
        warn(f"can't run {ntasks} processes on {least} nodes, setting nnodes to {ntasks}")
        least = most = ntasks
        found["nodes"] = (least, most)
    each = found.get("ntasks_per_node", 0)
    if each and least == most and ntasks > each * most:
        warn(
            f"can't honor --ntasks-per-node set to {each} which doesn't match the requested tasks {ntasks} with the "
            f"number of requested nodes {most}. Ignoring --ntasks-per-node."
        )
        del found["ntasks_per_node"]


def streams_of(values: Values) -> Streams:
    """Where input and output go; what is not said of the error output goes where output goes."""
    out = parse_mode(values.get("output"))
    err = parse_mode(values.get("error")) if "error" in values.all else out
    given = values.get("input")
    if given is None:
        input_ = Mode("task", 0) if "pty" in values.all else Mode("all")
    else:
        input_ = parse_mode(given)
    return Streams(out, err, input_, values.get("open_mode") == "append")


def step_spec(values: Values, command: list[str], argv: list[str], *, owns_job: bool) -> StepSpec:
    """What is asked of the step. In a job of srun's own it takes what the job has, without counting it again."""
    found = dict(values.all)
    if owns_job:
        _bind_gpus(found)
        for key in ("mem", "mem_per_cpu", "nodelist", "exclude", "immediate", "signal", *DEVICE_KEYS):
            found.pop(key, None)
    if found.get("interactive"):
        for key in COUNT_KEYS:
            found.pop(key, None)
        found |= {"nodes": (1, 1), "ntasks": 1, "relative": 0}
    spec = StepSpec(**{field: found[key] for key, field in STEP_FIELDS.items() if key in found})
    if "nodes" in found and not owns_job:
        spec.nodes_min, spec.nodes_max = found["nodes"]
    if "time" in values.own and not owns_job:
        spec.time_limit_s = found["time"]
    if found.get(SHARED, OVERSUBSCRIBE) != OVERSUBSCRIBE and not owns_job:  # --exclusive
        spec.exact = True
    if "external_launcher" in found:  # as Open MPI asks for: all that the job has, kept from nobody
        spec.overlap = spec.whole = True
    _devices(spec, found)
    _paths(spec, values)
    spec.name = found.get("job_name") or _name_of(command)
    spec.export_env = export_text(found.get("export", ""))
    spec.submit_line = shown(f"srun {' '.join(argv)}")[:SUBMIT_LINE_MAX]
    spec.submit_host = os.uname().nodename
    spec.umask = current_umask()
    spec.rlimits.update(soft_limits(found.get("propagate", "")))
    spec.propagate_asked = bool(found.get("propagate"))
    groups = found.get("het_group", ())
    if len(groups) == 1:
        spec.het_group = groups[0]
    return spec


def _bind_gpus(found: dict[str, Any]) -> None:
    """--gpus-per-task=N implies --gpu-bind=per_task:N; a step that has all of its own job would not know of it else."""
    asked: dict[str, Any] = {key: found[key] for key in ("gpus_per_task", "tres_per_task") if key in found}
    each = sum(gres.count for gres in job_request(asked).gres_per_task if gres.name == "gpu") if asked else 0
    if each and "gpu_bind" not in found:
        found["gpu_bind"] = f"per_task:{each}"


def _devices(spec: StepSpec, found: dict[str, Any]) -> None:
    gres = found.get("gres", ())
    spec.no_gres = gres == "none"
    job = job_request({key: found[key] for key in DEVICE_KEYS if key in found and not isinstance(found[key], str)})
    spec.gres_per_node.extend(job.gres_per_node)
    spec.gres_per_socket.extend(job.gres_per_socket)
    spec.gres_per_step.extend(counts(found.get("gpus", ())))
    spec.gres_per_task.extend(job.gres_per_task)
    spec.cpus_per_task = spec.cpus_per_task or job.cpus_per_task


def _paths(spec: StepSpec, values: Values) -> None:
    spec.work_dir = work_dir(values)
    for key in ("task_prolog", "task_epilog"):
        if values.get(key):
            setattr(spec, key, os.path.join(current_folder(), os.fsencode(values.get(key))))
    streams = streams_of(values)
    spec.open_append = streams.append
    for mode, field in ((streams.out, "std_out"), (streams.err, "std_err")):
        if mode.kind in ("nodes", "none"):
            setattr(spec, field, os.fsencode(mode.path) or b"/dev/null")
    _input(spec, streams.input)
    if "pty" in values.all:
        spec.pty = True
        if streams.out.kind != "all" or streams.err.kind != "all":
            raise CommandError("--pty cannot be used together with --output or --error")


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


def own_job(values: Values, command: list[str], argv: list[str]) -> JobRequest:
    """The job that srun makes when there is none around it."""
    found = dict(values.all)
    if "hint" in found:
        found["hint"] = hint(found["hint"])
    if isinstance(found.get("gres"), str):
        del found["gres"]
    for key in ("output", "error", "input", "open_mode"):
        found.pop(key, None)
    job = job_request(found)
    job.kind = SRUN
    job.name = found.get("job_name") or _name_of(command)
    job.submit_dir = current_folder()
    job.work_dir = work_dir(values)
    job.submit_host = os.uname().nodename
    job.submit_line = shown(f"srun {' '.join(argv)}")[:SUBMIT_LINE_MAX]
    job.command = shown(command[0])
    job.umask = current_umask()
    return job


def work_dir(values: Values) -> bytes:
    """Where tasks begin."""
    return os.path.join(current_folder(), os.fsencode(values.get("chdir", ""))).rstrip(b"/") or b"/"


def own_address(cluster: ClusterFile) -> str:
    """This machine's address on the way to the controller; "" when that way is not a network."""
    import socket

    from penstock.client import split_address

    if not cluster.address:
        return ""
    host, port = split_address(cluster.address)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.encode(), port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # nothing is sent: the kernel chooses the way
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def ask_programs(spec: StepSpec, programs: "list[Program]") -> None:
    """--multi-prog: the programs instead of one command."""
    for program in programs:
        spec.multi_prog.add(ranks=program.ranks, argv=[os.fsencode(word) for word in program.argv])


def _name_of(command: list[str]) -> str:
    return shown(os.path.basename(command[0])) or "srun"
