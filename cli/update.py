"""`scontrol update`: read `Key=Value` words into a request.

The words say what is changed (JobId, NodeName, PartitionName) and how. Keys are read in any case and sent in lower
case, values as they were written, without the quotes around them. Which value a key takes is the controller's to
judge; here only keys that do not exist are refused, so that a typing error is told in Slurm's words, nothing sent.
`Key+=Value` and `Key-=Value` send the sign with the value, as `Key=+Value` does.
"""

from typing import NamedTuple

from cli.keywords import words_of
from cli.run import CommandError

#: The word that names what is changed, and what it is a change of.
ENTITY_WORDS = {"jobid": "job", "job": "job", "nodename": "node", "node": "node",
                "partitionname": "partition", "partition": "partition"}  # fmt: skip
NO_ENTITY = (
    "No valid entity in update command\n"
    'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
)
NODE_STATES = (
    "NORESP", "DRAIN", "DOWN", "FAIL", "FUTURE", "IDLE", "RESUME", "POWER_DOWN", "POWER_UP", "UNDRAIN",
    "REBOOT", "REBOOT_ASAP", "CANCEL_REBOOT", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE",
)  # fmt: skip
STATES_WITH_REASON = ("DRAIN", "DOWN", "FAIL")
#: What can be done to GPUs of a node (`gres=gpu:3 state=drain`): the others of the node go on.
GPU_STATES = ("DRAIN", "RESUME", "UNDRAIN")
GPU_FORMS = "write gres=gpu:INDEX, gres=gpu:UUID (or the beginning of one), several with commas, or gres=gpu for all of the node"

KEYS = {
    "job": words_of(
        "jobname account partition qos timelimit timemin priority nice numnodes numtasks numcpus reqnodelist "
        "excnodelist features dependency arraytaskthrottle starttime deadline comment admincomment cpuspertask "
        "reservationname requeue minmemorynode minmemorycpu mincpusnode gres licenses mailtype mailuser stdout stderr "
        "stdin workdir oversubscribe contiguous switches wckey systemcomment extra endtime sitefactor resetaccruetime "
        "taskspernode mintmpdisknode reqsockets reqcores reqthreads corespec threadspec prefer batchfeatures "
        "wait-for-switch reboot delayboot mcslabel network burstbuffer"
    ),
    "node": words_of(
        "state reason resumeafter weight features activefeatures gres comment extra nodeaddr nodehostname cpubind nextstate"
    ),
    "partition": words_of(
        "state nodes default maxtime defaulttime minnodes maxnodes allowaccounts denyaccounts allowgroups allowqos "
        "denyqos qos prioritytier priorityjobfactor preemptmode gracetime oversubscribe exclusive exclusiveuser "
        "defmempercpu defmempernode maxmempercpu maxmempernode maxcpuspernode lln hidden rootonly reqresv "
        "overtimelimit tresbillingweights disablerootjobs alternate allocnodes jobdefaults cpubind defcpupergpu "
        "defmempergpu exclusivetopo maxcpuspersocket powerdownonidle priority resumetimeout selecttypeparameters "
        "suspendtime suspendtimeout topology penstockallownewprivs"
    ),
}
#: Other spellings that Slurm takes, and the one that is sent.
ALIASES = {
    "name": "jobname", "eligibletime": "starttime", "reqnodes": "reqnodelist",
    "excnodes": "excnodelist", "availablefeatures": "features", "memory": "minmemorynode", "shared": "oversubscribe",
    "tasks": "numtasks", "nodecnt": "numnodes", "trespernode": "gres", "nodelist": "reqnodelist",
    "cpus/task": "cpuspertask", "reqprocs": "numcpus", "mincpus": "mincpusnode", "mintmpdisk": "mintmpdisknode",
    "reqcpus": "numcpus", "reservation": "reservationname", "nodes": "numnodes", "tresperjob": "gres",
    "minnodes": "numnodes", "numnode": "numnodes", "feature": "features",
}  # fmt: skip


#: Keys of jobs as messages spell them.
SPELLED = {
    "timelimit": "TimeLimit", "timemin": "TimeMin", "priority": "Priority", "nice": "Nice", "numtasks": "NumTasks",
    "minmemorynode": "MinMemoryNode", "minmemorycpu": "MinMemoryCPU", "mincpusnode": "MinCPUsNode", "requeue": "Requeue",
    "mintmpdisknode": "MinTmpDiskNode", "contiguous": "Contiguous", "oversubscribe": "OverSubscribe",
    "taskspernode": "TasksPerNode", "arraytaskthrottle": "ArrayTaskThrottle", "reqsockets": "ReqSockets",
    "reqcores": "ReqCores", "reqthreads": "ReqThreads", "reboot": "Reboot", "cpuspertask": "CPUs/Task",
    "switches": "Switches", "delayboot": "DelayBoot", "mailtype": "MailType", "sitefactor": "SiteFactor",
}  # fmt: skip
NODE_ALIASES = {"availablefeatures": "features", "feature": "features", "shared": "oversubscribe"}
PARTITION_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")


class Update(NamedTuple):
    """What is changed: kind (job, node, partition), its name or ids as written, canonical key -> value."""

    kind: str
    target: str
    changes: dict[str, str]
    by_name: bool = False  # jobs: the target is a name
    user: str = ""  # of those jobs


def is_about_reservation(words: list[str]) -> bool:
    """True when the words name a reservation to change, and not a job that shall ask for one."""
    keys = [word.partition("=")[0].lower() for word in words]
    return any(key in ("reservationname", "reservation") for key in keys) and not any(
        ENTITY_WORDS.get(key) == "job" for key in keys
    )


def read_update(words: list[str]) -> Update:
    """Read the words behind `scontrol update`."""
    pairs = _pairs(words)
    entity = _entity([key for key, _, _ in pairs])
    if entity is None and (debug := next((value for key, value, _ in pairs if key == "slurmctlddebug"), None)):
        return Update("debug", debug.lower(), {})
    if entity is not None and ENTITY_WORDS[pairs[entity][0]] == "job":  # says whose jobs, for those that share a name
        pairs = [pair for pair in pairs if pair[0] != "userid"]
        entity = _entity([key for key, _, _ in pairs])
    by_name = entity is None and any(key in ("jobname", "name") for key, _, _ in pairs)
    if by_name:
        entity = next(at for at, (key, _, _) in enumerate(pairs) if key in ("jobname", "name"))
    if entity is None:
        raise CommandError(NO_ENTITY, plain=True)
    kind = "job" if by_name else ENTITY_WORDS[pairs[entity][0]]
    target, user = pairs.pop(entity)[1], ""
    if by_name:
        user = next((value for key, value, _ in pairs if key == "userid"), "")
        pairs = [pair for pair in pairs if pair[0] != "userid"]
    changes: dict[str, str] = {}
    for key, value, word in pairs:
        name = key if key in KEYS[kind] else ALIASES.get(key, "") if kind == "job" else NODE_ALIASES.get(key, "")
        if name not in KEYS[kind]:
            raise CommandError(f"Update of this parameter is not supported: {word}\nRequest aborted", plain=True)
        changes[name] = value
    if not changes:
        raise CommandError("No changes specified", plain=True)
    if kind == "node":
        _check_node(changes)
    if kind == "partition":
        _check_partition(changes)
    return Update(kind, target, changes, by_name, user)


def bad_value(key: str, value: str, fault: str) -> str:
    """What is said of a job's value that cannot be read, in Slurm's words."""
    if key in ("numnodes", "numcpus"):
        what = "requested node count" if key == "numnodes" else "requested CPU count"
        return f'Invalid numeric value "{value}" for {what}.: {fault}'
    name = SPELLED.get(key, key)
    return (
        f"Invalid {name} value: {fault}"
        if key in ("timelimit", "timemin")
        else f"Invalid {name} value: {value}: {fault}"
    )


def _entity(keys: list[str]) -> int | None:
    """Which word names the thing that is changed. `Partition=` is also a key of jobs, so jobs are looked for first."""
    for wanted in ("job", "node", "partition"):
        for position, key in enumerate(keys):
            if ENTITY_WORDS.get(key) == wanted:
                return position
    return None


def _pairs(words: list[str]) -> list[tuple[str, str, str]]:
    """(lower-case key, value, word as written). `job 5` is taken for `job=5`, as Slurm does."""
    pairs = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        key, equals, value = word.partition("=")
        if not equals and key.lower() in ENTITY_WORDS and rest:
            value = rest.pop()
        elif not equals:
            raise CommandError(f"Invalid input: {word}\nRequest aborted", plain=True)
        if key.endswith(("+", "-")):
            key, value = key[:-1], key[-1] + value
        pairs.append((key.lower(), _unquote(value), word))
    return pairs


def _unquote(value: str) -> str:
    quoted = len(value) >= 2 and value[0] in "\"'" and value[-1] == value[0]
    return value[1:-1] if quoted else value


def _check_node(changes: dict[str, str]) -> None:
    state = changes.get("state", "").upper()
    if not state:
        return
    if "gres" in changes:
        _check_gpus(changes["gres"], state)
    if state not in NODE_STATES:
        valid = " ".join(NODE_STATES)
        raise CommandError(
            f"Invalid input: state={changes['state']}\nRequest aborted\nValid states are: {valid}\n"
            "Not all states are valid given a node's prior state",
            plain=True,
        )
    if state in STATES_WITH_REASON and not changes.get("reason"):
        raise CommandError(
            "You must specify a reason when DOWNING or DRAINING a node. Request denied",
            plain=True,
        )


def _check_partition(changes: dict[str, str]) -> None:
    state = changes.get("state", "UP").upper()
    if state not in PARTITION_STATES:
        text = f"Invalid input: state={changes['state']}\nAcceptable State values are UP, DOWN, DRAIN and INACTIVE"
        raise CommandError(text)


def _check_gpus(text: str, state: str) -> None:
    """A state of some GPUs. Which there are is the controller's to say."""
    parts = [word.partition(":") for word in text.split(",")]
    if any(name.lower() != "gpu" or (colon and not which) for name, colon, which in parts):
        raise CommandError(f"Invalid input: gres={text}\nRequest aborted\n{GPU_FORMS}", plain=True)
    if state not in GPU_STATES:
        raise CommandError(
            f"Invalid input: state={state} gres={text}\nRequest aborted\n"
            f"Valid states of a GPU are: {' '.join(GPU_STATES)}",
            plain=True,
        )
