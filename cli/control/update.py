"""`scontrol update`: parses `Key=Value` words into a request.

The words select the target (JobId, NodeName, PartitionName) and give its changes. Keys are case-insensitive and sent in
lower case, values as written, without the quotes around them. The controller validates values; here only unknown keys
are refused, so that a typing error gives Slurm's message and sends nothing. `Key+=Value` and `Key-=Value` send the sign
with the value, as `Key=+Value` does.
"""

from typing import NamedTuple

from cli.base.run import CommandError
from cli.control.keywords import NAME, words_of
from penstock.values.numbers import is_digits

#: The kinds of targets: the key that names one, and its shortest abbreviation.
ENTITY_KEYS = {"step": ("stepid", 4), "job": ("jobid", 3), "node": ("nodename", 3), "partition": ("partitionname", 3)}
NO_ENTITY = (
    "No valid entity in update command\n"
    'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
)
NODE_STATES = (
    "NORESP", "DRAIN", "DOWN", "FAIL", "FUTURE", "IDLE", "RESUME", "POWER_DOWN", "POWER_UP", "UNDRAIN",
    "REBOOT", "REBOOT_ASAP", "CANCEL_REBOOT", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE",
)  # fmt: skip
STATES_WITH_REASON = ("DRAIN", "DOWN", "FAIL")
#: States that GPUs of a node can be set to (`gres=gpu:3 state=drain`): the others of the node are not affected.
GPU_STATES = ("DRAIN", "RESUME", "UNDRAIN")
GPU_FORMS = "write gres=gpu:INDEX, gres=gpu:UUID (or the beginning of one), several with commas, or gres=gpu for all of the node"

KEYS = {
    "step": words_of("timelimit"),
    "job": words_of(
        "jobname account partition qos timelimit timemin priority nice numnodes numtasks numcpus reqnodelist "
        "excnodelist features dependency arraytaskthrottle starttime deadline comment admincomment cpuspertask "
        "reservationname requeue minmemorynode minmemorycpu mincpusnode gres licenses mailtype mailuser stdout stderr "
        "stdin workdir oversubscribe contiguous switches wckey systemcomment extra endtime sitefactor resetaccruetime "
        "taskspernode mintmpdisknode reqsockets reqcores reqthreads corespec threadspec prefer batchfeatures "
        "wait-for-switch reboot delayboot mcslabel network burstbuffer"
    ),
    "node": words_of(
        "state reason resumeafter weight features activefeatures gres comment extra nodeaddr nodehostname cpubind nextstate "
        "instanceid instancetype"
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
#: Other spellings that Slurm accepts, and the one that is sent.
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
    "corespec": "CoreSpec", "threadspec": "ThreadSpec",
}  # fmt: skip
#: Keys of a partition that hold a list; -= on any other would be taken for a negative number.
PARTITION_LISTS = words_of("nodes allowgroups allowaccounts denyaccounts allowqos denyqos allocnodes")
#: The shortest abbreviation of a key.
KEY_CHARS_MIN = 3
STEP_KEY_CHARS_MIN = 2
#: The value of `nice` without one.
NICE_ALONE = "100"
NODE_ALIASES = {"availablefeatures": "features", "feature": "features", "shared": "oversubscribe"}
PARTITION_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")


class Update(NamedTuple):
    """The changes: kind (job, node, partition), its name or ids as written, canonical key -> value."""

    kind: str
    target: str
    changes: dict[str, str]
    by_name: bool = False  # jobs: the target is a name
    user: str = ""  # of those jobs


def is_about_reservation(words: list[str]) -> bool:
    """Whether the words name a reservation to change, rather than a job whose reservation is set."""
    keys = [word.partition("=")[0].lower() for word in words]
    return any(len(key) >= KEY_CHARS_MIN and "reservationname".startswith(key) for key in keys) and not any(
        kind_named(key) == "job" for key in keys
    )


def kind_named(key: str) -> str:
    """Returns the kind of target that a lower-case key names, as a beginning of its name, too; "" = none."""
    found = (kind for kind, (name, least) in ENTITY_KEYS.items() if len(key) >= least and name.startswith(key))
    return next(found, "")


def read_update(words: list[str]) -> Update:
    """Parses the words after `scontrol update`."""
    pairs = _pairs(words)
    entity = _entity([key for key, _, _ in pairs])
    if entity is None and (debug := next((value for key, value, _ in pairs if key == "slurmctlddebug"), None)):
        return Update("debug", debug.lower(), {})
    if entity is not None and kind_named(pairs[entity][0]) == "job":  # the owner, for jobs that share a name
        pairs = [pair for pair in pairs if pair[0] != "userid"]
        entity = _entity([key for key, _, _ in pairs])
    by_name = entity is None and any(key in ("jobname", "name") for key, _, _ in pairs)
    if by_name:
        entity = next(at for at, (key, _, _) in enumerate(pairs) if key in ("jobname", "name"))
    if entity is None:
        raise CommandError(NO_ENTITY, plain=True)
    kind = "job" if by_name else kind_named(pairs[entity][0])
    target, user = pairs.pop(entity)[1], ""
    if by_name:
        user = next((value for key, value, _ in pairs if key == "userid"), "")
        pairs = [pair for pair in pairs if pair[0] != "userid"]
    changes: dict[str, str] = {}
    for key, value, word in pairs:
        name = _canonical(kind, key)
        is_signed = word.partition("=")[0].endswith(("+", "-"))
        if name not in KEYS[kind] or (kind == "partition" and is_signed and name not in PARTITION_LISTS):
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
    """The message for a job's value that cannot be parsed, in Slurm's words."""
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
    """The word that names the target. `Partition=` is also a key of jobs, so jobs are tried first."""
    for wanted in ENTITY_KEYS:
        for position, key in enumerate(keys):
            if kind_named(key) == wanted:
                return position
    return None


def _pairs(words: list[str]) -> list[tuple[str, str, str]]:
    """(lower-case key, value, word as written). `job 5` is read as `job=5`, and in an update of a job every key may have its
    value in the next word, as in Slurm; `nice` alone is 100."""
    pairs = []
    rest = list(reversed(words))
    of_job = any(kind_named(word.partition("=")[0].lower()) == "job" for word in words)
    while rest:
        word = rest.pop()
        key, equals, value = word.partition("=")
        if not equals and rest and (kind_named(key.lower()) or (of_job and "=" not in rest[-1])):
            value = rest.pop()
        elif not equals and of_job and key.lower() == "nice":
            value = NICE_ALONE
        elif not equals:
            raise CommandError(f"Invalid input: {word}\nRequest aborted", plain=True)
        if key.endswith(("+", "-")):
            key, value = key[:-1], key[-1] + value
        pairs.append((key.lower(), _unquote(value), word))
    return pairs


def _canonical(kind: str, key: str) -> str:
    """Returns the key that is sent; "" = there is none of that name, and no single one that begins so."""
    if kind == "step":
        return "timelimit" if len(key) >= STEP_KEY_CHARS_MIN and "timelimit".startswith(key) else ""
    aliases = ALIASES if kind == "job" else NODE_ALIASES
    known = aliases | {name: name for name in KEYS[kind]}
    if key in known:
        return known[key]
    begun = {canonical for name, canonical in known.items() if len(key) >= KEY_CHARS_MIN and name.startswith(key)}
    found = begun & KEYS[kind]
    return found.pop() if len(found) == 1 else ""


def _unquote(value: str) -> str:
    quoted = len(value) >= 2 and value[0] in "\"'" and value[-1] == value[0]
    return value[1:-1] if quoted else value


def _check_node(changes: dict[str, str]) -> None:
    state, weight = changes.get("state", "").upper(), changes.get("weight", "0")
    if not is_digits(weight):
        raise CommandError(
            f"{NAME}: error: Weight value ({weight}) is not a valid number\nNo changes specified", plain=True
        )
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
    """Checks a state of GPUs; the controller checks the GPUs themselves."""
    parts = [word.partition(":") for word in text.split(",")]
    if any(name.lower() != "gpu" or (colon and not which) for name, colon, which in parts):
        raise CommandError(f"Invalid input: gres={text}\nRequest aborted\n{GPU_FORMS}", plain=True)
    if state not in GPU_STATES:
        raise CommandError(
            f"Invalid input: state={state} gres={text}\nRequest aborted\n"
            f"Valid states of a GPU are: {' '.join(GPU_STATES)}",
            plain=True,
        )
