"""sacctmgr add|modify|delete|show qos: quality-of-service records.

    sacctmgr add qos high Priority=1000 Preempt=normal PreemptMode=requeue
    sacctmgr modify qos where name=high set GraceTime=60 Preempt+=low
    sacctmgr delete qos high
    sacctmgr show qos format=Name,Priority,Preempt

`run_qos` is what sacctmgr.py calls for the entity `qos`. Values are read by the controller, which knows the other QOS. A
change is shown first, and made when the person at the terminal says yes or -i was given. Limits of a QOS come with the
accounting issue: to set one fails and says so, and its column is empty.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from cli.confirm import confirmed
from cli.format import TableColumn, TableStyle, parse_table, table_lines
from cli.run import CommandError
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.values.duration import format_duration

NAME = "sacctmgr"
Action = pb.ChangeQosRequest.Action
_ACTIONS = {"add": Action.ADD, "modify": Action.MODIFY, "remove": Action.DELETE}
_DONE = {"add": " Added QOS(s)", "modify": " Modified qos...", "remove": " Deleting QOS(s)..."}

#: Keys that can be set, by their whole name; a word of three letters or more that begins one means it.
_KEYS = ("description", "priority", "preempt", "preemptmode", "gracetime", "preemptexempttime", "flags", "usagefactor")
_KEYS_LATER = (
    "grpjobs", "grpjobsaccrue", "grpsubmitjobs", "grptres", "grptresmins", "grptresrunmins", "grpwall", "limitfactor",
    "maxjobsaccrueperaccount", "maxjobsaccrueperuser", "maxjobsperaccount", "maxjobsperuser", "maxsubmitjobsperaccount",
    "maxsubmitjobsperuser", "maxtresminsperjob", "maxtresperaccount", "maxtresperjob", "maxtrespernode",
    "maxtresperuser", "maxtresrunminsperaccount", "maxtresrunminsperuser", "maxwalldurationperjob", "minpriothreshold",
    "mintresperjob", "rawusage", "usagethreshold",
)  # fmt: skip
_NAMES = ("name", "names", "qos", "qosids", "id")
_SHORTEST = 3


class Words(NamedTuple):
    """What a line says."""

    names: list[str]
    changes: dict[str, str]
    columns: str


def run_qos(verb: str, words: list[str], options: dict[str, Any]) -> int:
    """`verb` is add, modify, remove or show; `words` what stands behind the entity; `options` those of sacctmgr."""
    said = read_words(words, verb)
    if verb == "show":
        return show(said, options)
    if options.get("readonly"):
        raise CommandError("Can't run this command in readonly mode.")
    if not said.names:
        raise CommandError(f"Need name of qos to {verb}.", plain=True)
    if verb == "modify" and not said.changes:
        raise CommandError("You didn't give me anything to set", plain=True)
    if not options.get("quiet"):
        tell(verb, said)
    if not options.get("immediate") and not confirmed():
        print(" Changes Discarded")  # noqa: T201
        return 0
    request = pb.ChangeQosRequest(action=_ACTIONS[verb], names=said.names, changes=said.changes)
    ask("ChangeQos", request)
    return 0


def read_words(words: list[str], verb: str) -> Words:
    """Names, changes and columns. Raises CommandError for a key that is not one."""
    said = Words([], {}, "")
    for word in words:
        key, equals, value = word.partition("=")
        low = key.lower()
        if not equals:
            if low not in ("where", "set"):
                said.names.extend(name.lower() for name in word.split(",") if name)
        elif low in _NAMES:
            said.names.extend(name.lower() for name in value.split(",") if name)
        elif "format".startswith(low) and verb == "show":
            said = said._replace(columns=value)
        else:
            sign = low[-1] if low[-1:] in ("+", "-") else ""
            said.changes[_key(low.removesuffix(sign) if sign else low, word) + sign] = value.strip("\"'")
    return said


def _key(low: str, word: str) -> str:
    if low in _KEYS:
        return low
    if len(low) >= _SHORTEST:
        for key in (*_KEYS, *_KEYS_LATER):
            if key.startswith(low):
                if key in _KEYS_LATER:
                    raise CommandError(f"{key}= is not supported yet by Penstock")
                return key
    raise CommandError(f" Unknown option: {word}", plain=True)


def tell(verb: str, said: Words) -> None:
    """What is about to be done, in Slurm's form."""
    print(_DONE[verb])  # noqa: T201
    for name in said.names:
        print(f"  {name}")  # noqa: T201
    if said.changes and verb != "remove":
        print(" Settings")  # noqa: T201
        for key, value in said.changes.items():
            print(f"  {key:<20}= {value}")  # noqa: T201


def ask(method: str, request: Any) -> Any:
    """One request; a refusal is told in its own words."""
    with Client.open() as client:
        try:
            return client.call(method, request)
        except PenstockError as error:
            raise CommandError(f" {error.text}", plain=True) from error


def show(said: Words, options: dict[str, Any]) -> int:
    """The table of QOS."""
    columns: list[TableColumn] = list(DEFAULT)
    if said.columns:
        columns, unknown = parse_table(said.columns, COLUMNS)
        if unknown:
            raise CommandError(f' Unknown field "{unknown[0].what}"', plain=True)
    records = ask("ListQos", pb.ListQosRequest(names=said.names)).qos
    bars = "|" if options.get("parsable") or options.get("parsable2") else ""
    style = TableStyle(bars, bool(options.get("parsable")), not options.get("noheader"))
    for line in table_lines(columns, records, None, style):
        print(line)  # noqa: T201
    return 0


def _modes(qos: pb.Qos, view: Any) -> str:
    return ",".join(mode.lower() for mode in qos.preempt_mode) or "cluster"


def _exempt(qos: pb.Qos, view: Any) -> str:
    return "" if qos.preempt_exempt_time_s < 0 else format_duration(qos.preempt_exempt_time_s)


def _column(name: str, width: int, value: Callable[[pb.Qos, Any], str]) -> TableColumn:
    return TableColumn(name, width, value)


COLUMNS = (
    _column("Name", 10, lambda qos, view: qos.name),
    _column("Priority", 10, lambda qos, view: str(qos.priority)),
    _column("GraceTime", 10, lambda qos, view: format_duration(qos.grace_time_s)),
    _column("Preempt", 10, lambda qos, view: ",".join(qos.preempt)),
    _column("PreemptExemptTime", 19, _exempt),
    _column("PreemptMode", 11, _modes),
    _column("Flags", 40, lambda qos, view: ",".join(qos.flags)),
    _column("UsageThres", 10, lambda qos, view: ""),
    _column("UsageFactor", 11, lambda qos, view: f"{qos.usage_factor_ppm / 1_000_000:.6f}"),
    *(
        _column(name, width, lambda qos, view: "")
        for name, width in (
            ("GrpTRES", 13),
            ("GrpTRESMins", 13),
            ("GrpTRESRunMins", 13),
            ("GrpJobs", 7),
            ("GrpSubmit", 9),
            ("GrpWall", 11),
            ("MaxTRES", 13),
            ("MaxTRESPerNode", 14),
            ("MaxTRESMins", 13),
            ("MaxWall", 11),
            ("MaxTRESPU", 13),
            ("MaxJobsPU", 9),
            ("MaxSubmitPU", 11),
            ("MaxTRESPA", 13),
            ("MaxJobsPA", 9),
            ("MaxSubmitPA", 11),
            ("MinTRES", 13),
        )
    ),
    _column("Description", 20, lambda qos, view: qos.description),
)
#: What is shown without format=: all but the description.
DEFAULT = COLUMNS[:-1]
