from penstock.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetCrontabRequest(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...

class GetCrontabReply(_message.Message):
    __slots__ = ("found", "text", "disabled")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    found: bool
    text: str
    disabled: _containers.RepeatedCompositeFieldContainer[LineRange]
    def __init__(self, found: bool = ..., text: _Optional[str] = ..., disabled: _Optional[_Iterable[_Union[LineRange, _Mapping]]] = ...) -> None: ...

class LineRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class UpdateCrontabRequest(_message.Message):
    __slots__ = ("user", "remove", "text", "entries")
    USER_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    user: str
    remove: bool
    text: str
    entries: _containers.RepeatedCompositeFieldContainer[CrontabEntry]
    def __init__(self, user: _Optional[str] = ..., remove: bool = ..., text: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[CrontabEntry, _Mapping]]] = ...) -> None: ...

class CrontabEntry(_message.Message):
    __slots__ = ("job", "spec", "cron", "lines")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    job: _common_pb2.JobRequest
    spec: _common_pb2.JobSpec
    cron: str
    lines: LineRange
    def __init__(self, job: _Optional[_Union[_common_pb2.JobRequest, _Mapping]] = ..., spec: _Optional[_Union[_common_pb2.JobSpec, _Mapping]] = ..., cron: _Optional[str] = ..., lines: _Optional[_Union[LineRange, _Mapping]] = ...) -> None: ...

class UpdateCrontabReply(_message.Message):
    __slots__ = ("job_ids", "warnings", "failed_lines", "code", "text", "user_messages")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    FAILED_LINES_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    USER_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    failed_lines: LineRange
    code: int
    text: str
    user_messages: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_ids: _Optional[_Iterable[int]] = ..., warnings: _Optional[_Iterable[str]] = ..., failed_lines: _Optional[_Union[LineRange, _Mapping]] = ..., code: _Optional[int] = ..., text: _Optional[str] = ..., user_messages: _Optional[_Iterable[str]] = ...) -> None: ...

class SetTriggerRequest(_message.Message):
    __slots__ = ("kinds", "what", "nodes", "job_id", "offset_s", "program", "permanent")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_S_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    kinds: int
    what: str
    nodes: str
    job_id: int
    offset_s: int
    program: str
    permanent: bool
    def __init__(self, kinds: _Optional[int] = ..., what: _Optional[str] = ..., nodes: _Optional[str] = ..., job_id: _Optional[int] = ..., offset_s: _Optional[int] = ..., program: _Optional[str] = ..., permanent: bool = ...) -> None: ...

class SetTriggerReply(_message.Message):
    __slots__ = ("trigger_id",)
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    trigger_id: int
    def __init__(self, trigger_id: _Optional[int] = ...) -> None: ...

class ListTriggersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTriggersReply(_message.Message):
    __slots__ = ("triggers",)
    TRIGGERS_FIELD_NUMBER: _ClassVar[int]
    triggers: _containers.RepeatedCompositeFieldContainer[TriggerInfo]
    def __init__(self, triggers: _Optional[_Iterable[_Union[TriggerInfo, _Mapping]]] = ...) -> None: ...

class TriggerInfo(_message.Message):
    __slots__ = ("trigger_id", "kinds", "words", "nodes", "job_id", "offset_s", "user_id", "user_name", "program", "permanent", "due")
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_S_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    trigger_id: int
    kinds: int
    words: str
    nodes: str
    job_id: int
    offset_s: int
    user_id: int
    user_name: str
    program: str
    permanent: bool
    due: bool
    def __init__(self, trigger_id: _Optional[int] = ..., kinds: _Optional[int] = ..., words: _Optional[str] = ..., nodes: _Optional[str] = ..., job_id: _Optional[int] = ..., offset_s: _Optional[int] = ..., user_id: _Optional[int] = ..., user_name: _Optional[str] = ..., program: _Optional[str] = ..., permanent: bool = ..., due: bool = ...) -> None: ...

class ClearTriggersRequest(_message.Message):
    __slots__ = ("trigger_id", "job_id", "user")
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    trigger_id: int
    job_id: int
    user: str
    def __init__(self, trigger_id: _Optional[int] = ..., job_id: _Optional[int] = ..., user: _Optional[str] = ...) -> None: ...

class ClearTriggersReply(_message.Message):
    __slots__ = ("trigger_ids",)
    TRIGGER_IDS_FIELD_NUMBER: _ClassVar[int]
    trigger_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, trigger_ids: _Optional[_Iterable[int]] = ...) -> None: ...
