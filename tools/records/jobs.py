"""Field tables of jobs, steps and their events."""

from typing import Final

from tools.records.declare import (
    BIG,
    BYTES,
    INFO,
    INT,
    JOB_STATE,
    READ,
    RECORD,
    SHARED_BIG,
    SHARED_BYTES,
    SHARED_OR_EMPTY,
    SHARED_TEXT,
    TEXT,
    Field,
    Kind,
    Numbered,
    Record,
    Unstored,
    made,
)

_MAYBE_INT: Final = Kind("int | None", "Integer", nullable=True)
_TASKS: Final = Kind(
    "TaskSet | None", "Text", "{0}.format() if {0} is not None else None",
    "TaskSet.parse({0}) if {0} is not None else None", nullable=True,
)  # fmt: skip
_END_STATE: Final = Kind(
    "JobState | None", "Integer", "int({0}) if {0} is not None else None",
    "JOB_STATES[{0}] if {0} is not None else None", nullable=True,
)  # fmt: skip
_REASON: Final = Kind("Reason", "Text", "{0}.value", "REASONS[{0}]")
_HOLD: Final = Kind("Hold", "Integer", "int({0})", "HOLDS[{0}]")
_SUSPEND: Final = Kind("Suspend", "Integer", "int({0})", "SUSPENDS[{0}]")
#: Most jobs are eligible at submission: share one number instead of storing two equal ones.
_ELIGIBLE: Final = Kind("int", "BigInteger", decode="submit_at_us if {0} == submit_at_us else {0}")
#: Most jobs have a request of their own with the number of the job: the same for this number.
_REQUEST_ID: Final = Kind("int", "BigInteger", decode="job_id if {0} == job_id else {0}")
_ALLOC: Final = Kind("tuple[NodeAlloc, ...]", "Text", "alloc_json", '() if {0} == "[]" else alloc_from({0})')
#: From the table of requests, whose row is read with each job.
_REQUEST: Final = Kind("JobRequest", "", decode="requests.get(request_json) or read_request(request_json)")
_SUBMIT_KEY: Final = Kind("str", "", decode='request_key if request_job_id == job_id else ""')

JOB: Final = Record(
    "job", "JobRow", ("job_id", "attempt"),
    prepare='alloc_json, nodes_alloc, cpus_alloc, node_list = alloc_values(alloc) if alloc else ("[]", 0, 0, "")',
    fields=(
        Field("job_id", BIG, fixed=True, shown=(INFO, RECORD)),
        Field("attempt", INT, "0 = first run; SLURM_RESTART_COUNT", "0", fixed=True, shown=(INFO, RECORD)),
        Field("array_job_id", BIG, "0 = not of an array", "0", fixed=True, shown=(INFO, RECORD)),
        Field("request_id", _REQUEST_ID, fixed=True),
        Unstored("request", _REQUEST),
        Field("spec_hash", SHARED_BYTES, fixed=True),
        Unstored("submit_key", _SUBMIT_KEY),
        Field("user_id", SHARED_BIG, fixed=True, shown=(INFO, RECORD)),
        Field("group_id", SHARED_BIG, fixed=True, shown=(INFO, RECORD)),
        Field("user_name", SHARED_TEXT, fixed=True, shown=(INFO, RECORD)),
        Field("group_name", SHARED_TEXT, fixed=True, shown=(INFO, RECORD)),
        Field("submit_at_us", BIG, fixed=True, shown=(INFO, RECORD)),
        made("name", TEXT, "request.name", shown=(READ,)),
        made("account", TEXT, "request.account", shown=(READ,)),
        made("qos", TEXT, "request.qos", shown=(READ,)),
        made("nodes_req", INT, "request.nodes_min", shown=(RECORD,)),
        made("cpus_req", BIG, "request.ntasks * request.cpus_per_task", shown=(RECORD,)),
        Field("tres_req", SHARED_TEXT, fixed=True, shown=(INFO, RECORD)),
        Field("array_task_id", _MAYBE_INT, default="None", shown=(INFO, READ)),
        Field("array_tasks", _TASKS, "pending tasks that this record stands for", "None", stored="as 0-9,12"),
        Field("array_throttle", INT, "%limit, 0 = none", "0", shown=(INFO, RECORD)),
        Field("partition", SHARED_TEXT, "where it runs, or the first of the list it may run in", shown=(RECORD,)),
        Field("state", JOB_STATE, default="JobState.PENDING"),
        Field("end_state", _END_STATE, "while COMPLETING: its later state", "None"),
        Field("reason", _REASON, default="Reason.NONE", shown=(RECORD,)),
        Field("reason_detail", SHARED_OR_EMPTY, default='""', shown=(INFO,)),
        Field("hold", _HOLD, default="Hold.NO", shown=(INFO,)),
        Field("priority", BIG, "higher first; 0 = held", shown=(INFO, RECORD)),
        Field("dependency", TEXT, "the unmet terms", '""', shown=(INFO,)),
        Field("eligible_at_us", _ELIGIBLE, "0 = not yet", "0", shown=(INFO, RECORD)),
        Field("start_at_us", BIG, "0 = not started", "0", shown=(INFO, RECORD)),
        Field("end_at_us", BIG, "0 = not ended", "0", shown=(RECORD,)),
        Field("time_limit_s", SHARED_BIG, "-1 = UNLIMITED", "-1", shown=(INFO, RECORD)),
        Field("alloc", _ALLOC, default="()", stored="JSON: [[node, cpus, mem_mb, tasks, [[name, type, hex mask], ...]], ...]"),
        Field("batch_node", SHARED_OR_EMPTY, default='""', shown=(INFO, READ)),
        Field("exit_code", INT, default="0", shown=(READ,)),
        Field("exit_signal", INT, default="0", shown=(READ,)),
        Field("derived_code", INT, default="0", shown=(READ,)),
        Field("derived_signal", INT, default="0", shown=(READ,)),
        Field("cancelled_by_uid", BIG, "-1 = no user", "-1", shown=(RECORD,)),
        Field("failed_node", TEXT, default='""', shown=(RECORD,)),
        Field("admin_comment", TEXT, default='""', shown=(INFO, RECORD)),
        Field("tres_alloc", SHARED_OR_EMPTY, default='""', shown=(INFO, RECORD)),
        made("nodes_alloc", INT, "nodes_alloc", fixed=False, shown=(RECORD,)),
        made("cpus_alloc", BIG, "cpus_alloc", fixed=False, shown=(RECORD,)),
        made("node_list", TEXT, "node_list", stored="a compressed hostlist", fixed=False, shown=(RECORD,)),
        Field("suspended_by", _SUSPEND, "why it does not run although it has its allocation; kept while it is ended",
              "Suspend.NO", existing="0"),
        Field("suspended_us", BIG, "how long it has been suspended in this attempt, the present time apart", "0", existing="0",
              shown=(INFO, RECORD)),
        Field("suspended_at_us", BIG, "when it was last suspended or resumed; 0 = never", "0", existing="0",
              shown=(INFO, RECORD)),
        Field("preempt_at_us", BIG, "when it was chosen for preemption; 0 = it was not", "0", existing="0",
              shown=(INFO,)),
        Field("preempt_end_at_us", BIG, "when its GraceTime ends", "0", existing="0"),
        Field("preemptor_id", BIG, "the job for which it was preempted or suspended; 0 = none", "0", existing="0"),
        made("het_job_id", BIG, "request.het_job_id", existing="0", shown=(RECORD,)),
        made("het_offset", INT, "request.het_offset", existing="0", shown=(RECORD,)),
        made("wckey", TEXT, "request.wckey", existing="", shown=(RECORD,)),
        Field("assoc_id", BIG, "the association that it is charged to; 0 = none is known yet", "0", existing="0",
              shown=(RECORD,)),
        Field("borrowed", INT, "1 = it runs on what other accounts lend (limits/borrow.py)", "0", existing="0", shown=(INFO,)),
        Field("completing_at_us", BIG, "when it became COMPLETING in this attempt; 0 = it has not", "0", existing="0"),
        Field("resized_at_us", BIG, "when it last gave nodes back and continued; 0 = never in this attempt", "0", existing="0",
              shown=(INFO, READ)),
        Field("stopped", INT, "1 = it was sent SIGSTOP, and no SIGCONT since; shown as STOPPED while it runs", "0", existing="0"),
        Field("failed_attempts", INT, "attempts that their node or its launch ended: MaxBatchRequeue", "0", existing="0"),
        Field("licenses_alloc", TEXT, "layers of hierarchical resources, and licenses beside them, that it holds", '""',
              existing="", shown=(INFO,)),
        Field("trace_one_in", INT, "one of its tasks in so many has a trace, of a job without a caller's; 0 = none has", "1",
              existing="1", fixed=True),
    ),
)  # fmt: skip
#: Columns of the table of requests that are read with a job, and their names in the expressions above.
JOB_REQUEST_READ: Final = {"job_id": "request_job_id", "submit_key": "request_key", "request": "request_json"}
#: Their types, where the request exists.
JOB_REQUEST_READ_TYPES: Final = ("int", "str", "bytes")
#: The attributes in which jobs differ that wait for their first start: all others have their defaults then.
JOB_WAITING: Final = (
    "job_id", "array_job_id", "request_id", "request", "spec_hash", "submit_key", "user_id", "group_id", "user_name",
    "group_name", "submit_at_us", "tres_req", "array_task_id", "partition", "reason", "reason_detail", "hold",
    "priority", "eligible_at_us", "time_limit_s", "assoc_id", "trace_one_in",
)  # fmt: skip
#: The defaults of the others, as stored.
STORED_DEFAULTS: Final = {"JobState.PENDING": "0", "Suspend.NO": "0", "()": '"[]"'}

_STEP_HASH: Final = Kind("bytes", "LargeBinary", "{0} or None", '{0} or b""', nullable=True)
_STEP_REQUEST: Final = Kind(
    "StepRequest | None", "LargeBinary", "encode_json({0}) if {0} is not None else None",
    "step_request_from({0}) if {0} is not None else None", nullable=True,
)  # fmt: skip
_PARTS: Final = Kind(
    "tuple[StepPart, ...] | None", "Text", "parts_json({0}) if {0} is not None else None",
    "parts_from({0}) if {0} is not None else None", nullable=True,
)  # fmt: skip
_TASK_ENDS: Final = Kind("str", "Text", "{0} or None", '{0} or ""', nullable=True)
_PORTS: Final = Kind("tuple[int, ...]", "Text", '",".join(map(str, {0}))', "ports_from({0})")

#: A batch step has only the fields before `request`; they are its row in the database.
STEP: Final = Record(
    "step", "StepRow", ("job_id", "attempt", "step_id"),
    fields=(
        Field("job_id", BIG),
        Field("attempt", INT),
        Field("step_id", BIG),
        Field("name", TEXT),
        Field("state", JOB_STATE, default="JobState.CONFIGURING"),
        Field("node", TEXT, "the node that runs it, or the first of them"),
        Field("epoch", BIG, "leadership term in which it was launched"),
        Field("tasks", INT),
        Field("start_at_us", BIG, default="0"),
        Field("end_at_us", BIG, default="0"),
        Field("exit_code", INT, default="0"),
        Field("exit_signal", INT, default="0"),
        Field("user_cpu_us", BIG, default="0"),
        Field("system_cpu_us", BIG, default="0"),
        Field("max_rss_kb", BIG, default="0"),
        Field("max_vmsize_kb", BIG, default="0"),
        Field("disk_read_bytes", BIG, default="0"),
        Field("disk_write_bytes", BIG, default="0"),
        Field("request", _STEP_REQUEST, default="None", stored="JSON of ctld.core.records.step.StepRequest"),
        Field("parts", _PARTS, "in the order of the job's nodes", "None", attribute="all_parts",
              stored="JSON, one for each node: see ctld/store/stepparts.py; NULL = on `node` alone"),
        Field("spec_hash", _STEP_HASH, "arguments and environment of its tasks", 'b""'),
        Field("step_key", TEXT, "the same key is the same step", '""', existing=""),
        Field("node_list", TEXT, '"" = `node` alone', '""', existing="", stored='a compressed hostlist; "" = `node`'),
        Field("nodes", INT, default="1", existing="1"),
        Field("cpus", BIG, "0 = all that the job has there", "0", existing="0"),
        Field("tres_alloc", TEXT, default='""', existing=""),
        Field("submit_at_us", BIG, default="0", existing="0"),
        Field("time_limit_s", BIG, "-1 = none of its own", "-1", existing="-1"),
        Field("cancelled_by_uid", BIG, "-1 = no user", "-1", existing="-1"),
        Field("usage", TEXT, 'JSON of what was sampled (steps/usage.py); "" = nothing', '""', existing=""),
        Field("note", TEXT, 'the cause of its end: "TIME LIMIT", "CANCELLED", ...', '""', existing=""),
        Field("ports", _PORTS, "--resv-ports", "()", existing="", stored="separated by commas"),
        Field("task_ends", _TASK_ENDS, 'how its tasks ended (steps/task_ends.py); "" = all with 0', '""', stored="JSON"),
    ),
)  # fmt: skip
#: The first field of a step that a batch step does not have, and the only later one that it has.
STEP_SPREAD_FROM: Final = "request"
STEP_PLAIN_TOO: Final = ("usage",)

_STRINGS: Final = Kind("tuple[bytes, ...]", "LargeBinary", "join_strings({0})", "split_strings({0})")
SPEC: Final = Record(
    "job_spec", "SpecRow", ("spec_hash",),
    fields=(
        Field("spec_hash", BYTES),
        Field("script", BYTES),
        Field("argv", _STRINGS, stored="each string followed by a NUL"),
        Field("environment", _STRINGS, stored="likewise"),
        Unstored("size", Kind("int", "", decode="0"), "bytes in all; 0 = not counted yet", "0"),
    ),
)  # fmt: skip

HISTORY: Final = Record(
    "job_history", "HistoryRow", ("history_id",),
    fields=(
        Numbered("history_id", Kind("int", 'BigInteger().with_variant(Integer, "sqlite")')),
        Field("at_us", BIG),
        Field("job_id", BIG),
        Field("attempt", INT),
        Field("event", TEXT),
        Field("detail", TEXT),
    ),
)  # fmt: skip

JOB_SPAN: Final = Record(
    "job_span", "JobSpan", ("job_id", "attempt", "start_at_us", "end_at_us"), is_write_only=True,
    fields=(
        Field("job_id", BIG),
        Field("attempt", INT),
        Field("start_at_us", BIG),
        Field("end_at_us", BIG),
        Field("tres", TEXT, '"" = it was suspended'),
        Field("node_list", TEXT, "of a resize: the nodes that it had until then", '""', existing=""),
    ),
)  # fmt: skip

PROFILE: Final = Record(
    "step_profile", "ProfileRow", ("job_id", "attempt", "step_id", "node"), is_write_only=True,
    fields=(
        Field("job_id", BIG),
        Field("attempt", INT),
        Field("step_id", BIG),
        Field("node", TEXT),
        Field("profile", BYTES, "penstock.values.profile"),
    ),
)  # fmt: skip

_CRON_JOBS: Final = Kind("tuple[CronJob, ...]", "Text", "json_text({0})", "cron_jobs_from({0})")
_CRON_LINES: Final = Kind("tuple[tuple[int, int], ...]", "Text", "json_text({0})", "cron_lines_from({0})")
CRONTAB: Final = Record(
    "crontab", "Crontab", ("uid",),
    fields=(
        Field("uid", BIG),
        Field("user_name", TEXT),
        Field("text", TEXT),
        Field("jobs", _CRON_JOBS),
        Field("disabled", _CRON_LINES, "lines of entries whose job was cancelled"),
        Field("changed_at_us", BIG),
    ),
)  # fmt: skip

TRIGGER: Final = Record(
    "event_trigger", "Trigger", ("trigger_id",), is_document=True,
    fields=(
        made("trigger_id", BIG, "row.trigger_id"),
        made("uid", BIG, "row.uid"),
        made("job_id", BIG, "row.job_id", stored="0 = of no job"),
        made("kinds", INT, "row.kinds", stored="ctld.core.records.periodic.TriggerKind"),
        made("record", BYTES, "encode_json(row._asdict())"),
    ),
)  # fmt: skip

RECORDS: Final = (JOB, SPEC, STEP, HISTORY, JOB_SPAN, PROFILE, CRONTAB, TRIGGER)
