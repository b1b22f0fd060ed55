"""What a site's submit filter in Python imports (docs/hooks.md): the record of a job, who submits it, and its answers.

    from penstock.submitfilter import Job, Refuse, Submitter, log_user

    def job_submit(job: Job, submitter: Submitter) -> None:
        if job.account is None:
            raise Refuse("name an account: --account=ACCOUNT")

Names and units are those of Slurm's job_desc_msg_t where it has the field; None = not given. The controller runs the
filter in processes of its own, on a copy of the request, and takes the changed fields back. Deliberately absent:
everything that could ask the controller something.
"""

from dataclasses import dataclass, field
from typing import Final

#: A time limit without an end.
UNLIMITED: Final = -1
#: Lines for the user from one call; the text of each is cut at the second number.
MESSAGES_MAX: Final = 64
MESSAGE_CHARS_MAX: Final = 1024


class Refuse(Exception):
    """Raised by a filter: the request is refused, and the user sees the text."""


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who asks: authenticated, whatever the request says."""

    user_id: int
    user_name: str
    group_id: int
    group_name: str
    groups: tuple[str, ...] = ()
    role: str = "user"  # or coordinator, operator, administrator
    default_account: str | None = None


@dataclass(slots=True)
class Job:
    """A request as it was submitted. A new value of a field changes it, None removes it."""

    # -- who and what
    name: str | None = None
    account: str | None = None
    partition: str | None = None  # names, separated by commas
    qos: str | None = None
    reservation: str | None = None
    wckey: str | None = None
    comment: str | None = None
    extra: str | None = None
    mcs_label: str | None = None
    licenses: str | None = None
    network: str | None = None
    container: str | None = None
    # -- when
    time_limit: int | None = None  # minutes; UNLIMITED
    time_min: int | None = None  # minutes
    begin_time: int | None = None  # seconds since 1970
    deadline: int | None = None
    dependency: str | None = None
    array_inx: str | None = None
    nice: int | None = None
    priority: int | None = None  # 0 = held
    delay_boot: int | None = None  # seconds
    # -- how much
    min_nodes: int | None = None
    max_nodes: int | None = None
    num_tasks: int | None = None
    cpus_per_task: int | None = None
    ntasks_per_node: int | None = None
    ntasks_per_socket: int | None = None
    ntasks_per_core: int | None = None
    ntasks_per_tres: int | None = None  # of a GPU
    sockets_per_node: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    pn_min_cpus: int | None = None
    pn_min_tmp_disk: int | None = None  # MB
    min_mem_per_node: int | None = None  # MB; 0 = all of a node's
    min_mem_per_cpu: int | None = None  # MB
    core_spec: int | None = None
    tres_per_job: str | None = None  # gres/gpu:2,gres/gpu:a100:1
    tres_per_node: str | None = None
    tres_per_socket: str | None = None
    tres_per_task: str | None = None
    cpus_per_tres: str | None = None  # gres/gpu:8
    mem_per_tres: str | None = None  # gres/gpu:4096, in MB
    # -- where
    features: str | None = None
    prefer: str | None = None
    batch_features: str | None = None
    req_nodes: str | None = None  # a hostlist
    exc_nodes: str | None = None
    req_switch: int | None = None
    wait4switch: int | None = None  # seconds
    shared: int | None = None  # 0 exclusive, 1 oversubscribe, 2 exclusive by user, 3 by MCS label, 4 by topology
    contiguous: bool | None = None
    overcommit: bool | None = None
    requeue: bool | None = None
    reboot: bool | None = None
    kill_on_node_fail: bool | None = None
    # -- files and mail
    work_dir: str | None = None
    std_in: str | None = None
    std_out: str | None = None
    std_err: str | None = None
    open_mode: str | None = None  # append, truncate
    mail_type: str | None = None  # END,FAIL
    mail_user: str | None = None
    # -- the script; None for srun and salloc. Not changed for a component after the first of a heterogeneous job
    script: str | None = None
    argv: list[str] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    # -- facts, which a filter cannot change
    user_id: int = 0
    user_name: str = ""
    group_id: int = 0
    submit_line: str | None = None
    alloc_node: str | None = None  # the machine of the command
    het_job_offset: int | None = None  # of a component of a heterogeneous job
    test_only: bool = False  # sbatch --test-only


#: Fields of a Job that are facts.
FACTS: Final = ("user_id", "user_name", "group_id", "submit_line", "alloc_node", "het_job_offset", "test_only")

_messages: list[str] = []


def log_user(text: str) -> None:
    """Shows the user a line: sbatch, srun and salloc print it, with the end of the request."""
    for line in str(text).splitlines():
        if len(_messages) < MESSAGES_MAX:
            _messages.append(line[:MESSAGE_CHARS_MAX])


def take_messages() -> list[str]:
    """Returns the lines of this call, and forgets them."""
    found = list(_messages)
    _messages.clear()
    return found
