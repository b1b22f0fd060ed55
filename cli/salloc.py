"""salloc: allocates nodes, runs a command here that may use them, releases them.

The command runs on this machine, in its own process group, with the allocation's SLURM_* variables; srun inside it
finds the job by them. Without a command it is the user's shell or, with LaunchParameters=use_interactive_step, a shell
on the first node. The allocation belongs to this process: when the command ends it is released, and when the controller
ends it (time limit, scancel, preemption) the command gets a signal.

Statuses: the command's own, 128+n after a signal; 1 (SLURM_EXIT_ERROR, SLURM_EXIT_IMMEDIATE) when there was no
allocation or the command could not run.
"""

import math
import os
import shlex
import signal
import threading
import time
from typing import NoReturn

from cli.base.environment import EnvironmentPairs, current_umask, outside_job, trace_parent
from cli.base.exitstatus import error_status, with_exit_error
from cli.base.options import MAYBE, REFUSED, STATUS_WRONG_LINE, Command, Option, OptionValues
from cli.base.requestkey import REQUEST_KEY
from cli.base.run import CommandError, complain, run
from cli.filters.hooks import OptionFilters, cluster_here
from cli.jobs.allocation import Allocation, ring
from cli.jobs.components import join, parse_components
from cli.jobs.gpuchecks import check_gpus
from cli.jobs.hostfile import apply_hostfile
from cli.jobs.jobopts import HELP_GROUPS, allocation_options, environment_values, with_environment
from cli.jobs.jobrequest import (
    check_conflicts,
    current_folder,
    fewer_nodes,
    job_request,
    open_for_job,
    question,
    submit_line,
)
from cli.jobs.jobshell import Shell, await_foreground, is_interactive
from penstock.client import Client
from penstock.cluster import find_cluster
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError
from penstock.v1.common_pb2 import SALLOC, JobRequest
from penstock.v1.controller_pb2 import AwaitJobRequest, ShowConfigRequest
from penstock.v1.steps_pb2 import AllocationReply
from penstock.values.exitcode import shell_status
from penstock.values.signals import parse_signal

BELL_AFTER_S = 10.0
#: The watcher's pause before a retry when the controller does not answer.
PAUSE_S = 5.0
INTERACTIVE = "interactive"
PREFIX = "SALLOC_"
#: Variables of a batch script that do not apply to a command outside the job.
NOT_HERE = frozenset(
    b"SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_GTIDS SLURM_TASK_PID SLURM_CPUS_ON_NODE SLURM_GPUS_ON_NODE "
    b"SLURM_SHARDS_ON_NODE SLURM_JOB_GPUS SLURM_TOPOLOGY_ADDR SLURM_TOPOLOGY_ADDR_PATTERN SLURMD_NODENAME ENVIRONMENT "
    b"HOSTNAME CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_MPS_ACTIVE_THREAD_PERCENTAGE TMPDIR HOME USER LOGNAME "
    b"SHELL PATH PENSTOCK_CLUSTER SLURM_STEP_ID SLURM_STEPID".split()
)

COMMAND = Command(
    "salloc",
    "[OPTIONS(0)...] [ : [OPTIONS(N)]] [command(0) [args(0)...]]",
    with_environment(
        (
            *allocation_options(),
            Option("bell", help="ring the terminal bell when the job is allocated"),
            Option("no-bell", help="do not ring the terminal bell"),
            Option("kill-command", "K", MAYBE, help="signal to send to the command when the allocation ends",
                   metavar="signal", const=0, convert=parse_signal),
            Option("no-shell", help="keep the allocation and exit"),
            Option("quiet", "Q", help="quiet mode (suppress informational messages)"),
            REQUEST_KEY,
            Option("verbose", "v", help="verbose mode: show the options in force", counted=True),
            Option("x11", "", MAYBE, help="forward X11 from the nodes", metavar="all|first|last", status=REFUSED,
                   invalid="X11 forwarding not available", note="nodes forward no X11; ssh -X to the node does"),
        ),
        PREFIX,
    ),
    interspersed=False,
    usage_end="[command [args...]]",
    groups=HELP_GROUPS,
    wrong_status=STATUS_WRONG_LINE,
)  # fmt: skip


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Requests the allocation, waits, runs the command, releases it."""
    return with_exit_error(COMMAND.name, _body, argv)


def _body(argv: list[str]) -> int:
    lines, command = parse_components(COMMAND, argv)
    here = cluster_here()
    with OptionFilters(COMMAND, here) as filters:
        components = filters.applied(join((), environment_values(COMMAND, PREFIX, os.environ), lines))
        return _allocated([one.values for one in components], command, argv, filters, here)


def _allocated(
    components: list[OptionValues],
    command: list[str],
    argv: list[str],
    filters: OptionFilters,
    here: ClusterFile | None,
) -> int:
    """Runs the command in an allocation with these options of its components. Returns the exit status."""
    values = components[0]
    if "chdir" in values and not os.path.isdir(values.text("chdir")):
        raise CommandError(f"chdir({values.text('chdir')}): No such file or directory")
    for one in components:
        apply_hostfile(one, os.environ)
        check_conflicts(one)
        fewer_nodes(COMMAND.name, one)
        check_gpus(one)
    if not values.flag("no_shell"):
        await_foreground()
    if values.flag("verbose"):
        from cli.jobs.defined import print_defined

        print_defined(COMMAND, values)
    jobs = [_job(one, command, argv) for one in components]
    with open_for_job(COMMAND.name, values, lambda: question(*jobs), stays=True, here=here) as client:
        allocation = Allocation(client, COMMAND.name, values.flag("quiet"), values.text("request_key"))
        granted = _allocate(allocation, jobs, values)
        if granted is None:
            return 1
        filters.submitted(allocation.job_id)
        if values.flag("no_shell"):
            return 0
        return _run(allocation, granted, values, command or _default_command(client))


def _job(values: OptionValues, command: list[str], argv: list[str]) -> JobRequest:
    job = job_request(values)
    job.kind = SALLOC
    job.name = values.text("job_name") or (os.path.basename(command[0]) if command else INTERACTIVE)
    job.submit_dir = current_folder()
    job.work_dir = os.path.normpath(os.path.join(job.submit_dir, os.fsencode(values.text("chdir"))))
    job.submit_host = os.uname().nodename
    job.trace_parent = trace_parent(os.environ)
    job.submit_line = submit_line(COMMAND.name, argv)
    job.umask = current_umask()
    return job


def _allocate(allocation: Allocation, jobs: list[JobRequest], values: OptionValues) -> AllocationReply | None:
    """The allocation, or None when a signal arrived first. A pending job is cancelled then."""
    with _Signals() as signals:
        try:
            allocation.submit(*jobs)
            granted = allocation.wait(values.of(int, "immediate"))
        except _Signalled:
            if allocation.withdraw():
                allocation.say(f"Job allocation {allocation.job_id} has been revoked.")
            complain(COMMAND.name, f"{COMMAND.name}: Job aborted due to signal", plain=True)
            return None
        signals.ignore()
    for one in (granted, *granted.components) if allocation.configured else ():
        allocation.say(f"Nodes {one.node_list} are ready for job")
    ring(values, allocation.waited_s, BELL_AFTER_S)
    return granted


class _Signalled(BaseException):
    """A signal arrived while the job was pending; not an Exception, so that no handler catches it as an error."""


class _Signals:
    """While it is open, signals that end a command raise _Signalled in the main thread, once."""

    NUMBERS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

    def __enter__(self) -> "_Signals":
        self._before = {number: signal.signal(number, self._on_signal) for number in self.NUMBERS}
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def ignore(self) -> None:
        """Ignores signals from the grant on. One that arrived before the command has started would leak the allocation."""
        for number in self.NUMBERS:
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: object) -> None:
        self.ignore()
        raise _Signalled


def _default_command(client: Client) -> list[str]:
    """The user's shell; with LaunchParameters=use_interactive_step a step on the first node that runs it."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    try:
        lines = {line.key: line.value for line in client.call("ShowConfig", ShowConfigRequest()).lines}
    except PenstockError:
        return [shell]  # the allocation exists, and will be released
    if "use_interactive_step" not in lines.get("LaunchParameters", "").lower().split(","):
        return [shell]
    options = lines.get("InteractiveStepOptions", "--interactive --preserve-env --pty $SHELL")
    return ["srun", *(word.replace("$SHELL", shell) for word in shlex.split(options))]


def _run(allocation: Allocation, granted: AllocationReply, values: OptionValues, command: list[str]) -> int:
    shell = Shell(COMMAND.name)
    watcher = AllocationWatcher(allocation, shell, kill_signal(values))
    environment = outside_job(os.environb) | _variables(granted)
    if "chdir" in values:
        os.chdir(values.text("chdir"))
    try:
        shell.start(command, environment)
    except CommandError:
        _release(allocation, watcher, 1, 0)
        raise
    watcher.start()
    code, number = shell.wait()
    is_released = _release(allocation, watcher, code, number)
    return shell_status(code, number) or (0 if is_released else error_status())


def _variables(granted: AllocationReply) -> EnvironmentPairs:
    """The variables that are added to the command's environment."""
    pairs = {os.fsencode(name): os.fsencode(value) for name, value in granted.environment.items()}
    return {name: value for name, value in pairs.items() if name not in NOT_HERE}


def kill_signal(values: OptionValues) -> int:
    """The signal that the command gets when the allocation has ended."""
    return values.number("kill_command") or (signal.SIGHUP if is_interactive() else signal.SIGTERM)


def _release(allocation: Allocation, watcher: "AllocationWatcher", code: int, number: int) -> bool:
    """Gives the allocation back. False: the controller has not acknowledged that."""
    if not watcher.release():
        return True
    allocation.say(f"Relinquishing job allocation {allocation.job_id}")
    return allocation.end(code, number)


class AllocationWatcher:
    """Waits for the job's end while the command runs, in a thread with its own connection."""

    def __init__(self, allocation: Allocation, shell: Shell, number: int) -> None:
        self._allocation = allocation
        self._shell = shell
        self._number = number
        self._lock = threading.Lock()
        self._over = False

    def start(self) -> None:
        """Starts waiting."""
        threading.Thread(target=self._watch, daemon=True).start()

    def release(self) -> bool:
        """Stops waiting when the command ends: a later end of the job is ignored. False when the job had ended
        before."""
        with self._lock:
            gone = self._over
            self._over = True
        return not gone

    def _watch(self) -> None:
        request = AwaitJobRequest(job_id=self._allocation.job_id)
        while True:
            try:
                with Client.open(retry=True, cluster=find_cluster()) as client:
                    reply = client.call("AwaitJob", request, math.inf)
                break
            except PenstockError:
                time.sleep(PAUSE_S)
                if self._over:
                    return
        if self.release():
            self._allocation.say(revoked(self._allocation.job_id, reply.state, reply.cause))
            self._shell.kill(self._number)


def revoked(job_id: int, state: str, cause: str = "") -> str:
    """The message when the controller has ended the allocation."""
    if state == "TIMEOUT":
        return f"Job {job_id} has exceeded its time limit and its allocation has been revoked."
    return f"Job allocation {job_id} has been revoked{f': {cause}' if cause else '.'}"


if __name__ == "__main__":
    main()
