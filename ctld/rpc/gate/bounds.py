"""Table of the size bounds of incoming messages. Applied to every message by incoming.py.

Bounds come from a field's type and name, by rules (`RULES`: `at_us` is a point in time, `_mb` is memory); exceptions
are in `FIELDS`. Text is one line without control characters, bidirectional marks and line separators
(penstock.values.text), because it is shown on other users' terminals and in logs; `FIELDS` lists texts that may have
newlines or tabs. `bytes` (scripts, arguments, environments) are data and are not checked; a path is shown, too, so it
is checked like a text.

`check_complete` stops the start when a field has no bound, or the table names an unknown one.

Deliberately absent: the meaning of values, and the size of lists that a text expands to (penstock.values.allowance).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from penstock.values.dates import DATE_AT_US_MAX
from penstock.values.duration import DURATION_MAX_S
from penstock.values.jobcolumns import WINDOW_ROWS_MAX
from penstock.values.jobid import HET_OFFSET_MAX
from penstock.values.names import ENTITY_BYTES_MAX, why_no_entity, why_no_host, why_no_login
from penstock.values.refusals import Code

KiB, MiB = 1024, 1024 * 1024

#: Maximum bytes of a request, and elements in it (entries of repeated fields, messages inside messages).
REQUEST_BYTES_MAX: Final = 1 * MiB
REQUEST_ELEMENTS_MAX: Final = 60_000
#: Maximum message of a node, with as many steps as it keeps records of.
NODE_BYTES_MAX: Final = 16 * MiB
NODE_ELEMENTS_MAX: Final = 700_000
#: Maximum nesting of messages; the deepest of ours has six.
DEPTH_MAX: Final = 12

#: By method, where it differs from the above. A submission has a script and an environment.
BYTES: Final = {
    "/penstock.v1.Controller/SubmitJob": 16 * MiB,
    "/penstock.v1.Steps/CreateStep": 16 * MiB,
    "/penstock.v1.Periodic/UpdateCrontab": 16 * MiB,
    "/penstock.v1.Governance/ChangeMany": 16 * MiB,  # sacctmgr load: the whole tree is changed in one request
    "/penstock.v1.NodeLink/Connect": NODE_BYTES_MAX,
}
ELEMENTS: Final = {
    "/penstock.v1.Governance/ChangeMany": 300_000,
    "/penstock.v1.NodeLink/Connect": NODE_ELEMENTS_MAX,
}
NODE_METHODS: Final = frozenset({"/penstock.v1.NodeLink/Connect"})

#: Default maxima: characters of a text, entries of a repeated field, bytes of one entry of `bytes`.
TEXT_MAX: Final = 4096
ENTRIES_MAX: Final = 1024
NAME_MAX: Final = 1024
PATH_MAX: Final = 4096
#: Lists that users and programs generate: nodes, jobs of an array expression or a dependency.
LIST_MAX: Final = 64 * KiB
IDS_MAX: Final = 50_000
#: Jobs to be changed: each has an answer of its own.
CHANGED_IDS_MAX: Final = 20_000
#: The kernel's limit of one argument or variable (MAX_ARG_STRLEN).
WORD_BYTES_MAX: Final = 128 * KiB

#: A petabyte of memory on a node, in MB: sums over all nodes and products with counts stay below 2^63.
MB_MAX: Final = 1 << 30
#: Nodes, tasks, CPUs: their products with each other stay below 2^63, too.
COUNT_MAX: Final = 16_777_216
GRES_MAX: Final = 1 << 44
U32: Final = 0xFFFFFFFF
I31: Final = 0x7FFFFFFF
I63: Final = (1 << 63) - 1
TAB_AND_NEWLINE: Final = "\t\n"


class Number(NamedTuple):
    """Bound of a whole number from `low` to `high`; outside is `code`."""

    low: int
    high: int
    code: Code = Code.INVALID_VALUE


class Text(NamedTuple):
    """Bound of a text of so many characters. `allowed`: control characters that it may contain."""

    limit: int = TEXT_MAX
    allowed: str = ""
    code: Code = Code.INVALID_VALUE


class EntityName(NamedTuple):
    """Bound of a name that something is searched for. `why_not`: its grammar, a description of the fault or "". `listed`:
    of a text with several, separated by commas."""

    why_not: Callable[[str], str] = why_no_entity
    code: Code = Code.INVALID_VALUE
    listed: bool = False
    limit: int = ENTITY_BYTES_MAX


class Data(NamedTuple):
    """Bound of bytes. `is_path`: they are shown to users."""

    limit: int
    is_path: bool = False


class Free(NamedTuple):
    """No bound, for a field with few values: a bool."""


class Choice(NamedTuple):
    """Bound of an enum: one of the named values. A node may be newer than the controller, and send others."""

    values: frozenset[int]


class Inside(NamedTuple):
    """Bound of another message, whose fields have bounds of their own."""


class Each(NamedTuple):
    """Bound of the entries of a repeated field."""

    one: "Bound"
    limit: int = ENTRIES_MAX


class Pairs(NamedTuple):
    """Bound of the entries of a map. `named`: of the values of some keys, in lower case, instead of `value`."""

    key: "Bound"
    value: "Bound"
    limit: int = ENTRIES_MAX
    named: Mapping[str, "Bound"] = {}


Bound = Number | Text | EntityName | Data | Free | Choice | Inside | Each | Pairs

AT: Final = Number(0, DATE_AT_US_MAX, Code.INVALID_TIME_VALUE)
SECONDS: Final = Number(-1, DURATION_MAX_S, Code.INVALID_TIME_VALUE)  # -1 = no limit
TIME_LIMIT: Final = Number(-1, DURATION_MAX_S, Code.INVALID_TIME_LIMIT)
MEMORY: Final = Number(-1, MB_MAX)  # -1 = not given
ANY_U32: Final = Number(0, U32)
ANY_I32: Final = Number(-I31 - 1, I31)
ANY_I63: Final = Number(0, I63)  # sequences, epochs
#: What a node has counted: bytes, microseconds (285 years of CPU time), joules. The sum of a thousand fits 63 bits; of
#: more it saturates (penstock.values.numbers).
COUNTER: Final = Number(0, 1 << 53)
LIST: Final = Text(LIST_MAX)
NODES: Final = Text(LIST_MAX, code=Code.INVALID_NODE_NAME)
ENTITY: Final = EntityName()  # an account, a QOS, a reservation, a wckey: what sacctmgr and scontrol name
LOGIN: Final = EntityName(why_no_login, Code.INVALID_USER)
HOST: Final = EntityName(why_no_host, Code.INVALID_NODE_NAME)
PARTITION: Final = EntityName(code=Code.INVALID_PARTITION)
ACCOUNT: Final = EntityName(code=Code.INVALID_ACCOUNT)
QOS: Final = EntityName(code=Code.INVALID_QOS)
#: Filters by what there are few of.
WORD: Final = Text(256)
IDS: Final = Text(LIST_MAX, code=Code.INVALID_JOB_ID)  # an array expression may be in it

#: By the end of a field's name; the first that fits. Only numbers: a text's bound is its length.
RULES: Final[tuple[tuple[str, Number], ...]] = (
    ("at_us", AT),
    ("since_us", AT),
    ("last_us", AT),
    ("_from_us", AT),
    ("_until_us", AT),
    ("_cpu_us", COUNTER),
    ("_s", SECONDS),
    ("_mb", MEMORY),
    ("_kb", COUNTER),
    ("_bytes", COUNTER),
    ("sequence", ANY_I63),
    ("epoch", ANY_I63),
    ("epoch_seen", ANY_I63),
    ("job_id_seen", ANY_U32),
    ("_id", ANY_U32),  # ids of jobs and steps, uids: the full range
    ("_uid", ANY_U32),
    ("_gid", ANY_U32),
)


#: Fields that select by names, in every message that has them.
_SELECTORS: Final[dict[str, Bound]] = {
    "users": LOGIN,
    "actors": LOGIN,
    "accounts": ACCOUNT,
    "parents": ACCOUNT,
    "partitions": PARTITION,
    "qos": QOS,
    "wckeys": EntityName(code=Code.INVALID_WCKEY),
    "reservations": ENTITY,
    "names": Text(NAME_MAX),  # of jobs
    "states": WORD,
    "job_ids": IDS,
}


def _lists(message: str, names: str, limit: int = ENTRIES_MAX) -> dict[str, Bound]:
    return {f"{message}.{name}": Each(_SELECTORS[name], limit) for name in names.split()}


def _numbers(message: str, names: str, bound: Number) -> dict[str, Bound]:
    return {f"{message}.{name}": bound for name in names.split()}


_COUNTS: Final = (
    "nodes_min nodes_max ntasks cpus_per_task ntasks_per_node ntasks_per_core ntasks_per_socket ntasks_per_gpu"
    " threads_per_core resv_ports"
)
_CHANGES: Final = Pairs(Text(NAME_MAX), LIST)  # a value may be a list of nodes
_JOB_CHANGES: Final = _CHANGES._replace(
    named={
        "account": ACCOUNT,
        "partition": PARTITION._replace(listed=True, limit=TEXT_MAX),
        "qos": QOS._replace(listed=True, limit=TEXT_MAX),
        "wckey": EntityName(code=Code.INVALID_WCKEY),
    }
)
_RLIMITS: Final = Pairs(Text(64), Number(-1, I63), 64)  # -1 = unlimited; the kernel's own range

#: Fields whose bound no rule gives. Names are without the package.
FIELDS: Final[dict[str, Bound]] = {
    # ---- a submission
    "SubmitJobRequest.components": Each(Inside(), HET_OFFSET_MAX),
    "JobRequest.name": Text(NAME_MAX),
    "JobRequest.partitions": Each(PARTITION),
    "JobRequest.account": ACCOUNT,
    "JobRequest.qos": EntityName(code=Code.INVALID_QOS, listed=True, limit=TEXT_MAX),
    "JobRequest.wckey": EntityName(code=Code.INVALID_WCKEY),
    "JobRequest.reservation": EntityName(code=Code.RESERVATION_INVALID, listed=True, limit=TEXT_MAX),
    **dict.fromkeys(("JobRequest.submit_host", "StepSpec.submit_host"), ENTITY),
    "JobRequest.features": Text(code=Code.INVALID_FEATURE),
    "JobRequest.licenses": Text(code=Code.INVALID_LICENSES),
    "JobRequest.dependency": Text(LIST_MAX, code=Code.INVALID_DEPENDENCY),
    "JobRequest.nodes_required": NODES,
    "JobRequest.nodes_excluded": NODES,
    "JobRequest.array": Text(LIST_MAX, code=Code.INVALID_ARRAY),
    "JobRequest.submit_line": LIST,  # as typed
    "JobRequest.export_env": LIST,  # values of variables are in it
    **dict.fromkeys(
        ("JobRequest.cpu_bind", "JobRequest.mem_bind", "JobRequest.gpu_bind"), LIST
    ),  # a mask for each task
    "JobRequest.distribution": LIST,
    "JobRequest.time_limit_s": TIME_LIMIT,
    "JobRequest.time_min_s": TIME_LIMIT,
    **_numbers("JobRequest", _COUNTS, Number(0, COUNT_MAX)),
    **_numbers("JobRequest", "sockets_per_node cores_per_socket mincpus segment", Number(0, COUNT_MAX)),
    **_numbers("JobRequest", "cpus_per_gpu gres_sockets core_spec thread_spec", Number(0, COUNT_MAX)),
    **_numbers("JobRequest", "priority switches_max umask", ANY_U32),
    "JobRequest.nice": ANY_I32,
    "JobRequest.rlimits": _RLIMITS,
    "GresCount.count": Number(0, GRES_MAX),
    "JobSpec.script": Data(16 * MiB),  # max_script_size may be lower
    "JobSpec.argv": Each(Data(WORD_BYTES_MAX), 32_768),
    "JobSpec.environment": Each(Data(WORD_BYTES_MAX), 16_384),
    # ---- steps
    **dict.fromkeys(("StepSpec.nodes_required", "StepSpec.nodes_excluded", "StepSpec.submit_line"), LIST),
    **dict.fromkeys(("StepSpec.cpu_bind", "StepSpec.mem_bind", "StepSpec.gpu_bind", "StepSpec.export_env"), LIST),
    "StepSpec.distribution": LIST,
    "StepSpec.multi_prog": Each(Inside(), 16_384),
    "RankCommand.ranks": LIST,
    "RankCommand.argv": Each(Data(WORD_BYTES_MAX), 4_096),
    "StepSpec.time_limit_s": TIME_LIMIT,
    **_numbers("StepSpec", _COUNTS, Number(0, COUNT_MAX)),
    **_numbers("StepSpec", "relative rows columns umask stdin_to stdin_task het_group rank_offset", ANY_U32),
    **_numbers("StepSpec", "het_ntasks node_offset het_nodes het_step", ANY_U32),
    "StepSpec.rlimits": _RLIMITS,
    "NotifyJobRequest.text": Text(TEXT_MAX, TAB_AND_NEWLINE),  # several lines for users; the core checks each
    **_numbers("ExitStatus", "code signal", ANY_I32),
    # ---- which jobs
    **_lists("JobFilter", "partitions names states accounts qos reservations wckeys users"),
    "JobFilter.nodes": Each(LIST, 256),
    "JobFilter.ids": Each(IDS, IDS_MAX),
    "CancelJobsRequest.signal": ANY_I32,
    "ControlJobsRequest.ids": Each(IDS, CHANGED_IDS_MAX),
    "UpdateJobsRequest.ids": Each(IDS, CHANGED_IDS_MAX),
    "ListStepsRequest.ids": Each(IDS, 10_000),
    "ListNodesRequest.names": Each(LIST, 4_096),
    "ListJobsRequest.columns": Each(Text(64), 256),
    "ListJobsRequest.known": Data(64),
    "ListNodesRequest.known": Data(64),
    "ListGpuReadingsRequest.names": Each(LIST, 4_096),
    "ListGpuReadingsRequest.known": Data(64),
    "ListPartitionsRequest.known": Data(64),
    "ListReservationsRequest.known": Data(64),
    "JobWindow.order": Text(64),
    "JobWindow.words": Each(Text(64), 16),
    "JobWindow.first": ANY_U32,
    "JobWindow.count": Number(0, WINDOW_ROWS_MAX),
    # ---- changes
    **{
        f"{message}.changes": _CHANGES
        for message in (
            "ChangeQosRequest",
            "UpdateNodesRequest",
            "UpdatePartitionRequest",
            "CreateReservationRequest",
            "UpdateReservationRequest",
            "CreatePartitionRequest",
            "CreateNodesRequest",
            "ChangeAccountsRequest",
        )
    },
    **dict.fromkeys(("UpdateJobsRequest.changes", "ModifyRecordsRequest.changes"), _JOB_CHANGES),
    **dict.fromkeys(("UpdateNodesRequest.names", "CreateNodesRequest.names", "DeleteNodesRequest.names"), NODES),
    **dict.fromkeys(("UpdatePartitionRequest.name", "CreatePartitionRequest.name"), PARTITION),
    "DeletePartitionRequest.name": PARTITION,
    "ChangeAccountsRequest.where": _CHANGES,
    **_lists("ChangeAccountsRequest", "accounts parents partitions users", 10_000),
    **dict.fromkeys(("ChangeAccountsRequest.names", "ChangeQosRequest.names"), Each(ENTITY, 10_000)),
    "ListQosRequest.names": Each(ENTITY),
    "UpdateJobsRequest.user": LOGIN,
    "UpdateJobsRequest.job_name": Text(NAME_MAX),
    **dict.fromkeys((f"{act}ReservationRequest.name" for act in ("Create", "Update", "Delete")), ENTITY),
    "IssueTokenRequest.for_user": LOGIN,
    "RevokeTokensRequest.for_user": LOGIN,
    **dict.fromkeys(("ListPersonalTokensRequest.user", "RevokePersonalTokenRequest.for_user"), LOGIN),
    **dict.fromkeys(("CreatePersonalTokenRequest.name", "RevokePersonalTokenRequest.name"), ENTITY),
    "ChangeManyRequest.changes": Each(Inside(), 50_000),
    "SetControllerRequest.fair_share_dampening_factor": ANY_U32,
    "SetControllerRequest.nodes": LIST,
    "PurgeRequest.after": Pairs(Text(64), Text(64)),
    **{
        f"{message}Request.cluster": ENTITY
        for message in (
            "ListRecords",
            "ListQos",
            "ListCounters",
            "ListAssociations",
            "ListWckeys",
            "ListTres",
            "ListResources",
            "ListEvents",
            "ListTransactions",
            "Report",
        )
    },
    "FixRunawayRequest.job_ids": Each(ANY_U32, IDS_MAX),
    # ---- reports
    "ListRecordsRequest.ids": Each(IDS, IDS_MAX),
    "ListProfilesRequest.ids": Each(IDS, 1_000),
    **_lists("ListRecordsRequest", "users accounts partitions names qos wckeys", 10_000),
    **_lists("ListRecordsRequest", "states"),
    **_lists("ListStepsRequest", "users"),
    **_lists("ListCountersRequest", "accounts users qos"),
    **_lists("ListBudgetsRequest", "accounts"),
    **_lists("ListEventsRequest", "states users"),
    **_lists("ListTransactionsRequest", "actors accounts users"),
    **_lists("ListAuditRequest", "users"),
    **_lists("FitsRequest", "partitions"),
    "ShowPlanChangeRequest.nodes": Each(LIST, 256),
    **_lists("WatchRequest", "users"),
    "WatchRequest.kinds": Each(Text(16), 16),
    "WatchRequest.after": ANY_I63,
    "ListRecordsRequest.nodes": Each(LIST, 256),
    "RecordWindow.first": ANY_U32,
    "RecordWindow.count": Number(0, WINDOW_ROWS_MAX),
    "ListRecordsRequest.group_ids": Each(ANY_U32),
    "ListRecordsRequest.assoc_ids": Each(ANY_U32),
    **_lists("ReportRequest", "accounts users wckeys qos partitions names job_ids", 10_000),
    "ReportRequest.nodes": Each(LIST, 256),
    "ReportRequest.bounds": Each(Number(0, I31)),
    "ReportRequest.gids": Each(ANY_U32),
    "ListEventsRequest.nodes": Each(LIST, 256),
    "ListTransactionsRequest.ids": Each(ANY_I63),
    "ListAuditRequest.from_id": ANY_I63,
    "ListAuditRequest.records_max": ANY_U32,
    # ---- crontabs, triggers
    **dict.fromkeys((f"{act}Request.user" for act in ("GetCrontab", "UpdateCrontab", "ClearTriggers")), LOGIN),
    "UpdateCrontabRequest.text": Text(256 * KiB, TAB_AND_NEWLINE),  # the file as written by its owner
    "UpdateCrontabRequest.entries": Each(Inside(), 500),
    "CrontabEntry.cron": Text(NAME_MAX, "\t"),  # cron's fields may be separated by tabs
    **_numbers("LineRange", "first last", ANY_U32),
    "SetTriggerRequest.kinds": ANY_U32,
    "SetTriggerRequest.what": Text(64),  # one of Slurm's names of events
    "SetTriggerRequest.offset_s": Number(-DURATION_MAX_S, DURATION_MAX_S, Code.INVALID_TIME_VALUE),
    "SetTriggerRequest.nodes": LIST,
    "AttachStepRequest.step_id": ANY_I32,
    "OpenOutputRequest.step_id": ANY_I32,
    "OpenOutputRequest.task": ANY_U32,
    "AwaitStepRequest.step_id": ANY_I32,
    "AwaitStepRequest.attempt": ANY_U32,
    # ---- joining
    **dict.fromkeys(("CreateNodeTokenRequest.node_name", "JoinNodeRequest.node_name", "Register.node_name"), HOST),
    "JoinNodeRequest.csr_pem": Data(64 * KiB),
    "RenewCertificateRequest.certificate_pem": Data(64 * KiB),
    "RenewCertificateRequest.csr_pem": Data(64 * KiB),
    # ---- nodes
    "NodeMessage.more": Each(Inside(), 100_000),
    "Register.held": Each(Inside(), 200_000),
    "Register.protocol": ANY_U32,
    "Register.stream_port": ANY_U32,
    **_numbers("Inventory", "cpus boards sockets cores_per_socket threads_per_core", Number(0, COUNT_MAX)),
    "Inventory.gpus": Each(Inside(), 4_096),
    **_numbers("GpuDevice", "index minor slices", ANY_U32),
    "GpuDevice.numa_node": ANY_I32,
    "GpuDevice.near_cpus": Each(Number(0, 0xFFFF), 65_536),  # they become a bit mask: 2^32 would be one of 512 MB
    "GpuDevice.links": Each(ANY_I32, 4_096),
    "GpuHealth.state": ANY_U32,
    **_numbers("GpuXid", "xid times", ANY_U32),
    "StepKey.attempt": ANY_U32,
    "StepKey.step_id": ANY_I32,
    "Heartbeat.cpu_load_centi": ANY_U32,
    "GpuReadings.gpus": Each(Inside(), 4_096),
    # what is no figure of a GPU is left out, not mended: rpc/cluster/gpureadings.py
    **_numbers("GpuReading", "index utilization_percent memory_used_mb power_w", ANY_U32),
    "GpuReading.temperature_c": ANY_I32,
    **_numbers("GpuReading", "ecc_corrected ecc_uncorrected", ANY_I63),
    "NodeNotice.signal": ANY_U32,
    "StepStarted.pid": ANY_I32,
    "StepExited.tasks": Each(Inside(), 65_536),
    "TaskExit.rank": ANY_U32,
    "StepExited.task_ends": Each(Inside(), 1_024),  # the core takes less of both: penstock/values/taskends.py
    "StepExited.task_ends_left_out": ANY_U32,
    "TaskEnds.ranks": Text(16 * KiB),
    "Usage.tasks": ANY_U32,
    **_numbers("UsageMetric", "total max min", COUNTER),
    **_numbers("UsageMetric", "max_task min_task", ANY_U32),
    "GpuReport.health": Each(Inside(), 4_096),
    "GpuReport.jobs": Each(Inside(), 65_536),
    "GpuIdle.uuid": Each(Text(256), 4_096),
    "StepProfile.profile": Data(64 * KiB),
}

_PACKAGE: Final = "penstock.v1."


# ---- the table by field -------------------------------------------------------------------------------------------


def _name(field: FieldDescriptor) -> str:
    return str(field.full_name).removeprefix(_PACKAGE)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _by_rule(field: FieldDescriptor) -> Bound | None:
    """Returns the bound of one value of a field by type and name."""
    if field.message_type is not None:
        return Inside()
    if field.type == FieldDescriptor.TYPE_STRING:
        return Text()
    if field.type == FieldDescriptor.TYPE_BYTES:
        return Data(PATH_MAX, is_path=True)
    if field.enum_type is not None:
        return Choice(frozenset(field.enum_type.values_by_number))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return Free()
    return next((bound for end, bound in RULES if field.name.endswith(end)), None)


def bound_of(field: FieldDescriptor) -> Bound:
    """Returns a field's bound. LookupError when there is none."""
    said = FIELDS.get(_name(field))
    if said is not None:
        return said
    one = None if _is_map(field) else _by_rule(field)
    if one is None:
        raise LookupError(f"there is no bound for {_name(field)}: add it to FIELDS in ctld/rpc/gate/bounds.py")
    return Each(one) if field.is_repeated else one


def requests(files: Iterable[FileDescriptor]) -> dict[str, Descriptor]:
    """Returns the request message of every method of these files' services."""
    return {
        f"/{service.full_name}/{method.name}": method.input_type
        for file in files
        for service in file.services_by_name.values()
        for method in service.methods
    }


def _known(descriptor: Descriptor, found: dict[str, Descriptor]) -> None:
    if descriptor.full_name in found:
        return
    found[descriptor.full_name] = descriptor
    for field in descriptor.fields:
        if field.message_type is not None and not _is_map(field):
            _known(field.message_type, found)


def check_complete(files: Iterable[FileDescriptor]) -> None:
    """Checks that every field that a caller can set has a bound of its kind, and that the tables name no unknown ones."""
    methods = requests(files)
    messages: dict[str, Descriptor] = {}
    for descriptor in methods.values():
        _known(descriptor, messages)
    fields = {_name(field): field for descriptor in messages.values() for field in descriptor.fields}
    for name, field in fields.items():
        bound = bound_of(field)
        if field.is_repeated != isinstance(bound, Each | Pairs) or _is_map(field) != isinstance(bound, Pairs):
            raise RuntimeError(f"the bound of {name} is not one of its kind: {bound}")
    if stale := sorted((FIELDS.keys() - fields.keys()) | ((BYTES.keys() | ELEMENTS.keys()) - methods.keys())):
        raise RuntimeError(f"ctld/rpc/gate/bounds.py names what does not exist: {', '.join(stale)}")
