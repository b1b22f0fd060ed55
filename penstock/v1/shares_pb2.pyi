from penstock.v1 import controller_pb2 as _controller_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListAssociationsRequest(_message.Message):
    __slots__ = ("with_deleted", "cluster")
    WITH_DELETED_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    with_deleted: bool
    cluster: str
    def __init__(self, with_deleted: bool = ..., cluster: _Optional[str] = ...) -> None: ...

class ListAssociationsReply(_message.Message):
    __slots__ = ("associations", "accounts", "users", "cluster", "multifactor", "fair_tree", "controller_host", "controller_port", "without_jobs")
    ASSOCIATIONS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MULTIFACTOR_FIELD_NUMBER: _ClassVar[int]
    FAIR_TREE_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_HOST_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_PORT_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_JOBS_FIELD_NUMBER: _ClassVar[int]
    associations: _containers.RepeatedCompositeFieldContainer[Association]
    accounts: _containers.RepeatedCompositeFieldContainer[AccountInfo]
    users: _containers.RepeatedCompositeFieldContainer[UserInfo]
    cluster: str
    multifactor: bool
    fair_tree: bool
    controller_host: str
    controller_port: int
    without_jobs: bool
    def __init__(self, associations: _Optional[_Iterable[_Union[Association, _Mapping]]] = ..., accounts: _Optional[_Iterable[_Union[AccountInfo, _Mapping]]] = ..., users: _Optional[_Iterable[_Union[UserInfo, _Mapping]]] = ..., cluster: _Optional[str] = ..., multifactor: bool = ..., fair_tree: bool = ..., controller_host: _Optional[str] = ..., controller_port: _Optional[int] = ..., without_jobs: bool = ...) -> None: ...

class Association(_message.Message):
    __slots__ = ("id", "account", "user", "parent", "shares", "priority", "depth", "norm_shares", "usage_s", "norm_usage", "effective_usage", "fair_share", "level_fs", "made_by_itself", "partition", "limits", "qos", "default_qos", "deleted", "tres_mins", "tres_run_mins", "own_qos", "budget")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class TresMinsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class TresRunMinsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    NORM_SHARES_FIELD_NUMBER: _ClassVar[int]
    USAGE_S_FIELD_NUMBER: _ClassVar[int]
    NORM_USAGE_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_USAGE_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FS_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_ITSELF_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_QOS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    TRES_MINS_FIELD_NUMBER: _ClassVar[int]
    TRES_RUN_MINS_FIELD_NUMBER: _ClassVar[int]
    OWN_QOS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    id: int
    account: str
    user: str
    parent: str
    shares: int
    priority: int
    depth: int
    norm_shares: float
    usage_s: int
    norm_usage: float
    effective_usage: float
    fair_share: float
    level_fs: float
    made_by_itself: bool
    partition: str
    limits: _containers.ScalarMap[str, str]
    qos: _containers.RepeatedScalarFieldContainer[str]
    default_qos: str
    deleted: bool
    tres_mins: _containers.ScalarMap[str, str]
    tres_run_mins: _containers.ScalarMap[str, str]
    own_qos: _containers.RepeatedScalarFieldContainer[str]
    budget: str
    def __init__(self, id: _Optional[int] = ..., account: _Optional[str] = ..., user: _Optional[str] = ..., parent: _Optional[str] = ..., shares: _Optional[int] = ..., priority: _Optional[int] = ..., depth: _Optional[int] = ..., norm_shares: _Optional[float] = ..., usage_s: _Optional[int] = ..., norm_usage: _Optional[float] = ..., effective_usage: _Optional[float] = ..., fair_share: _Optional[float] = ..., level_fs: _Optional[float] = ..., made_by_itself: bool = ..., partition: _Optional[str] = ..., limits: _Optional[_Mapping[str, str]] = ..., qos: _Optional[_Iterable[str]] = ..., default_qos: _Optional[str] = ..., deleted: bool = ..., tres_mins: _Optional[_Mapping[str, str]] = ..., tres_run_mins: _Optional[_Mapping[str, str]] = ..., own_qos: _Optional[_Iterable[str]] = ..., budget: _Optional[str] = ...) -> None: ...

class AccountInfo(_message.Message):
    __slots__ = ("name", "description", "organization", "coordinators", "deleted")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ORGANIZATION_FIELD_NUMBER: _ClassVar[int]
    COORDINATORS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    organization: str
    coordinators: _containers.RepeatedScalarFieldContainer[str]
    deleted: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., organization: _Optional[str] = ..., coordinators: _Optional[_Iterable[str]] = ..., deleted: bool = ...) -> None: ...

class UserInfo(_message.Message):
    __slots__ = ("name", "default_account", "admin_level", "default_wckey", "coordinator_of", "deleted")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    ADMIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_WCKEY_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_OF_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    name: str
    default_account: str
    admin_level: str
    default_wckey: str
    coordinator_of: _containers.RepeatedScalarFieldContainer[str]
    deleted: bool
    def __init__(self, name: _Optional[str] = ..., default_account: _Optional[str] = ..., admin_level: _Optional[str] = ..., default_wckey: _Optional[str] = ..., coordinator_of: _Optional[_Iterable[str]] = ..., deleted: bool = ...) -> None: ...

class ListPrioritiesRequest(_message.Message):
    __slots__ = ("filter", "normalized")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    NORMALIZED_FIELD_NUMBER: _ClassVar[int]
    filter: _controller_pb2.JobFilter
    normalized: bool
    def __init__(self, filter: _Optional[_Union[_controller_pb2.JobFilter, _Mapping]] = ..., normalized: bool = ...) -> None: ...

class ListPrioritiesReply(_message.Message):
    __slots__ = ("jobs", "weights")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobPriority]
    weights: PriorityWeights
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobPriority, _Mapping]]] = ..., weights: _Optional[_Union[PriorityWeights, _Mapping]] = ...) -> None: ...

class JobPriority(_message.Message):
    __slots__ = ("job_id", "array_job_id", "array_task_id", "array_tasks", "user_name", "account", "partition", "qos", "priority", "age", "assoc", "fair_share", "job_size", "partition_factor", "qos_factor", "tres", "site", "nice", "normalized")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASKS_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    ASSOC_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_FIELD_NUMBER: _ClassVar[int]
    JOB_SIZE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    QOS_FACTOR_FIELD_NUMBER: _ClassVar[int]
    TRES_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    NICE_FIELD_NUMBER: _ClassVar[int]
    NORMALIZED_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    array_job_id: int
    array_task_id: int
    array_tasks: str
    user_name: str
    account: str
    partition: str
    qos: str
    priority: int
    age: int
    assoc: int
    fair_share: int
    job_size: int
    partition_factor: int
    qos_factor: int
    tres: _containers.RepeatedScalarFieldContainer[int]
    site: int
    nice: int
    normalized: NormalizedFactors
    def __init__(self, job_id: _Optional[int] = ..., array_job_id: _Optional[int] = ..., array_task_id: _Optional[int] = ..., array_tasks: _Optional[str] = ..., user_name: _Optional[str] = ..., account: _Optional[str] = ..., partition: _Optional[str] = ..., qos: _Optional[str] = ..., priority: _Optional[int] = ..., age: _Optional[int] = ..., assoc: _Optional[int] = ..., fair_share: _Optional[int] = ..., job_size: _Optional[int] = ..., partition_factor: _Optional[int] = ..., qos_factor: _Optional[int] = ..., tres: _Optional[_Iterable[int]] = ..., site: _Optional[int] = ..., nice: _Optional[int] = ..., normalized: _Optional[_Union[NormalizedFactors, _Mapping]] = ...) -> None: ...

class NormalizedFactors(_message.Message):
    __slots__ = ("age", "assoc", "fair_share", "job_size", "partition", "qos", "tres")
    AGE_FIELD_NUMBER: _ClassVar[int]
    ASSOC_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_FIELD_NUMBER: _ClassVar[int]
    JOB_SIZE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    TRES_FIELD_NUMBER: _ClassVar[int]
    age: float
    assoc: float
    fair_share: float
    job_size: float
    partition: float
    qos: float
    tres: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, age: _Optional[float] = ..., assoc: _Optional[float] = ..., fair_share: _Optional[float] = ..., job_size: _Optional[float] = ..., partition: _Optional[float] = ..., qos: _Optional[float] = ..., tres: _Optional[_Iterable[float]] = ...) -> None: ...

class PriorityWeights(_message.Message):
    __slots__ = ("multifactor", "age", "assoc", "fair_share", "job_size", "partition", "qos", "tres", "tres_weights")
    MULTIFACTOR_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    ASSOC_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_FIELD_NUMBER: _ClassVar[int]
    JOB_SIZE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    TRES_FIELD_NUMBER: _ClassVar[int]
    TRES_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    multifactor: bool
    age: int
    assoc: int
    fair_share: int
    job_size: int
    partition: int
    qos: int
    tres: _containers.RepeatedScalarFieldContainer[str]
    tres_weights: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, multifactor: bool = ..., age: _Optional[int] = ..., assoc: _Optional[int] = ..., fair_share: _Optional[int] = ..., job_size: _Optional[int] = ..., partition: _Optional[int] = ..., qos: _Optional[int] = ..., tres: _Optional[_Iterable[str]] = ..., tres_weights: _Optional[_Iterable[float]] = ...) -> None: ...

class ChangeAccountsRequest(_message.Message):
    __slots__ = ("action", "entity", "names", "accounts", "parents", "changes", "check_only", "partitions", "users", "where")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NOTHING: _ClassVar[ChangeAccountsRequest.Action]
        ADD: _ClassVar[ChangeAccountsRequest.Action]
        MODIFY: _ClassVar[ChangeAccountsRequest.Action]
        REMOVE: _ClassVar[ChangeAccountsRequest.Action]
    NOTHING: ChangeAccountsRequest.Action
    ADD: ChangeAccountsRequest.Action
    MODIFY: ChangeAccountsRequest.Action
    REMOVE: ChangeAccountsRequest.Action
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class WhereEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    CHECK_ONLY_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    action: ChangeAccountsRequest.Action
    entity: str
    names: _containers.RepeatedScalarFieldContainer[str]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    parents: _containers.RepeatedScalarFieldContainer[str]
    changes: _containers.ScalarMap[str, str]
    check_only: bool
    partitions: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    where: _containers.ScalarMap[str, str]
    def __init__(self, action: _Optional[_Union[ChangeAccountsRequest.Action, str]] = ..., entity: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., accounts: _Optional[_Iterable[str]] = ..., parents: _Optional[_Iterable[str]] = ..., changes: _Optional[_Mapping[str, str]] = ..., check_only: bool = ..., partitions: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., where: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ChangeAccountsReply(_message.Message):
    __slots__ = ("names", "associations")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    ASSOCIATIONS_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    associations: _containers.RepeatedCompositeFieldContainer[Association]
    def __init__(self, names: _Optional[_Iterable[str]] = ..., associations: _Optional[_Iterable[_Union[Association, _Mapping]]] = ...) -> None: ...
