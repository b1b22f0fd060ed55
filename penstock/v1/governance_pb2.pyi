from penstock.v1 import accounting_pb2 as _accounting_pb2
from penstock.v1 import controller_pb2 as _controller_pb2
from penstock.v1 import shares_pb2 as _shares_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ChangeManyRequest(_message.Message):
    __slots__ = ("changes", "check_only")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    CHECK_ONLY_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    check_only: bool
    def __init__(self, changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., check_only: bool = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("accounts", "qos")
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    accounts: _shares_pb2.ChangeAccountsRequest
    qos: _controller_pb2.ChangeQosRequest
    def __init__(self, accounts: _Optional[_Union[_shares_pb2.ChangeAccountsRequest, _Mapping]] = ..., qos: _Optional[_Union[_controller_pb2.ChangeQosRequest, _Mapping]] = ...) -> None: ...

class ChangeManyReply(_message.Message):
    __slots__ = ("replies",)
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    replies: _containers.RepeatedCompositeFieldContainer[_shares_pb2.ChangeAccountsReply]
    def __init__(self, replies: _Optional[_Iterable[_Union[_shares_pb2.ChangeAccountsReply, _Mapping]]] = ...) -> None: ...

class ListWckeysRequest(_message.Message):
    __slots__ = ("with_deleted", "cluster")
    WITH_DELETED_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    with_deleted: bool
    cluster: str
    def __init__(self, with_deleted: bool = ..., cluster: _Optional[str] = ...) -> None: ...

class ListWckeysReply(_message.Message):
    __slots__ = ("wckeys",)
    WCKEYS_FIELD_NUMBER: _ClassVar[int]
    wckeys: _containers.RepeatedCompositeFieldContainer[WckeyInfo]
    def __init__(self, wckeys: _Optional[_Iterable[_Union[WckeyInfo, _Mapping]]] = ...) -> None: ...

class WckeyInfo(_message.Message):
    __slots__ = ("id", "name", "user", "is_default", "deleted")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    user: str
    is_default: bool
    deleted: bool
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., is_default: bool = ..., deleted: bool = ...) -> None: ...

class ListClustersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListClustersReply(_message.Message):
    __slots__ = ("clusters",)
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[ClusterInfo]
    def __init__(self, clusters: _Optional[_Iterable[_Union[ClusterInfo, _Mapping]]] = ...) -> None: ...

class ClusterInfo(_message.Message):
    __slots__ = ("name", "controller_host", "controller_port", "registered_at_us")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_HOST_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_PORT_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_US_FIELD_NUMBER: _ClassVar[int]
    name: str
    controller_host: str
    controller_port: int
    registered_at_us: int
    def __init__(self, name: _Optional[str] = ..., controller_host: _Optional[str] = ..., controller_port: _Optional[int] = ..., registered_at_us: _Optional[int] = ...) -> None: ...

class ListTresRequest(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    def __init__(self, cluster: _Optional[str] = ...) -> None: ...

class ListTresReply(_message.Message):
    __slots__ = ("tres",)
    TRES_FIELD_NUMBER: _ClassVar[int]
    tres: _containers.RepeatedCompositeFieldContainer[TresInfo]
    def __init__(self, tres: _Optional[_Iterable[_Union[TresInfo, _Mapping]]] = ...) -> None: ...

class TresInfo(_message.Message):
    __slots__ = ("id", "type", "name", "count")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    id: int
    type: str
    name: str
    count: int
    def __init__(self, id: _Optional[int] = ..., type: _Optional[str] = ..., name: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class ListResourcesRequest(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    def __init__(self, cluster: _Optional[str] = ...) -> None: ...

class ListResourcesReply(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[ResourceInfo]
    def __init__(self, resources: _Optional[_Iterable[_Union[ResourceInfo, _Mapping]]] = ...) -> None: ...

class ResourceInfo(_message.Message):
    __slots__ = ("name", "server", "type", "count", "allowed", "last_consumed", "flags", "manager", "description")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    LAST_CONSUMED_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    MANAGER_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    server: str
    type: str
    count: int
    allowed: int
    last_consumed: int
    flags: _containers.RepeatedScalarFieldContainer[str]
    manager: str
    description: str
    def __init__(self, name: _Optional[str] = ..., server: _Optional[str] = ..., type: _Optional[str] = ..., count: _Optional[int] = ..., allowed: _Optional[int] = ..., last_consumed: _Optional[int] = ..., flags: _Optional[_Iterable[str]] = ..., manager: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class ListCountersRequest(_message.Message):
    __slots__ = ("accounts", "users", "qos", "what", "cluster")
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    qos: _containers.RepeatedScalarFieldContainer[str]
    what: _containers.RepeatedScalarFieldContainer[str]
    cluster: str
    def __init__(self, accounts: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., qos: _Optional[_Iterable[str]] = ..., what: _Optional[_Iterable[str]] = ..., cluster: _Optional[str] = ...) -> None: ...

class ListCountersReply(_message.Message):
    __slots__ = ("counters",)
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    counters: _containers.RepeatedCompositeFieldContainer[Counters]
    def __init__(self, counters: _Optional[_Iterable[_Union[Counters, _Mapping]]] = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("assoc_id", "account", "user", "partition", "qos", "parent", "limits", "used", "shares", "usage_raw", "users_with_jobs")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class UsedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ASSOC_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    USAGE_RAW_FIELD_NUMBER: _ClassVar[int]
    USERS_WITH_JOBS_FIELD_NUMBER: _ClassVar[int]
    assoc_id: int
    account: str
    user: str
    partition: str
    qos: str
    parent: str
    limits: _containers.ScalarMap[str, str]
    used: _containers.ScalarMap[str, str]
    shares: int
    usage_raw: float
    users_with_jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, assoc_id: _Optional[int] = ..., account: _Optional[str] = ..., user: _Optional[str] = ..., partition: _Optional[str] = ..., qos: _Optional[str] = ..., parent: _Optional[str] = ..., limits: _Optional[_Mapping[str, str]] = ..., used: _Optional[_Mapping[str, str]] = ..., shares: _Optional[int] = ..., usage_raw: _Optional[float] = ..., users_with_jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class ListBudgetsRequest(_message.Message):
    __slots__ = ("accounts",)
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, accounts: _Optional[_Iterable[str]] = ...) -> None: ...

class ListBudgetsReply(_message.Message):
    __slots__ = ("budgets",)
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    budgets: _containers.RepeatedCompositeFieldContainer[BudgetInfo]
    def __init__(self, budgets: _Optional[_Iterable[_Union[BudgetInfo, _Mapping]]] = ...) -> None: ...

class BudgetInfo(_message.Message):
    __slots__ = ("account", "amount", "unit", "period", "used", "reserved", "period_start_us", "period_end_us", "problem")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    PERIOD_START_US_FIELD_NUMBER: _ClassVar[int]
    PERIOD_END_US_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    account: str
    amount: str
    unit: str
    period: str
    used: float
    reserved: float
    period_start_us: int
    period_end_us: int
    problem: str
    def __init__(self, account: _Optional[str] = ..., amount: _Optional[str] = ..., unit: _Optional[str] = ..., period: _Optional[str] = ..., used: _Optional[float] = ..., reserved: _Optional[float] = ..., period_start_us: _Optional[int] = ..., period_end_us: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class ListEventsRequest(_message.Message):
    __slots__ = ("start_at_us", "end_at_us", "nodes", "states", "users", "all_clusters_events", "reasons", "cluster")
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    ALL_CLUSTERS_EVENTS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    start_at_us: int
    end_at_us: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    states: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    all_clusters_events: bool
    reasons: _containers.RepeatedScalarFieldContainer[str]
    cluster: str
    def __init__(self, start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., states: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., all_clusters_events: bool = ..., reasons: _Optional[_Iterable[str]] = ..., cluster: _Optional[str] = ...) -> None: ...

class ListEventsReply(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[EventInfo]
    def __init__(self, events: _Optional[_Iterable[_Union[EventInfo, _Mapping]]] = ...) -> None: ...

class EventInfo(_message.Message):
    __slots__ = ("node", "start_at_us", "end_at_us", "state", "reason", "user", "tres", "event_type")
    NODE_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TRES_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    node: str
    start_at_us: int
    end_at_us: int
    state: str
    reason: str
    user: str
    tres: str
    event_type: str
    def __init__(self, node: _Optional[str] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., user: _Optional[str] = ..., tres: _Optional[str] = ..., event_type: _Optional[str] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("start_at_us", "end_at_us", "actions", "actors", "accounts", "users", "ids", "cluster")
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    start_at_us: int
    end_at_us: int
    actions: _containers.RepeatedScalarFieldContainer[str]
    actors: _containers.RepeatedScalarFieldContainer[str]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    ids: _containers.RepeatedScalarFieldContainer[int]
    cluster: str
    def __init__(self, start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., actions: _Optional[_Iterable[str]] = ..., actors: _Optional[_Iterable[str]] = ..., accounts: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., ids: _Optional[_Iterable[int]] = ..., cluster: _Optional[str] = ...) -> None: ...

class ListTransactionsReply(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionInfo]
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionInfo, _Mapping]]] = ...) -> None: ...

class TransactionInfo(_message.Message):
    __slots__ = ("id", "at_us", "action", "actor", "where", "info", "accounts", "users", "cluster")
    ID_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    id: int
    at_us: int
    action: str
    actor: str
    where: str
    info: str
    accounts: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    cluster: str
    def __init__(self, id: _Optional[int] = ..., at_us: _Optional[int] = ..., action: _Optional[str] = ..., actor: _Optional[str] = ..., where: _Optional[str] = ..., info: _Optional[str] = ..., accounts: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., cluster: _Optional[str] = ...) -> None: ...

class ListAuditRequest(_message.Message):
    __slots__ = ("from_id", "start_at_us", "end_at_us", "users", "records_max")
    FROM_ID_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_MAX_FIELD_NUMBER: _ClassVar[int]
    from_id: int
    start_at_us: int
    end_at_us: int
    users: _containers.RepeatedScalarFieldContainer[str]
    records_max: int
    def __init__(self, from_id: _Optional[int] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., users: _Optional[_Iterable[str]] = ..., records_max: _Optional[int] = ...) -> None: ...

class ListAuditReply(_message.Message):
    __slots__ = ("records", "head_id", "head_hash", "previous_hash")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    HEAD_ID_FIELD_NUMBER: _ClassVar[int]
    HEAD_HASH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_HASH_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[AuditInfo]
    head_id: int
    head_hash: str
    previous_hash: str
    def __init__(self, records: _Optional[_Iterable[_Union[AuditInfo, _Mapping]]] = ..., head_id: _Optional[int] = ..., head_hash: _Optional[str] = ..., previous_hash: _Optional[str] = ...) -> None: ...

class AuditInfo(_message.Message):
    __slots__ = ("id", "record", "hash")
    ID_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    id: int
    record: str
    hash: str
    def __init__(self, id: _Optional[int] = ..., record: _Optional[str] = ..., hash: _Optional[str] = ...) -> None: ...

class ListRunawayRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRunawayReply(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[RunawayJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[RunawayJob, _Mapping]]] = ...) -> None: ...

class RunawayJob(_message.Message):
    __slots__ = ("job_id", "attempt", "name", "partition", "state", "submit_at_us", "start_at_us", "end_at_us", "user", "account")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_AT_US_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    attempt: int
    name: str
    partition: str
    state: str
    submit_at_us: int
    start_at_us: int
    end_at_us: int
    user: str
    account: str
    def __init__(self, job_id: _Optional[int] = ..., attempt: _Optional[int] = ..., name: _Optional[str] = ..., partition: _Optional[str] = ..., state: _Optional[str] = ..., submit_at_us: _Optional[int] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., user: _Optional[str] = ..., account: _Optional[str] = ...) -> None: ...

class FixRunawayRequest(_message.Message):
    __slots__ = ("job_ids",)
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, job_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class FixRunawayReply(_message.Message):
    __slots__ = ("fixed",)
    FIXED_FIELD_NUMBER: _ClassVar[int]
    fixed: int
    def __init__(self, fixed: _Optional[int] = ...) -> None: ...

class ModifyRecordsRequest(_message.Message):
    __slots__ = ("which", "started_from_us", "ended_until_us", "changes", "check_only")
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WHICH_FIELD_NUMBER: _ClassVar[int]
    STARTED_FROM_US_FIELD_NUMBER: _ClassVar[int]
    ENDED_UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    CHECK_ONLY_FIELD_NUMBER: _ClassVar[int]
    which: _accounting_pb2.ListRecordsRequest
    started_from_us: int
    ended_until_us: int
    changes: _containers.ScalarMap[str, str]
    check_only: bool
    def __init__(self, which: _Optional[_Union[_accounting_pb2.ListRecordsRequest, _Mapping]] = ..., started_from_us: _Optional[int] = ..., ended_until_us: _Optional[int] = ..., changes: _Optional[_Mapping[str, str]] = ..., check_only: bool = ...) -> None: ...

class ModifyRecordsReply(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[ModifiedRecord]
    def __init__(self, records: _Optional[_Iterable[_Union[ModifiedRecord, _Mapping]]] = ...) -> None: ...

class ModifiedRecord(_message.Message):
    __slots__ = ("job_id", "submit_at_us")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_AT_US_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    submit_at_us: int
    def __init__(self, job_id: _Optional[int] = ..., submit_at_us: _Optional[int] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("kind", "start_at_us", "end_at_us", "group_by", "tres", "accounts", "users", "wckeys", "qos", "partitions", "nodes", "bounds", "sizes_in_nodes", "names", "gids", "with_subaccounts", "each_size", "job_ids", "cluster")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NOTHING: _ClassVar[ReportRequest.Kind]
        USAGE: _ClassVar[ReportRequest.Kind]
        CLUSTER: _ClassVar[ReportRequest.Kind]
        JOB_SIZES: _ClassVar[ReportRequest.Kind]
        RESERVATIONS: _ClassVar[ReportRequest.Kind]
        WAITS: _ClassVar[ReportRequest.Kind]
        EFFICIENCY: _ClassVar[ReportRequest.Kind]
        WASTE: _ClassVar[ReportRequest.Kind]
    NOTHING: ReportRequest.Kind
    USAGE: ReportRequest.Kind
    CLUSTER: ReportRequest.Kind
    JOB_SIZES: ReportRequest.Kind
    RESERVATIONS: ReportRequest.Kind
    WAITS: ReportRequest.Kind
    EFFICIENCY: ReportRequest.Kind
    WASTE: ReportRequest.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_FIELD_NUMBER: _ClassVar[int]
    TRES_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    WCKEYS_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    SIZES_IN_NODES_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    GIDS_FIELD_NUMBER: _ClassVar[int]
    WITH_SUBACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    EACH_SIZE_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    kind: ReportRequest.Kind
    start_at_us: int
    end_at_us: int
    group_by: _containers.RepeatedScalarFieldContainer[str]
    tres: _containers.RepeatedScalarFieldContainer[str]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    wckeys: _containers.RepeatedScalarFieldContainer[str]
    qos: _containers.RepeatedScalarFieldContainer[str]
    partitions: _containers.RepeatedScalarFieldContainer[str]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    bounds: _containers.RepeatedScalarFieldContainer[int]
    sizes_in_nodes: bool
    names: _containers.RepeatedScalarFieldContainer[str]
    gids: _containers.RepeatedScalarFieldContainer[int]
    with_subaccounts: bool
    each_size: bool
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    cluster: str
    def __init__(self, kind: _Optional[_Union[ReportRequest.Kind, str]] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., group_by: _Optional[_Iterable[str]] = ..., tres: _Optional[_Iterable[str]] = ..., accounts: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., wckeys: _Optional[_Iterable[str]] = ..., qos: _Optional[_Iterable[str]] = ..., partitions: _Optional[_Iterable[str]] = ..., nodes: _Optional[_Iterable[str]] = ..., bounds: _Optional[_Iterable[int]] = ..., sizes_in_nodes: bool = ..., names: _Optional[_Iterable[str]] = ..., gids: _Optional[_Iterable[int]] = ..., with_subaccounts: bool = ..., each_size: bool = ..., job_ids: _Optional[_Iterable[str]] = ..., cluster: _Optional[str] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("rows", "rolled_up_to_us")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ROLLED_UP_TO_US_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[ReportRow]
    rolled_up_to_us: int
    def __init__(self, rows: _Optional[_Iterable[_Union[ReportRow, _Mapping]]] = ..., rolled_up_to_us: _Optional[int] = ...) -> None: ...

class ReportRow(_message.Message):
    __slots__ = ("keys", "tres", "values")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TRES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    tres: str
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., tres: _Optional[str] = ..., values: _Optional[_Iterable[int]] = ...) -> None: ...

class PurgeRequest(_message.Message):
    __slots__ = ("after", "archive_folder", "check_only")
    class AfterEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_FOLDER_FIELD_NUMBER: _ClassVar[int]
    CHECK_ONLY_FIELD_NUMBER: _ClassVar[int]
    after: _containers.ScalarMap[str, str]
    archive_folder: str
    check_only: bool
    def __init__(self, after: _Optional[_Mapping[str, str]] = ..., archive_folder: _Optional[str] = ..., check_only: bool = ...) -> None: ...

class PurgeReply(_message.Message):
    __slots__ = ("records", "files")
    class RecordsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    records: _containers.ScalarMap[str, int]
    files: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, records: _Optional[_Mapping[str, int]] = ..., files: _Optional[_Iterable[str]] = ...) -> None: ...

class LoadArchiveRequest(_message.Message):
    __slots__ = ("file",)
    FILE_FIELD_NUMBER: _ClassVar[int]
    file: str
    def __init__(self, file: _Optional[str] = ...) -> None: ...

class LoadArchiveReply(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: int
    def __init__(self, records: _Optional[int] = ...) -> None: ...
