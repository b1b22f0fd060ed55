"""strigger: sets, lists and clears triggers, programs that the controller runs on events.

A trigger waits for one thing or several of --down, --up, --drained, --draining, --fail, --idle (of nodes), --time, --fini
(of a job), --reconfig, --primary_slurmctld_resumed_operation. The others of Slurm cannot happen here, as there is one
controller with one database: such a trigger is stored and shown, and a warning says that it will not run. Statuses: 0;
1 for errors. With -Q --clear does not report missing triggers.
"""

import os
import stat
from typing import Final, NoReturn

from cli.base.clusters import open_one
from cli.base.listing import emit
from cli.base.options import ACCEPTED, MAYBE, YES, Command, Option, OptionValues, accepted, parse
from cli.base.run import CommandError, complain, run
from cli.base.users import find_entry
from penstock.errors import PenstockError
from penstock.v1.periodic_pb2 import (
    ClearTriggersRequest,
    ListTriggersRequest,
    SetTriggerRequest,
    TriggerInfo,
)
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code

OFFSET_MAX_S: Final = 32_000
NUMBER_MAX: Final = 999_999_999
#: Bits of ctld.core.records.periodic.TriggerKind.
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
_NEVER_NOTE: Final = "stored and shown, and never run: there is one controller with one database and no burst buffer"


def _positive(text: str) -> int:
    return parse_int(text, 1, NUMBER_MAX, "number")


def _offset_s(text: str) -> int:
    return parse_int(text, -NUMBER_MAX, NUMBER_MAX, "number of seconds")


def _flags(text: str) -> str:
    if text.lower() != "perm":
        raise BadValue("the only flag is perm")
    return text


def _user(text: str) -> str:
    entry = find_entry(text)
    if entry is None:
        raise BadValue("no user of that name or number")
    return str(entry.pw_name)


COMMAND = Command(
    "strigger",
    "[--set | --get | --clear] [OPTIONS]",
    (
        Option("set", help="create a trigger"),
        Option("get", help="get trigger information"),
        Option("clear", help="delete a trigger"),
        *(
            Option(name, short, help="trigger event that cannot happen here", note=_NEVER_NOTE, status=ACCEPTED)
            for name, _, short in (entry.partition("/") for entry in _NEVER)
        ),
        Option("primary_slurmctld_resumed_operation", "A", help="trigger event when the controller has started"),
        Option("down", "d", help="trigger event when node goes DOWN"),
        Option("drained", "D", help="trigger event when node becomes DRAINED"),
        Option("draining", help="trigger event when node becomes DRAINING"),
        Option("fail", "F", help="trigger event when node is expected to FAIL"),
        Option("fini", "f", help="trigger event when job finishes"),
        Option("flags", "", YES, help="trigger event flag (perm = permanent)", metavar="perm", convert=_flags,
               invalid="Invalid flags {value}"),
        Option("id", "i", YES, help="a trigger's ID number", metavar="#", convert=_positive, invalid="Invalid id {value}"),
        Option("idle", "I", help="trigger event when node remains IDLE for the offset"),
        Option("jobid", "j", YES, help="trigger related to specific jobid", metavar="#", convert=_positive,
               invalid="Invalid jobid {value}"),
        Option("node", "n", MAYBE, help="trigger related to specific node, all nodes by default", metavar="host",
               const="*"),
        Option("noheader", "N", help="do not print the message header"),
        Option("offset", "o", YES, help="trigger's offset time from event, negative to precede", metavar="#",
               convert=_offset_s, invalid="Invalid offset {value}"),
        Option("program", "p", YES, help="pathname of program to execute when triggered", metavar="path"),
        Option("quiet", "Q", help="quiet mode (suppress informational messages)"),
        Option("reconfig", "r", help="trigger event on configuration changes"),
        Option("time", "t", help="trigger event on job's time limit"),
        Option("up", "u", help="trigger event when node returned to service from DOWN state"),
        Option("user", "", YES, help="a user name or ID to filter triggers by", metavar="user", convert=_user,
               invalid="Invalid user {value}"),
        Option("verbose", "v", help="print detailed event logging", counted=True),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "cluster to issue commands to", "name"),
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
    """Runs the chosen action."""
    values = parse(COMMAND, argv, os.environ).values
    if sum(values.flag(name) for name in ("set", "get", "clear")) != 1:
        raise CommandError(MODE)
    if values.flag("set"):
        return _set(values)
    return _clear(values) if values.flag("clear") else _get(values)


def _set(values: OptionValues) -> int:
    kinds, what = _wanted(values)
    if not kinds:
        raise CommandError(NO_TRIGGER)
    _check_program(values.text("program"))
    if (values.flag("time") or values.flag("fini")) and "jobid" not in values:
        raise CommandError("You must specify a --jobid value")
    if abs(values.number("offset")) > OFFSET_MAX_S:
        raise CommandError(f"The --offset parameter must be between +/-{OFFSET_MAX_S}")
    nodes = values.text("node", "*")
    if "jobid" in values and nodes != "*":
        raise CommandError("--jobid and --node exclude each other")
    request = SetTriggerRequest(
        kinds=kinds,
        what=what,
        nodes="" if nodes == "*" else nodes,
        job_id=values.number("jobid"),
        offset_s=values.number("offset"),
        program=values.text("program"),
        permanent="flags" in values,
    )
    with open_one(COMMAND.name, values.text("clusters")) as client:
        try:
            reply = client.call("SetTrigger", request)
        except PenstockError as error:
            raise CommandError(f"slurm_set_trigger: {error.text}", plain=True, detail=error.detail) from error
    if values.flag("verbose"):
        complain(COMMAND.name, f"{COMMAND.name}: trigger {reply.trigger_id} set", plain=True)
    return 0


def _wanted(values: OptionValues) -> tuple[int, str]:
    """The bits of the chosen events, and the option of one that cannot happen."""
    never = [name for name in (entry.partition("/")[0] for entry in _NEVER) if values.flag(name)]
    kinds = sum(bit for name, bit in KINDS.items() if values.flag(name)) | (NEVER if never else 0)
    return kinds, never[0] if never else ""


def _check_program(program: str) -> None:
    """Checks the program as far as possible here: it runs on the controller's machine."""
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


def _clear(values: OptionValues) -> int:
    if not any(name in values for name in ("id", "jobid", "user")):
        raise CommandError("You must specify a --id, --jobid, or --user to clear")
    request = ClearTriggersRequest(
        trigger_id=values.number("id"), job_id=values.number("jobid"), user=values.text("user")
    )
    with open_one(COMMAND.name, values.text("clusters")) as client:
        try:
            reply = client.call("ClearTriggers", request)
        except PenstockError as error:
            if error.code == Code.NO_TRIGGER and values.flag("quiet"):
                return 0
            if error.code == Code.NO_TRIGGER:
                raise CommandError("slurm_clear_trigger: No such process", plain=True) from error
            raise
    if values.flag("verbose"):
        ids = ", ".join(map(str, reply.trigger_ids))
        complain(COMMAND.name, f"{COMMAND.name}: cleared: {ids}", plain=True)
    return 0


def _get(values: OptionValues) -> int:
    with open_one(COMMAND.name, values.text("clusters")) as client:
        found = [one for one in client.call("ListTriggers", ListTriggersRequest()).triggers if _passes(one, values)]
    if values.flag("verbose"):
        complain(COMMAND.name, f"{COMMAND.name}: Read {len(found)} trigger records", plain=True)
    if found and not values.flag("noheader"):
        print(HEADER)  # noqa: T201
    for one in found:
        emit([_row(one)])
    return 0


def _passes(one: TriggerInfo, values: OptionValues) -> bool:
    kinds = _wanted(values)[0]
    nodes = values.text("node", "*")
    return (
        values.number("id", one.trigger_id) == one.trigger_id
        and values.number("jobid", one.job_id) == one.job_id
        and values.text("user", one.user_name) == one.user_name
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
