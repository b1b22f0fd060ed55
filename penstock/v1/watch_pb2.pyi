from penstock.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchRequest(_message.Message):
    __slots__ = ("after", "kinds", "users")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    after: int
    kinds: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, after: _Optional[int] = ..., kinds: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ...) -> None: ...

class WatchReply(_message.Message):
    __slots__ = ("changes", "last", "missed")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[ChangedObject]
    last: int
    missed: bool
    def __init__(self, changes: _Optional[_Iterable[_Union[ChangedObject, _Mapping]]] = ..., last: _Optional[int] = ..., missed: bool = ...) -> None: ...

class ChangedObject(_message.Message):
    __slots__ = ("sequence", "at_us", "kind", "id", "state", "reason", "is_gone", "node_list", "start_at_us", "end_at_us", "job_id", "array_job_id", "user_name", "user_id", "account", "partition", "name", "exit", "attempt", "flags")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IS_GONE_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    at_us: int
    kind: str
    id: str
    state: str
    reason: str
    is_gone: bool
    node_list: str
    start_at_us: int
    end_at_us: int
    job_id: int
    array_job_id: int
    user_name: str
    user_id: int
    account: str
    partition: str
    name: str
    exit: _common_pb2.ExitStatus
    attempt: int
    flags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sequence: _Optional[int] = ..., at_us: _Optional[int] = ..., kind: _Optional[str] = ..., id: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., is_gone: bool = ..., node_list: _Optional[str] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., job_id: _Optional[int] = ..., array_job_id: _Optional[int] = ..., user_name: _Optional[str] = ..., user_id: _Optional[int] = ..., account: _Optional[str] = ..., partition: _Optional[str] = ..., name: _Optional[str] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., attempt: _Optional[int] = ..., flags: _Optional[_Iterable[str]] = ...) -> None: ...
