"""strigger: set, list and clear triggers: programs that the controller runs when something happens.

A trigger waits for one thing or several of --down, --up, --drained, --draining, --fail, --idle (of nodes), --time, --fini
(of a job), --reconfig, --primary_slurmctld_resumed_operation. The others of Slurm cannot happen here, as there is one
controller with one database: such a trigger is kept and shown, and a warning says that it will not run.

Statuses: 0; 1 for errors. -Q hides what --clear did not find.
"""

import os
import stat
from typing import Any, Final, NoReturn

from cli.options import ACCEPTED, MAYBE, YES, Command, Option, accepted, parse
from cli.run import CommandError, complain, run
from cli.users import find_entry
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.periodic_pb2 import (
    ClearTriggersRequest,
    ListTriggersRequest,
    SetTriggerRequest,
    TriggerInfo,
)
from penstock.values.refusals import Code

OFFSET_MAX_S: Final = 32_000
#: Bits of ctld.core.periodic.TriggerKind.
KINDS: Final = {
    "down": 1, "up": 2, "drained": 4, "fail": 8, "idle": 16, "time": 32, "fini": 64, "reconfig": 128,
    "primary_slurmctld_resumed_operation": 256, "draining": 1024,
}  # fmt: skip
NEVER: Final = 512
_NEVER: Final = (
    "primary_slurmctld_failure/a", "primary_slurmctld_resumed_control/b", "primary_slurmctld_acct_buffer_full/e",
    "backup_slurmctld_failure/B", "backup_slurmctld_resumed_operation/c", "backup_slurmctld_assumed_control/C",
    "primary_slurmdbd_failure/g", "primary_slurmdbd_resumed_operation/G", "primary_database_failure/h",
    "primary_database_resumed_operation/H", "burst_buffer",
)  # fmt: skip
_NEVER_NOTE: Final = "kept and shown, and never run: there is one controller with one database and no burst buffer"

COMMAND = Command(
    "strigger",
    "[--set | --get | --clear] [OPTIONS]",
    (
        Option("set", help="create a trigger"),
        Option("get", help="get trigger information"),
        Option("clear", help="delete a trigger"),
        *(
            Option(name, short, help="trigger event that cannot happen here", note=_NEVER_NOTE, standing=ACCEPTED)
            for name, _, short in (entry.partition("/") for entry in _NEVER)
        ),
        Option("primary_slurmctld_resumed_operation", "A", help="trigger event when the controller has started"),
        Option("down", "d", help="trigger event when node goes DOWN"),
        Option("drained", "D", help="trigger event when node becomes DRAINED"),
        Option("draining", help="trigger event when node becomes DRAINING"),
        Option("fail", "F", help="trigger event when node is expected to FAIL"),
        Option("fini", "f", help="trigger event when job finishes"),
        Option("flags", "", YES, help="trigger event flag (perm = permanent)", metavar="perm"),
        Option("id", "i", YES, help="a trigger's ID number", metavar="#"),
        Option("idle", "I", help="trigger event when node remains IDLE for the offset"),
        Option("jobid", "j", YES, help="trigger related to specific jobid", metavar="#"),
        Option("node", "n", MAYBE, help="trigger related to specific node, all nodes by default", metavar="host",
               const="*"),
        Option("noheader", "N", help="do not print the message header"),
        Option("offset", "o", YES, help="trigger's offset time from event, negative to precede", metavar="#"),
        Option("program", "p", YES, help="pathname of program to execute when triggered", metavar="path"),
        Option("quiet", "Q", help="quiet mode (suppress informational messages)"),
        Option("reconfig", "r", help="trigger event on configuration changes"),
        Option("time", "t", help="trigger event on job's time limit"),
        Option("up", "u", help="trigger event when node returned to service from DOWN state"),
        Option("user", "", YES, help="a user name or ID to filter triggers by", metavar="user"),
        Option("verbose", "v", help="print detailed event logging", counted=True),
        *accepted("clusters/M", note="there is one cluster"),
        *accepted("front_end", value="no", note="there are no front end nodes"),
    ),
)  # fmt: skip

MODE = "You must use exactly one of the following options: --set, --get or --clear"
NO_TRIGGER = """\
You must specify a trigger (--down, --up, --reconfig, --time, --fini, --burst_buffer,
--primary_slurmctld_failure,
--primary_slurmctld_resumed_operation,
--primary_slurmctld_resumed_control,
--primary_slurmctld_acct_buffer_full,
--backup_slurmctld_failure,
--backup_slurmctld_resumed_operation,
--backup_slurmctld_as_ctrl,
--primary_slurmdbd_failure,
--primary_slurmdbd_resumed_operation,
--primary_database_failure, or
--primary_database_resumed_operation)"""
HEADER = "TRIG_ID RES_TYPE   RES_ID TYPE                                OFFSET USER     FLAGS PROGRAM"


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Do what is asked."""
    values = parse(COMMAND, argv).values
    if sum(bool(values.get(name)) for name in ("set", "get", "clear")) != 1:
        raise CommandError(MODE)
    for name, what in (("jobid", "jobid"), ("id", "id"), ("offset", "offset")):
        if name in values:
            values[name] = _number(values[name], what)
    if values.get("flags", "perm").lower() != "perm":
        raise CommandError(f"Invalid flags {values['flags']}")
    if "user" in values:
        values["user"] = _user(values["user"])
    if values.get("set"):
        return _set(values)
    return _clear(values) if values.get("clear") else _get(values)


def _number(text: str, what: str) -> int:
    digits = text.removeprefix("-") if what == "offset" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10) or (what != "offset" and not int(text)):
        raise CommandError(f"Invalid {what} {text[:64]}")
    return int(text)


def _user(text: str) -> str:
    entry = find_entry(text)
    if entry is None:
        raise CommandError(f"Invalid user {text[:64]}")
    return str(entry.pw_name)


def _set(values: dict[str, Any]) -> int:
    kinds, what = _wanted(values)
    if not kinds:
        raise CommandError(NO_TRIGGER)
    _check_program(values.get("program", ""))
    if (values.get("time") or values.get("fini")) and "jobid" not in values:
        raise CommandError("You must specify a --jobid value")
    if abs(values.get("offset", 0)) > OFFSET_MAX_S:
        raise CommandError(f"The --offset parameter must be between +/-{OFFSET_MAX_S}")
    nodes = values.get("node", "*")
    if "jobid" in values and nodes != "*":
        raise CommandError("--jobid and --node exclude each other")
    request = SetTriggerRequest(
        kinds=kinds,
        what=what,
        nodes="" if nodes == "*" else nodes,
        job_id=values.get("jobid", 0),
        offset_s=values.get("offset", 0),
        program=values["program"],
        permanent="flags" in values,
    )
    with Client.open() as client:
        reply = client.call("SetTrigger", request)
    if values.get("verbose"):
        complain(COMMAND.name, f"{COMMAND.name}: trigger {reply.trigger_id} set", plain=True)
    return 0


def _wanted(values: dict[str, Any]) -> tuple[int, str]:
    """Bits, and the word of what cannot happen."""
    never = [name for name in (entry.partition("/")[0] for entry in _NEVER) if values.get(name)]
    kinds = sum(bit for name, bit in KINDS.items() if values.get(name)) | (NEVER if never else 0)
    return kinds, never[0] if never else ""


def _check_program(program: str) -> None:
    """As far as it can be seen from here: it runs on the controller's machine."""
    if not program:
        raise CommandError("You must specify a --program value")
    if not program.startswith("/"):
        raise CommandError('The --program value must start with "/"')
    try:
        found = os.stat(program.split()[0])
    except OSError:
        raise CommandError("Invalid --program value, file not found") from None
    if not stat.S_ISREG(found.st_mode):
        raise CommandError("Invalid --program value, not regular file")


def _clear(values: dict[str, Any]) -> int:
    if not any(name in values for name in ("id", "jobid", "user")):
        raise CommandError("You must specify a --id, --jobid, or --user to clear")
    request = ClearTriggersRequest(
        trigger_id=values.get("id", 0), job_id=values.get("jobid", 0), user=values.get("user", "")
    )
    with Client.open() as client:
        try:
            reply = client.call("ClearTriggers", request)
        except PenstockError as error:
            if error.code == Code.NO_TRIGGER and values.get("quiet"):
                return 0
            raise
    if values.get("verbose"):
        ids = ", ".join(map(str, reply.trigger_ids))
        complain(COMMAND.name, f"{COMMAND.name}: cleared: {ids}", plain=True)
    return 0


def _get(values: dict[str, Any]) -> int:
    with Client.open() as client:
        found = [one for one in client.call("ListTriggers", ListTriggersRequest()).triggers if _passes(one, values)]
    if values.get("verbose"):
        complain(COMMAND.name, f"Read {len(found)} trigger records", plain=True)
    if not values.get("noheader"):
        print(HEADER)  # noqa: T201
    for one in found:
        print(_row(one))  # noqa: T201
    return 0


def _passes(one: TriggerInfo, values: dict[str, Any]) -> bool:
    kinds = _wanted(values)[0]
    nodes = values.get("node", "*")
    return (
        values.get("id", one.trigger_id) == one.trigger_id
        and values.get("jobid", one.job_id) == one.job_id
        and values.get("user", one.user_name) == one.user_name
        and (not kinds or bool(kinds & one.kinds))
        and (nodes == "*" or _share(nodes, one.nodes))
    )


def _share(asked: str, nodes: str) -> bool:
    from penstock.values.hostlist import expand

    return not nodes or bool(dict.fromkeys(expand(asked)).keys() & dict.fromkeys(expand(nodes)).keys())


def _row(one: TriggerInfo) -> str:
    kind = "job" if one.job_id else "node"
    if one.kinds & (NEVER | KINDS["primary_slurmctld_resumed_operation"]):
        kind = one.words.split("_")[1] if "_" in one.words else "other"
    resource = str(one.job_id) if one.job_id else one.nodes or "*"
    flags = "PERM" if one.permanent else ""
    return (
        f"{one.trigger_id:7} {kind:<9} {resource:>7} {one.words:<35} {one.offset_s:6} {one.user_name:<8} {flags:<5} "
        f"{one.program}"
    )


if __name__ == "__main__":
    main()
