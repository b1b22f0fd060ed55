from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WhyJobRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class WhyJobReply(_message.Message):
    __slots__ = ("job_id", "shown_id", "state", "reason", "user_name", "last_event", "last_event_at_us", "now_us", "obstacles", "planned", "needs", "licenses", "reservations", "in_front", "in_front_more", "may_preempt", "victims", "hints", "name", "steps", "leaves")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SHOWN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_AT_US_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    OBSTACLES_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    LICENSES_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    IN_FRONT_FIELD_NUMBER: _ClassVar[int]
    IN_FRONT_MORE_FIELD_NUMBER: _ClassVar[int]
    MAY_PREEMPT_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    shown_id: str
    state: str
    reason: str
    user_name: str
    last_event: str
    last_event_at_us: int
    now_us: int
    obstacles: _containers.RepeatedCompositeFieldContainer[Obstacle]
    planned: PlannedStart
    needs: _containers.RepeatedCompositeFieldContainer[NodesNeeded]
    licenses: _containers.RepeatedCompositeFieldContainer[LicensesNeeded]
    reservations: _containers.RepeatedCompositeFieldContainer[ReservationInTheWay]
    in_front: _containers.RepeatedCompositeFieldContainer[JobInFront]
    in_front_more: int
    may_preempt: bool
    victims: _containers.RepeatedScalarFieldContainer[int]
    hints: _containers.RepeatedCompositeFieldContainer[Hint]
    name: str
    steps: _containers.RepeatedCompositeFieldContainer[StepThatWaits]
    leaves: _containers.RepeatedCompositeFieldContainer[UsedLeaf]
    def __init__(self, job_id: _Optional[int] = ..., shown_id: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., user_name: _Optional[str] = ..., last_event: _Optional[str] = ..., last_event_at_us: _Optional[int] = ..., now_us: _Optional[int] = ..., obstacles: _Optional[_Iterable[_Union[Obstacle, _Mapping]]] = ..., planned: _Optional[_Union[PlannedStart, _Mapping]] = ..., needs: _Optional[_Iterable[_Union[NodesNeeded, _Mapping]]] = ..., licenses: _Optional[_Iterable[_Union[LicensesNeeded, _Mapping]]] = ..., reservations: _Optional[_Iterable[_Union[ReservationInTheWay, _Mapping]]] = ..., in_front: _Optional[_Iterable[_Union[JobInFront, _Mapping]]] = ..., in_front_more: _Optional[int] = ..., may_preempt: bool = ..., victims: _Optional[_Iterable[int]] = ..., hints: _Optional[_Iterable[_Union[Hint, _Mapping]]] = ..., name: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[StepThatWaits, _Mapping]]] = ..., leaves: _Optional[_Iterable[_Union[UsedLeaf, _Mapping]]] = ...) -> None: ...

class UsedLeaf(_message.Message):
    __slots__ = ("name", "nodes", "jobs", "jobs_more", "is_owned")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    JOBS_MORE_FIELD_NUMBER: _ClassVar[int]
    IS_OWNED_FIELD_NUMBER: _ClassVar[int]
    name: str
    nodes: int
    jobs: _containers.RepeatedScalarFieldContainer[int]
    jobs_more: int
    is_owned: bool
    def __init__(self, name: _Optional[str] = ..., nodes: _Optional[int] = ..., jobs: _Optional[_Iterable[int]] = ..., jobs_more: _Optional[int] = ..., is_owned: bool = ...) -> None: ...

class StepThatWaits(_message.Message):
    __slots__ = ("name", "since_us", "waits_for")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    since_us: int
    waits_for: str
    def __init__(self, name: _Optional[str] = ..., since_us: _Optional[int] = ..., waits_for: _Optional[str] = ...) -> None: ...

class Obstacle(_message.Message):
    __slots__ = ("reason", "text", "at_us")
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    reason: str
    text: str
    at_us: int
    def __init__(self, reason: _Optional[str] = ..., text: _Optional[str] = ..., at_us: _Optional[int] = ...) -> None: ...

class PlannedStart(_message.Message):
    __slots__ = ("start_at_us", "node_list", "partition", "if_released")
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    IF_RELEASED_FIELD_NUMBER: _ClassVar[int]
    start_at_us: int
    node_list: str
    partition: str
    if_released: bool
    def __init__(self, start_at_us: _Optional[int] = ..., node_list: _Optional[str] = ..., partition: _Optional[str] = ..., if_released: bool = ...) -> None: ...

class NodesNeeded(_message.Message):
    __slots__ = ("partition", "nodes_wanted", "nodes_total", "nodes_qualify", "nodes_up", "nodes_free", "resources", "next_free_at_us", "next_free_node", "enough_free_at_us")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NODES_WANTED_FIELD_NUMBER: _ClassVar[int]
    NODES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    NODES_QUALIFY_FIELD_NUMBER: _ClassVar[int]
    NODES_UP_FIELD_NUMBER: _ClassVar[int]
    NODES_FREE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FREE_AT_US_FIELD_NUMBER: _ClassVar[int]
    NEXT_FREE_NODE_FIELD_NUMBER: _ClassVar[int]
    ENOUGH_FREE_AT_US_FIELD_NUMBER: _ClassVar[int]
    partition: str
    nodes_wanted: int
    nodes_total: int
    nodes_qualify: int
    nodes_up: int
    nodes_free: int
    resources: _containers.RepeatedCompositeFieldContainer[ResourceNeeded]
    next_free_at_us: int
    next_free_node: str
    enough_free_at_us: int
    def __init__(self, partition: _Optional[str] = ..., nodes_wanted: _Optional[int] = ..., nodes_total: _Optional[int] = ..., nodes_qualify: _Optional[int] = ..., nodes_up: _Optional[int] = ..., nodes_free: _Optional[int] = ..., resources: _Optional[_Iterable[_Union[ResourceNeeded, _Mapping]]] = ..., next_free_at_us: _Optional[int] = ..., next_free_node: _Optional[str] = ..., enough_free_at_us: _Optional[int] = ...) -> None: ...

class ResourceNeeded(_message.Message):
    __slots__ = ("name", "amount", "nodes_free")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    NODES_FREE_FIELD_NUMBER: _ClassVar[int]
    name: str
    amount: int
    nodes_free: int
    def __init__(self, name: _Optional[str] = ..., amount: _Optional[int] = ..., nodes_free: _Optional[int] = ...) -> None: ...

class LicensesNeeded(_message.Message):
    __slots__ = ("name", "wanted", "free", "enough_at_us")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    ENOUGH_AT_US_FIELD_NUMBER: _ClassVar[int]
    name: str
    wanted: int
    free: int
    enough_at_us: int
    def __init__(self, name: _Optional[str] = ..., wanted: _Optional[int] = ..., free: _Optional[int] = ..., enough_at_us: _Optional[int] = ...) -> None: ...

class ReservationInTheWay(_message.Message):
    __slots__ = ("name", "start_at_us", "end_at_us", "nodes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_at_us: int
    end_at_us: int
    nodes: int
    def __init__(self, name: _Optional[str] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., nodes: _Optional[int] = ...) -> None: ...

class JobInFront(_message.Message):
    __slots__ = ("job_id", "user_name", "nodes", "start_at_us", "node_list", "shown_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    SHOWN_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    user_name: str
    nodes: int
    start_at_us: int
    node_list: str
    shown_id: str
    def __init__(self, job_id: _Optional[int] = ..., user_name: _Optional[str] = ..., nodes: _Optional[int] = ..., start_at_us: _Optional[int] = ..., node_list: _Optional[str] = ..., shown_id: _Optional[str] = ...) -> None: ...

class Hint(_message.Message):
    __slots__ = ("options", "start_at_us", "node_list", "starts_now")
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    STARTS_NOW_FIELD_NUMBER: _ClassVar[int]
    options: _containers.RepeatedScalarFieldContainer[str]
    start_at_us: int
    node_list: str
    starts_now: bool
    def __init__(self, options: _Optional[_Iterable[str]] = ..., start_at_us: _Optional[int] = ..., node_list: _Optional[str] = ..., starts_now: bool = ...) -> None: ...

class FitsRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, partitions: _Optional[_Iterable[str]] = ...) -> None: ...

class FitsReply(_message.Message):
    __slots__ = ("now_us", "partitions")
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    now_us: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionFits]
    def __init__(self, now_us: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionFits, _Mapping]]] = ...) -> None: ...

class PartitionFits(_message.Message):
    __slots__ = ("partition", "state", "nodes_up", "shapes")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NODES_UP_FIELD_NUMBER: _ClassVar[int]
    SHAPES_FIELD_NUMBER: _ClassVar[int]
    partition: str
    state: str
    nodes_up: int
    shapes: _containers.RepeatedCompositeFieldContainer[FittingShape]
    def __init__(self, partition: _Optional[str] = ..., state: _Optional[str] = ..., nodes_up: _Optional[int] = ..., shapes: _Optional[_Iterable[_Union[FittingShape, _Mapping]]] = ...) -> None: ...

class FittingShape(_message.Message):
    __slots__ = ("kind", "nodes", "cpus", "mem_mb", "gres_name", "gres", "limit_s", "node_list")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEM_MB_FIELD_NUMBER: _ClassVar[int]
    GRES_NAME_FIELD_NUMBER: _ClassVar[int]
    GRES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    kind: str
    nodes: int
    cpus: int
    mem_mb: int
    gres_name: str
    gres: int
    limit_s: int
    node_list: str
    def __init__(self, kind: _Optional[str] = ..., nodes: _Optional[int] = ..., cpus: _Optional[int] = ..., mem_mb: _Optional[int] = ..., gres_name: _Optional[str] = ..., gres: _Optional[int] = ..., limit_s: _Optional[int] = ..., node_list: _Optional[str] = ...) -> None: ...

class ShowPlanChangeRequest(_message.Message):
    __slots__ = ("nodes", "jobs_run_on")
    NODES_FIELD_NUMBER: _ClassVar[int]
    JOBS_RUN_ON_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    jobs_run_on: bool
    def __init__(self, nodes: _Optional[_Iterable[str]] = ..., jobs_run_on: bool = ...) -> None: ...

class PlanChangeReply(_message.Message):
    __slots__ = ("now_us", "jobs", "more", "unseen", "compared", "not_asked")
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    NOT_ASKED_FIELD_NUMBER: _ClassVar[int]
    now_us: int
    jobs: _containers.RepeatedCompositeFieldContainer[MovedJob]
    more: int
    unseen: int
    compared: int
    not_asked: int
    def __init__(self, now_us: _Optional[int] = ..., jobs: _Optional[_Iterable[_Union[MovedJob, _Mapping]]] = ..., more: _Optional[int] = ..., unseen: _Optional[int] = ..., compared: _Optional[int] = ..., not_asked: _Optional[int] = ...) -> None: ...

class MovedJob(_message.Message):
    __slots__ = ("job_id", "shown_id", "name", "user_name", "partition", "change", "before_at_us", "before_node_list", "after_at_us", "after_node_list", "time_limit_s")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SHOWN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_AT_US_FIELD_NUMBER: _ClassVar[int]
    BEFORE_NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    AFTER_AT_US_FIELD_NUMBER: _ClassVar[int]
    AFTER_NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    shown_id: str
    name: str
    user_name: str
    partition: str
    change: str
    before_at_us: int
    before_node_list: str
    after_at_us: int
    after_node_list: str
    time_limit_s: int
    def __init__(self, job_id: _Optional[int] = ..., shown_id: _Optional[str] = ..., name: _Optional[str] = ..., user_name: _Optional[str] = ..., partition: _Optional[str] = ..., change: _Optional[str] = ..., before_at_us: _Optional[int] = ..., before_node_list: _Optional[str] = ..., after_at_us: _Optional[int] = ..., after_node_list: _Optional[str] = ..., time_limit_s: _Optional[int] = ...) -> None: ...

class DiagnosticsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResetDiagnosticsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResetDiagnosticsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DiagnosticsReply(_message.Message):
    __slots__ = ("now_us", "since_us", "boot_at_us", "server_threads", "agents", "agent_queue", "inbox", "jobs_submitted", "jobs_started", "jobs_completed", "jobs_canceled", "jobs_failed", "jobs_pending", "jobs_running", "main", "backfill", "backfilled_jobs", "backfilled_last", "backfilled_boot", "last_backfill_at_us", "commits", "commit_us", "by_type", "by_user", "jobs_at_us", "spared", "filter_calls", "filter_failures", "filter_refusals", "rollup", "last_rollup_at_us", "longest_turn_us")
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    BOOT_AT_US_FIELD_NUMBER: _ClassVar[int]
    SERVER_THREADS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    AGENT_QUEUE_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    JOBS_SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    JOBS_STARTED_FIELD_NUMBER: _ClassVar[int]
    JOBS_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    JOBS_CANCELED_FIELD_NUMBER: _ClassVar[int]
    JOBS_FAILED_FIELD_NUMBER: _ClassVar[int]
    JOBS_PENDING_FIELD_NUMBER: _ClassVar[int]
    JOBS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    MAIN_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    BACKFILLED_JOBS_FIELD_NUMBER: _ClassVar[int]
    BACKFILLED_LAST_FIELD_NUMBER: _ClassVar[int]
    BACKFILLED_BOOT_FIELD_NUMBER: _ClassVar[int]
    LAST_BACKFILL_AT_US_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_US_FIELD_NUMBER: _ClassVar[int]
    BY_TYPE_FIELD_NUMBER: _ClassVar[int]
    BY_USER_FIELD_NUMBER: _ClassVar[int]
    JOBS_AT_US_FIELD_NUMBER: _ClassVar[int]
    SPARED_FIELD_NUMBER: _ClassVar[int]
    FILTER_CALLS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FAILURES_FIELD_NUMBER: _ClassVar[int]
    FILTER_REFUSALS_FIELD_NUMBER: _ClassVar[int]
    ROLLUP_FIELD_NUMBER: _ClassVar[int]
    LAST_ROLLUP_AT_US_FIELD_NUMBER: _ClassVar[int]
    LONGEST_TURN_US_FIELD_NUMBER: _ClassVar[int]
    now_us: int
    since_us: int
    boot_at_us: int
    server_threads: int
    agents: int
    agent_queue: int
    inbox: int
    jobs_submitted: int
    jobs_started: int
    jobs_completed: int
    jobs_canceled: int
    jobs_failed: int
    jobs_pending: int
    jobs_running: int
    main: PassStatistics
    backfill: PassStatistics
    backfilled_jobs: int
    backfilled_last: int
    backfilled_boot: int
    last_backfill_at_us: int
    commits: int
    commit_us: int
    by_type: _containers.RepeatedCompositeFieldContainer[RpcCount]
    by_user: _containers.RepeatedCompositeFieldContainer[RpcCount]
    jobs_at_us: int
    spared: int
    filter_calls: int
    filter_failures: int
    filter_refusals: int
    rollup: PassStatistics
    last_rollup_at_us: int
    longest_turn_us: int
    def __init__(self, now_us: _Optional[int] = ..., since_us: _Optional[int] = ..., boot_at_us: _Optional[int] = ..., server_threads: _Optional[int] = ..., agents: _Optional[int] = ..., agent_queue: _Optional[int] = ..., inbox: _Optional[int] = ..., jobs_submitted: _Optional[int] = ..., jobs_started: _Optional[int] = ..., jobs_completed: _Optional[int] = ..., jobs_canceled: _Optional[int] = ..., jobs_failed: _Optional[int] = ..., jobs_pending: _Optional[int] = ..., jobs_running: _Optional[int] = ..., main: _Optional[_Union[PassStatistics, _Mapping]] = ..., backfill: _Optional[_Union[PassStatistics, _Mapping]] = ..., backfilled_jobs: _Optional[int] = ..., backfilled_last: _Optional[int] = ..., backfilled_boot: _Optional[int] = ..., last_backfill_at_us: _Optional[int] = ..., commits: _Optional[int] = ..., commit_us: _Optional[int] = ..., by_type: _Optional[_Iterable[_Union[RpcCount, _Mapping]]] = ..., by_user: _Optional[_Iterable[_Union[RpcCount, _Mapping]]] = ..., jobs_at_us: _Optional[int] = ..., spared: _Optional[int] = ..., filter_calls: _Optional[int] = ..., filter_failures: _Optional[int] = ..., filter_refusals: _Optional[int] = ..., rollup: _Optional[_Union[PassStatistics, _Mapping]] = ..., last_rollup_at_us: _Optional[int] = ..., longest_turn_us: _Optional[int] = ...) -> None: ...

class PassStatistics(_message.Message):
    __slots__ = ("cycles", "last_us", "max_us", "total_us", "depth", "last_depth", "last_queue", "queue", "table_size")
    CYCLES_FIELD_NUMBER: _ClassVar[int]
    LAST_US_FIELD_NUMBER: _ClassVar[int]
    MAX_US_FIELD_NUMBER: _ClassVar[int]
    TOTAL_US_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    LAST_DEPTH_FIELD_NUMBER: _ClassVar[int]
    LAST_QUEUE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TABLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    cycles: int
    last_us: int
    max_us: int
    total_us: int
    depth: int
    last_depth: int
    last_queue: int
    queue: int
    table_size: int
    def __init__(self, cycles: _Optional[int] = ..., last_us: _Optional[int] = ..., max_us: _Optional[int] = ..., total_us: _Optional[int] = ..., depth: _Optional[int] = ..., last_depth: _Optional[int] = ..., last_queue: _Optional[int] = ..., queue: _Optional[int] = ..., table_size: _Optional[int] = ...) -> None: ...

class RpcCount(_message.Message):
    __slots__ = ("name", "uid", "count", "total_us")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_US_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: int
    count: int
    total_us: int
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[int] = ..., count: _Optional[int] = ..., total_us: _Optional[int] = ...) -> None: ...
