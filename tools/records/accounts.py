"""Field tables of accounting: associations, accounts, users, QOS, budgets, and the log of changes."""

from typing import Final

from tools.records.declare import BIG, BOOL, INT, LIMITS, ROW_ID, TEXT, WORDS, Field, Kind, Record

ASSOC: Final = Record(
    "assoc", "AssocRow", ("assoc_id",),
    fields=(
        Field("assoc_id", ROW_ID),
        Field("account", TEXT),
        Field("user_name", TEXT, '"" = the account itself'),
        Field("parent", TEXT, "the account above; of a user's association its account"),
        Field("shares", BIG, "PARENT_SHARES = as the parent"),
        Field("priority", BIG),
        Field("made_by_itself", BOOL, "created implicitly for a job, not added by sacctmgr"),
        Field("deleted", BOOL),
        Field("partition", TEXT, 'of a user\'s association: it is for jobs in that partition; "" = for all others', '""',
              existing=""),
        Field("limits", LIMITS, default="NO_LIMITS", existing="{}", stored="JSON: penstock.values.limits.texts"),
        Field("qos", WORDS, "that its jobs may have; () = as the account above", "()", existing="",
              stored="separated by commas"),
        Field("default_qos", TEXT, '"" = as the account above', '""', existing=""),
        Field("created_at_us", BIG, default="0", existing="0"),
        Field("budget", TEXT, "of an account: penstock.values.budgets", '""', existing=""),
    ),
)  # fmt: skip

USAGE: Final = Record(
    "assoc_usage", "UsageRow", ("assoc_id",),
    fields=(
        Field("assoc_id", ROW_ID),
        Field("usage", BIG, "decay.USAGE_ONE = one billing second"),
        Field("at_us", BIG),
        Field("tres", TEXT, "the same by TRES (state/spent_minutes.py), where limits are enforced", '""', existing="",
              stored="JSON, by TRES"),
    ),
)  # fmt: skip

ACCOUNT: Final = Record(
    "account", "AccountRow", ("name",),
    fields=(
        Field("name", TEXT),
        Field("description", TEXT),
        Field("organization", TEXT),
        Field("coordinators", WORDS, "users who may change what is below it", "()", existing="", stored="separated by commas"),
        Field("deleted", BOOL, default="False", existing="0"),
    ),
)  # fmt: skip

USER: Final = Record(
    "account_user", "UserRow", ("name",),
    fields=(
        Field("name", TEXT),
        Field("default_account", TEXT),
        Field("admin_level", INT, "ctld.core.records.events.Role: as set with sacctmgr", "0", existing="0"),
        Field("default_wckey", TEXT, default='""', existing=""),
        Field("deleted", BOOL, default="False", existing="0"),
    ),
)  # fmt: skip

WCKEY: Final = Record(
    "wckey", "WckeyRow", ("wckey_id",),
    fields=(
        Field("wckey_id", INT),
        Field("name", TEXT),
        Field("user_name", TEXT),
        Field("deleted", BOOL, default="False"),
    ),
)  # fmt: skip

RESOURCE: Final = Record(
    "resource", "ResourceRow", ("name", "server"),
    fields=(
        Field("name", TEXT),
        Field("server", TEXT),
        Field("total", BIG),
        Field("allowed_percent", INT, default="0"),
        Field("type", TEXT, default='"License"'),
        Field("manager", TEXT, default='""'),
        Field("description", TEXT, default='""'),
        Field("deleted", BOOL, default="False"),
    ),
)  # fmt: skip

TRES: Final = Record(
    "tres", "TresRow", ("tres_id",),
    fields=(
        Field("tres_id", INT),
        Field("name", TEXT, "cpu, gres/gpu:h200, license/matlab@server"),
    ),
)  # fmt: skip

QOS: Final = Record(
    "qos", "Qos", ("name",),
    fields=(
        Field("name", TEXT),
        Field("description", TEXT, default='""'),
        Field("priority", BIG, default="0"),
        Field("preempt", WORDS, "QOS whose jobs its jobs may preempt", "()", stored="separated by commas"),
        Field("preempt_mode", WORDS, "of its jobs when they are preempted; () = the cluster's", "()",
              stored="separated by commas"),
        Field("grace_time_s", BIG, default="0"),
        Field("preempt_exempt_time_s", BIG, "-1 = the cluster's", "-1"),
        Field("flags", WORDS, default="()", stored="separated by commas"),
        Field("usage_factor_ppm", BIG, "UsageFactor in millionths", "1_000_000"),
        Field("limits", LIMITS, default="NO_LIMITS", existing="{}", stored="JSON: penstock.values.limits.texts"),
        Field("usage_threshold_ppm", BIG, "UsageThreshold in millionths; -1 = none", "-1", existing="-1"),
        Field("limit_factor_ppm", BIG, "LimitFactor likewise", "-1", existing="-1"),
        Field("qos_id", INT, "Slurm's number of it; `normal` has 1", "0", existing="0"),
        Field("deleted", BOOL, default="False", existing="0"),
    ),
)  # fmt: skip

#: Larger than a column of numbers can store.
_LARGE: Final = Kind("int", "Text", "str({0})", "int({0})")
BUDGET: Final = Record(
    "budget_use", "BudgetRow", ("assoc_id", "unit", "period", "start_us"),
    fields=(
        Field("assoc_id", BIG, stored="of the account"),
        Field("unit", TEXT),
        Field("period", TEXT),
        Field("start_us", BIG),
        Field("end_us", BIG, "0 = never"),
        Field("used", _LARGE, "as of"),
        Field("at_us", BIG),
    ),
)  # fmt: skip

AUDIT: Final = Record(
    "audit", "AuditRow", ("audit_id",), is_write_only=True,
    fields=(
        Field("audit_id", ROW_ID),
        Field("at_us", BIG),
        Field("user_name", TEXT),
        Field("record", TEXT),
        Field("hash", TEXT, "hexadecimal"),
    ),
)  # fmt: skip

TXN: Final = Record(
    "txn", "TxnRow", ("txn_id",), is_write_only=True,
    fields=(
        Field("txn_id", ROW_ID),
        Field("at_us", BIG),
        Field("action", TEXT, "Add Users, Modify Associations, ..."),
        Field("actor", TEXT),
        Field("whom", TEXT),
        Field("info", TEXT),
        Field("accounts", TEXT, stored="separated by commas"),
        Field("users", TEXT, stored="separated by commas"),
    ),
)  # fmt: skip

RECORDS: Final = (ASSOC, USAGE, ACCOUNT, USER, WCKEY, RESOURCE, TRES, QOS, BUDGET, AUDIT, TXN)
