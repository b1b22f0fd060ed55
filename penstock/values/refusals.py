"""The refusal codes of requests, with Slurm's texts.

Tools match the texts, so they are Slurm's (`scontrol errnumstr`). `Code` is sent in the RPC status; a detail may follow
the text. The numbers are Slurm's errno values where Slurm has one, else 9000 and above.
"""

from enum import IntEnum


class Code(IntEnum):
    """The number of a refusal. `TEXT[code]` is its text for the user."""

    ACCESS_DENIED = 2002
    INVALID_PARTITION = 2000
    DEFAULT_PARTITION_NOT_SET = 2001
    PARTITION_GROUP = 2003
    REQUESTED_NODES_NOT_IN_PARTITION = 2005
    TOO_MANY_REQUESTED_CPUS = 2006
    INVALID_NODE_COUNT = 2007
    INVALID_JOB_ID = 2017
    INVALID_NODE_NAME = 2018
    REQUESTED_NODE_CONFIG_UNAVAILABLE = 2015
    ALREADY_DONE = 2021
    JOB_PENDING = 2023
    JOB_SCRIPT_MISSING = 2029
    INVALID_TIME_LIMIT = 2051
    INVALID_FEATURE = 2065
    INVALID_LICENSES = 2048
    INVALID_DEPENDENCY = 2046
    INVALID_GRES = 2072
    INVALID_TASK_MEMORY = 2044
    INVALID_ARRAY = 2089
    INVALID_NODE_STATE = 2028
    JOB_NOT_RUNNING = 2063
    JOB_HELD = 2042
    JOB_FINISHED = 2084
    JOB_NOT_SUSPENDED = 2087
    DISABLED_STATE = 2026
    MAX_JOB_COUNT = 2009
    NOT_SUPPORTED = 2013
    JOB_SUSPENDED = 2056
    INVALID_QOS = 2066
    QOS_PREEMPTION_LOOP = 2067
    INVALID_TIME_VALUE = 2083
    PATHNAME_TOO_LONG = 2014
    INVALID_ACCOUNT = 2045
    JOBS_ON_ASSOCIATION = 7001
    INVALID_USER = 2010
    NODES_BUSY = 2016
    INVALID_WCKEY = 2057
    RESERVATION_ACCESS = 2052
    RESERVATION_INVALID = 2053
    RESERVATION_BUSY = 2055
    RESERVATION_OVERLAP = 2058
    CIRCULAR_DEPENDENCY = 2071
    JOB_NOT_PENDING = 2073
    INVALID_MCS_LABEL = 2099
    INVALID_BATCH_FEATURES = 2114
    INVALID_GROUP = 2113
    INVALID_TIME_MIN = 2124
    INVALID_ACCTG_FREQ = 4003
    PARTITION_IN_USE = 2075
    # Penstock's own
    PARTITION_EXISTS = 9260
    NO_TOKEN = 9261
    PARTITION_NOT_AVAILABLE = 9262
    PARTITION_CONFIG_UNAVAILABLE = 9263
    NODES_NOT_AVAILABLE = 9264
    NOT_TOP_PRIORITY = 9265
    FEATURES_NOT_AVAILABLE = 2031
    INVALID_VALUE = 9000
    QOS_EXISTS = 9010
    QOS_IN_USE = 9011
    STEP_LIMIT = 9020
    NOT_ALLOCATION = 9021
    INVALID_STEP = 9022
    PORTS_BUSY = 9023
    PORTS_INVALID = 9024
    SCRIPT_TOO_LARGE = 9001
    ENVIRONMENT_TOO_LARGE = 9002
    STALE_REQUEST = 9003
    BUSY = 9004
    CONFIG_INVALID = 9005
    STORAGE_FULL = 9006
    STORAGE_AWAY = 9007
    STORAGE_WAITS = 9008
    USER_STORAGE_LIMIT = 9009
    RATE_LIMITED = 9030
    INTERNAL = 9099
    CRON_DISABLED = 9300
    CANNOT_MODIFY_CRON_JOB = 9301
    CANNOT_CANCEL_CRON_JOB = 9302
    NO_CRONTAB = 9303
    TRIGGER_DUP = 9304
    NO_TRIGGER = 9305
    FILTER_FAILED = 9310
    FILTER_REFUSED = 9311
    OVER_ALLOCATE = 7005
    NO_REMOVE_DEFAULT_ACCOUNT = 7009
    NO_REMOVE_DEFAULT_QOS = 7011
    ACCOUNTING_POLICY = 2050


#: Slurm's line before its message to a plain user who asks for --reboot.
REBOOT_DENIED = "rebooting of nodes is only allowed for admins"

TEXT: dict[Code, str] = {
    Code.ACCESS_DENIED: "Access/permission denied",
    Code.INVALID_PARTITION: "Invalid partition name specified",
    Code.DEFAULT_PARTITION_NOT_SET: "No partition specified or system default partition",
    Code.REQUESTED_NODES_NOT_IN_PARTITION: "Requested node(s) not in requested partition",
    Code.TOO_MANY_REQUESTED_CPUS: "More processors requested than permitted",
    Code.INVALID_NODE_COUNT: "Node count specification invalid",
    Code.INVALID_JOB_ID: "Invalid job id specified",
    Code.INVALID_NODE_NAME: "Invalid node name specified",
    Code.REQUESTED_NODE_CONFIG_UNAVAILABLE: "Requested node configuration is not available",
    Code.ALREADY_DONE: "Job/step already completing or completed",
    Code.JOB_PENDING: "Job is pending execution",
    Code.JOB_SCRIPT_MISSING: "Batch job script missing",
    Code.INVALID_TIME_LIMIT: "Requested time limit is invalid (missing or exceeds some limit)",
    Code.INVALID_LICENSES: "Invalid license specification",
    Code.INVALID_FEATURE: "Invalid feature specification",
    Code.INVALID_DEPENDENCY: "Job dependency problem",
    Code.INVALID_GRES: "Invalid generic resource (gres) specification",
    Code.INVALID_TASK_MEMORY: "Memory required by task is not available",
    Code.INVALID_ARRAY: "Invalid job array specification",
    Code.INVALID_NODE_STATE: "Invalid node state specified",
    Code.JOB_NOT_RUNNING: "Job is no longer running",
    Code.JOB_HELD: "Job is in held state, pending scheduler release",
    Code.JOB_FINISHED: "Job has already finished",
    Code.JOB_NOT_SUSPENDED: "Job is not suspended",
    Code.DISABLED_STATE: "Requested operation is presently disabled",
    Code.MAX_JOB_COUNT: "Slurm temporarily unable to accept job, sleeping and retrying",
    Code.JOB_SUSPENDED: "Job is currently suspended",
    Code.NOT_SUPPORTED: "Requested operation not supported on this system",
    Code.INVALID_TIME_VALUE: "Invalid time specified",
    Code.PATHNAME_TOO_LONG: "Pathname of a file, directory or other parameter too long",
    Code.INVALID_ACCOUNT: "Invalid account or account/partition combination specified",
    Code.JOBS_ON_ASSOCIATION: "Job(s) active, cancel job(s) before remove",
    Code.NODES_BUSY: "Requested nodes are busy",
    Code.NOT_TOP_PRIORITY: "Immediate execution impossible, insufficient priority",
    Code.NODES_NOT_AVAILABLE: "Required node not available (down, drained or reserved)",
    Code.INVALID_USER: "Invalid user id",
    Code.RESERVATION_ACCESS: "Access denied to requested reservation",
    Code.RESERVATION_INVALID: "Requested reservation is invalid",
    Code.RESERVATION_BUSY: "Requested reservation is in use",
    Code.RESERVATION_OVERLAP: "Requested reservation overlaps with another reservation",
    Code.INVALID_QOS: "Invalid qos specification",
    Code.QOS_PREEMPTION_LOOP: "QOS Preemption loop detected",
    Code.QOS_EXISTS: "This QOS already exists",
    Code.QOS_IN_USE: "The QOS is in use",
    Code.STEP_LIMIT: "Step limit reached for this job",
    Code.NOT_ALLOCATION: "The job has a batch script, and ends with it",
    Code.INVALID_STEP: "Invalid job step specified",
    Code.PORTS_BUSY: "Requires ports are in use",
    Code.PORTS_INVALID: "Requires more ports than can be reserved",
    Code.INVALID_VALUE: "Invalid value specified",
    Code.SCRIPT_TOO_LARGE: "Batch script too large",
    Code.ENVIRONMENT_TOO_LARGE: "Job environment too large",
    Code.STALE_REQUEST: "The request key is too old; submit the job again",
    Code.BUSY: "Controller is busy, try again",
    Code.CONFIG_INVALID: "Configuration is not valid, the old one stays in force",
    Code.STORAGE_FULL: "Controller storage full",
    Code.STORAGE_WAITS: (
        "Controller storage full: the request is kept, and is executed when there is space again; "
        "check its outcome before you repeat it"
    ),
    Code.USER_STORAGE_LIMIT: "Too much is stored for this user's jobs",
    Code.PARTITION_IN_USE: "Partition is in use",
    Code.NO_TOKEN: "Unable to generate JWT",
    Code.FEATURES_NOT_AVAILABLE: "Active features not subset of available features",
    Code.PARTITION_EXISTS: "Partition name is already in use",
    Code.PARTITION_NOT_AVAILABLE: "Required partition not available (inactive or drain)",
    Code.PARTITION_CONFIG_UNAVAILABLE: "Requested partition configuration not available now",
    Code.INTERNAL: "Internal error, see the controller's log",
    Code.CIRCULAR_DEPENDENCY: "Circular job dependency",
    Code.JOB_NOT_PENDING: "Job is no longer pending execution",
    Code.INVALID_MCS_LABEL: "Invalid mcs_label specified",
    Code.INVALID_BATCH_FEATURES: "Job --batch option is invalid or not a subset of --constraints",
    Code.INVALID_GROUP: "Invalid group id",
    Code.PARTITION_GROUP: "User's group not permitted to use this partition",
    Code.INVALID_ACCTG_FREQ: "Invalid accounting frequency requested",
    Code.INVALID_TIME_MIN: "Invalid time-min specification (exceeds job's time or other limits)",
    # followed by the number of milliseconds after which to retry
    Code.RATE_LIMITED: "RPC rate limit exceeded",
    Code.CRON_DISABLED: "scrontab is disabled on this cluster",
    Code.CANNOT_MODIFY_CRON_JOB: "Cannot modify scrontab jobs through scontrol",
    Code.CANNOT_CANCEL_CRON_JOB: "Cannot cancel scrontab jobs without --cron flag.",
    Code.NO_CRONTAB: "There is no crontab",
    Code.TRIGGER_DUP: "Duplicate event trigger",
    Code.NO_TRIGGER: "There is no such trigger",
    Code.INVALID_WCKEY: "Invalid wckey specification",
    Code.FILTER_FAILED: "The submit filter of this cluster has failed",
    # Slurm's text of a plug-in's refusal without a number; the plug-in's own lines come before it
    Code.FILTER_REFUSED: "Unspecified error",
    Code.OVER_ALLOCATE: "You can not allocate more than 100% of a resource",
    Code.NO_REMOVE_DEFAULT_ACCOUNT: "You can not remove the default account of a user",
    Code.NO_REMOVE_DEFAULT_QOS: (
        "This request would make it so some associations would not have access to their default qos."
    ),
    Code.STORAGE_AWAY: "The controller's database does not answer; try again later",
    Code.ACCOUNTING_POLICY: "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
}
