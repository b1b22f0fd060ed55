"""job_submit.lua for filterworker.py: Slurm's interface of a site's script in Lua 5.4, run by lupa (the extra `lua`).

    slurm_job_submit(job_desc, part_list, submit_uid)
    slurm_job_modify(job_desc, job_rec, part_list, modify_uid)

A job is a plain table here: texts that were not given are nil, numbers Slurm's NO_VAL of the field's width, and memory
sizes nil, as scripts expect. After the call, what differs from the table before it is changed; names that no job has
are ignored, as in Slurm. Of an update the table has the keys of UPDATES.
"""

from typing import Final, cast

from ctld.runtime.filterbase import MODIFY, SUBMIT
from penstock.sitefilters.base import FilterFailed, FilterRefusal, note
from penstock.sitefilters.luascript import LuaConstant, LuaScript, plain
from penstock.submitfilter import log_user
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.memory import parse_mb
from penstock.values.numbers import INT64_MAX, parse_int
from penstock.values.refusals import Code

NO_VAL8: Final = 0xFE
NO_VAL16: Final = 0xFFFE
NO_VAL: Final = 0xFFFF_FFFE
INFINITE: Final = 0xFFFF_FFFF
#: Numbers of 16 bits, and of 8; those that are 0 or nil when they were not given. All others have 32.
_WIDTH16: Final = (
    "cpus_per_task", "ntasks_per_node", "ntasks_per_socket", "ntasks_per_core", "ntasks_per_tres", "sockets_per_node",
    "cores_per_socket", "threads_per_core", "pn_min_cpus", "core_spec", "shared", "contiguous", "requeue", "reboot",
    "kill_on_node_fail",
)  # fmt: skip
_WIDTH8: Final = ("overcommit",)
_ZERO: Final = ("begin_time", "deadline", "wait4switch")
_NUMBERS: Final = (
    *_WIDTH16, *_WIDTH8, *_ZERO, "time_limit", "time_min", "nice", "priority", "delay_boot", "min_nodes", "max_nodes",
    "num_tasks", "pn_min_tmp_disk", "req_switch", "het_job_offset",
)  # fmt: skip
_FLAGS: Final = ("contiguous", "requeue", "reboot", "kill_on_node_fail", "overcommit")
_UNSET: Final = {
    **dict.fromkeys(_NUMBERS, NO_VAL), **dict.fromkeys(_WIDTH16, NO_VAL16), **dict.fromkeys(_WIDTH8, NO_VAL8),
    **dict.fromkeys(_ZERO, 0),
}  # fmt: skip
_MAIL: Final = {
    "BEGIN": 1, "END": 2, "FAIL": 4, "REQUEUE": 8, "TIME_LIMIT": 0x10, "TIME_LIMIT_90": 0x20, "TIME_LIMIT_80": 0x40,
    "TIME_LIMIT_50": 0x80, "STAGE_OUT": 0x100, "ARRAY_TASKS": 0x200, "INVALID_DEPEND": 0x400,
}  # fmt: skip
#: Slurm's names of the numbers that a script may return; any other name is the general error.
_ERRORS: Final = {
    "INVALID_PARTITION_NAME": Code.INVALID_PARTITION, "DEFAULT_PARTITION_NOT_SET": Code.DEFAULT_PARTITION_NOT_SET,
    "ACCESS_DENIED": Code.ACCESS_DENIED, "JOB_MISSING_REQUIRED_PARTITION_GROUP": Code.PARTITION_GROUP,
    "REQUESTED_NODES_NOT_IN_PARTITION": Code.REQUESTED_NODES_NOT_IN_PARTITION,
    "TOO_MANY_REQUESTED_CPUS": Code.TOO_MANY_REQUESTED_CPUS, "INVALID_NODE_COUNT": Code.INVALID_NODE_COUNT,
    "REQUESTED_NODE_CONFIG_UNAVAILABLE": Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, "INVALID_JOB_ID": Code.INVALID_JOB_ID,
    "INVALID_NODE_NAME": Code.INVALID_NODE_NAME, "JOB_SCRIPT_MISSING": Code.JOB_SCRIPT_MISSING,
    "INVALID_TIME_LIMIT": Code.INVALID_TIME_LIMIT, "MISSING_TIME_LIMIT": Code.INVALID_TIME_LIMIT,
    "INVALID_FEATURE": Code.INVALID_FEATURE, "INVALID_LICENSES": Code.INVALID_LICENSES,
    "DEPENDENCY": Code.INVALID_DEPENDENCY, "INVALID_GRES": Code.INVALID_GRES,
    "INVALID_TASK_MEMORY": Code.INVALID_TASK_MEMORY, "INVALID_ARRAY": Code.INVALID_ARRAY,
    "DISABLED": Code.DISABLED_STATE, "NOT_SUPPORTED": Code.NOT_SUPPORTED, "INVALID_QOS": Code.INVALID_QOS,
    "INVALID_TIME_VALUE": Code.INVALID_TIME_VALUE, "PATHNAME_TOO_LONG": Code.PATHNAME_TOO_LONG,
    "INVALID_ACCOUNT": Code.INVALID_ACCOUNT, "INVALID_WCKEY": Code.INVALID_WCKEY,
    "RESERVATION_ACCESS": Code.RESERVATION_ACCESS, "RESERVATION_INVALID": Code.RESERVATION_INVALID,
    "ACCOUNTING_POLICY": Code.ACCOUNTING_POLICY,
}  # fmt: skip
#: Keys of an update: the field of job_desc, and how its text is read.
_NAMES: Final = {
    "jobname": "name", "name": "name", "comment": "comment", "admincomment": "admin_comment", "extra": "extra",
    "account": "account", "partition": "partition", "qos": "qos", "wckey": "wckey", "dependency": "dependency",
    "features": "features", "prefer": "prefer", "batchfeatures": "batch_features", "reqnodelist": "req_nodes",
    "excnodelist": "exc_nodes", "gres": "tres_per_node", "licenses": "licenses", "reservationname": "reservation",
    "network": "network", "mailuser": "mail_user", "stdin": "std_in", "stdout": "std_out", "stderr": "std_err",
    "workdir": "work_dir",
}  # fmt: skip
_COUNTS: Final = {
    "nice": "nice", "priority": "priority", "numtasks": "num_tasks", "cpuspertask": "cpus_per_task",
    "mincpusnode": "pn_min_cpus", "taskspernode": "ntasks_per_node", "numnodes": "min_nodes", "reqthreads": "threads_per_core",
    "reqsockets": "sockets_per_node", "reqcores": "cores_per_socket",
}  # fmt: skip
_SIZES: Final = {
    "minmemorynode": "min_mem_per_node", "minmemorycpu": "min_mem_per_cpu", "mintmpdisknode": "pn_min_tmp_disk",
}  # fmt: skip
_MINUTES: Final = {"timelimit": "time_limit", "timemin": "time_min"}
UPDATES: Final = {**_NAMES, **_COUNTS, **_SIZES, **_MINUTES}


class LuaFilter:
    """A loaded job_submit.lua."""

    def __init__(self, path: str, text: str) -> None:
        self._script = LuaScript(path, text, _log, _user, _constants())
        found = self._script.functions((f"slurm_{SUBMIT}", f"slurm_{MODIFY}"))
        self.has = tuple(name.removeprefix("slurm_") for name in found)
        if not self.has:
            raise FilterFailed(f"{path}: it has neither slurm_job_submit nor slurm_job_modify")

    def submit(self, job: dict[str, object], call: dict[str, object]) -> None:
        """Calls slurm_job_submit."""
        if SUBMIT not in self.has:
            return
        before = _as_slurm(job)
        before["default_account"] = _inside(call, "submitter").get("default_account")
        table = self._script.table(before)
        self._call(SUBMIT, table, self._part_list(call), job["user_id"])
        after = self._values(table, before)
        if "gres" in after:
            after.setdefault("tres_per_node", after.pop("gres"))
        job.update({name: value for name, value in after.items() if name in job})

    def modify(self, changes: dict[str, str], call: dict[str, object]) -> None:
        """Calls slurm_job_modify."""
        if MODIFY not in self.has:
            return
        record = _inside(call, "record")
        before = {**_as_slurm({}), **_update(changes, record)}
        table = self._script.table(before)
        uid = _inside(call, "submitter").get("user_id")
        job_rec = self._script.table(_as_slurm(record))
        self._call(MODIFY, table, job_rec, self._part_list(call), uid)
        keys = {name: key for key, name in UPDATES.items()} | {
            name: key for key, name in UPDATES.items() if key in changes
        }
        for name, value in self._values(table, before).items():
            if name in keys:
                changes[keys[name]] = "" if value is None else str(int(value) if isinstance(value, float) else value)

    def _call(self, function: str, *values: object) -> None:
        if code := self._script.call(f"slurm_{function}", *values):
            raise FilterRefusal("", code)

    def _part_list(self, call: dict[str, object]) -> object:
        found = call["partitions"]
        listed = found if isinstance(found, list) else []
        return self._script.table({str(one["name"]): _part(one) for one in listed})

    def _values(self, table: object, before: dict[str, object]) -> dict[str, object]:
        """Returns what differs from the values before, as a filter in Python would set it."""
        found: dict[str, object] = {}
        after = cast("dict[str, object]", plain(table))
        for name in after.keys() | before.keys():
            value = after.get(name)
            if value == before.get(name):
                continue
            if name == "argv" and isinstance(value, dict):
                value = list(value.values())
            found[name] = _as_python(name, value)
        return found


def _constants() -> dict[str, LuaConstant]:
    named = {f"ESLURM_{name}": int(code) for name, code in _ERRORS.items()}
    return {
        **named, "NO_VAL": NO_VAL, "NO_VAL8": NO_VAL8, "NO_VAL16": NO_VAL16, "NO_VAL64": 0xFFFF_FFFE, "INFINITE": INFINITE,
        "INFINITE16": 0xFFFF, "INFINITE8": 0xFF, "ALLOC_SID_ADMIN_HOLD": 0, "JOB_SHARED_NONE": 0, "JOB_SHARED_OK": 1,
        "JOB_SHARED_USER": 2, "JOB_SHARED_MCS": 3, "JOB_SHARED_TOPO": 4, "NICE_OFFSET": 0x8000_0000,
        **{f"MAIL_JOB_{name}": bit for name, bit in _MAIL.items()},
    }  # fmt: skip


def _as_slurm(job: dict[str, object]) -> dict[str, object]:
    """Returns a job with Slurm's values of what was not given."""
    found: dict[str, object] = {**_UNSET, **{name: value for name, value in job.items() if value is not None}}
    for name in _FLAGS:
        found[name] = int(found[name])  # type: ignore[call-overload]  # numbers and bools
    for name in ("time_limit", "time_min"):
        found[name] = INFINITE if found[name] == -1 else found[name]
    tasks = job.get("num_tasks")
    per_task = job.get("cpus_per_task")
    if isinstance(tasks, int) or isinstance(per_task, int):
        found["min_cpus"] = (tasks if isinstance(tasks, int) else 1) * (per_task if isinstance(per_task, int) else 1)
    else:
        found["min_cpus"] = NO_VAL
    words = str(job.get("mail_type") or "")
    found["mail_type"] = sum(_MAIL.get(word, 0) for word in words.split(","))
    argv = job.get("argv")
    found["argc"] = len(argv) if isinstance(argv, list) else 0
    if "tres_per_node" in found:
        found["gres"] = found["tres_per_node"]
    return found


def _as_python(name: str, value: object) -> object:
    """Returns a value of Lua's as the record of a job has it."""
    if name in _NUMBERS:
        if value is None or value in (_UNSET[name], NO_VAL):
            return None
        if name in ("time_limit", "time_min") and value == INFINITE:
            return -1
        return bool(value) if name in _FLAGS else value
    if name == "mail_type" and isinstance(value, (int, float)):
        return ",".join(word for word, bit in _MAIL.items() if int(value) & bit) or None
    return None if value == "" else value


def _update(changes: dict[str, str], record: dict[str, object]) -> dict[str, object]:
    """Returns the changes as fields of a job. A text that cannot be read is left to the controller."""
    found: dict[str, object] = {}
    for key, text in changes.items():
        name = UPDATES.get(key)
        if name is None:
            continue
        try:
            found[name] = _read(key, name, text, record)
        except BadValue:
            continue
    return found


def _read(key: str, name: str, text: str, record: dict[str, object]) -> object:
    if key in _MINUTES:
        sign = {"+": 1, "-": -1}.get(text[:1], 0)
        minutes = -(-parse_duration_s(text[1:] if sign else text) // 60)
        known = record.get(name)
        return (known if isinstance(known, int) else 0) + sign * minutes if sign else minutes
    if key in _SIZES:
        return parse_mb(text, key)
    if key in _COUNTS:
        first = text.partition("-")[0] if key == "numnodes" else text
        return parse_int(first, -INT64_MAX, INT64_MAX, key)
    return text


def _part(one: dict[str, object]) -> dict[str, object]:
    """Returns a partition with Slurm's values: nil for an empty list, INFINITE for no limit."""
    found = {name: INFINITE if value == -1 else value for name, value in one.items() if value != ""}
    found["state_up"] = {"UP": 3, "DOWN": 1, "DRAIN": 2, "INACTIVE": 0}.get(str(one.get("state_up")), 3)
    if not found.get("default_time"):
        found["default_time"] = NO_VAL
    return found


def _inside(call: dict[str, object], name: str) -> dict[str, object]:
    found = call.get(name)
    return found if isinstance(found, dict) else {}


def _log(text: bytes, level: bytes) -> None:
    note(f"{level.decode()}: {text.decode('utf-8', 'replace')}")


def _user(text: bytes, level: object = None) -> None:
    log_user(text.decode("utf-8", "replace"))
