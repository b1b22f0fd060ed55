"""sacctmgr add|modify|delete|show qos: quality-of-service records.

    sacctmgr add qos high Priority=1000 Preempt=normal MaxTRESPerUser=gres/gpu=8
    sacctmgr modify qos where name=high set GraceTime=60 Preempt+=low
    sacctmgr delete qos high
    sacctmgr show qos format=Name,Priority,Preempt

Conditions are resolved here against the list of all QOS; the controller validates settings and the QOS to preempt. A
change is printed first, and made after the user confirms or with -i.
"""

from collections.abc import Callable, Mapping
from functools import partial

# Any: each option has a reader of its own and a value of the kind that it reads
from typing import Any

from cli.accounts.context import NO_WHERE, ChangeContext, is_elsewhere
from cli.accounts.fields import FieldValue, columns_of, put_table
from cli.accounts.grammar import OLD_LIMITS
from cli.accounts.qosnames import bad_qos, list_qos
from cli.accounts.tree import limit_text
from cli.accounts.values import QOS_LABELS, checked, describe_settings, refused
from cli.accounts.words import ParsedLine
from cli.base.document import is_wanted
from cli.base.options import OptionValues
from cli.base.refusal import split_message
from cli.base.run import CommandError
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.values.duration import format_duration
from penstock.values.errors import BadValue
from penstock.values.limits import OF_QOS, LimitKind, from_texts
from penstock.values.qos import FLAGS, parse_exempt_s, parse_factor, parse_flags, parse_grace_s, parse_preempt_mode
from penstock.values.refusals import Code

_Action = pb.ChangeQosRequest.Action
NOTHING_SET = "\n You didn't give me anything to set"
_ACTIONS = {"add": _Action.ADD, "modify": _Action.MODIFY, "remove": _Action.DELETE}


def run_qos(context: ChangeContext, verb: str, said: ParsedLine) -> int:
    """Runs one line that changes QOS."""
    alone = verb == "modify" and len(said.changes) == 1
    changes = checked(said.changes, OF_QOS, said.words, lambda key: _nothing_set(key) if alone else "")
    _check(changes, said.words, NOTHING_SET if alone else "")
    for key in ("preempt", "preempt+", "preempt-"):
        names = [one.name for one in list_qos(context.client)] if changes.get(key) else []
        if line := bad_qos(names, changes[key].split(",") if names else ()):
            raise CommandError(line)
    if verb == "add":
        return _add(context, said, changes)
    if verb == "modify" and not changes:
        raise CommandError(NOTHING_SET.strip("\n"), plain=True)
    if not said.has_conditions():
        if verb == "remove":
            raise CommandError(" No conditions given to remove, not executing.", plain=True)
        if not context.agreed(NO_WHERE):
            print("Aborted")  # noqa: T201
            return 0
    found = [one.name for one in _chosen(context.client, said)]
    if not found:
        print({"modify": " Nothing modified", "remove": " Nothing deleted"}[verb])  # noqa: T201
        return 1
    if verb == "remove" and (lines := _defaults(context, found)):
        raise CommandError("\n".join(lines), plain=True)
    return _commit(
        context, verb, found, changes, {"modify": " Modified qos...", "remove": " Deleting QOS(s)..."}[verb], []
    )


def _add(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    names = list(dict.fromkeys(name.lower() for name in said.names()))
    if not names:
        raise CommandError(" Need name of qos to add.", plain=True)
    there = {one.name for one in list_qos(context.client)}
    new = [name for name in names if name not in there]
    if not new:
        print(" Nothing new added.")  # noqa: T201
        return 1
    settings = [
        " Settings",
        f"  Description    = {changes.get('description', new[-1])}",
        *describe_settings(changes, QOS_LABELS, 25),
    ]
    return _commit(context, "add", new, changes, " Adding QOS(s)", settings)


def _defaults(context: ChangeContext, names: list[str]) -> list[str]:
    """Slurm's lines about associations whose own default is one of these QOS; [] = there are none."""
    found = [
        f"  DefQOS = {one.default_qos:<10.10} C = {context.cluster:<10.10} A = {one.account:<20.20} "
        + (f"U = {one.user:<9.9}" if one.user else "")
        + (f" P = {one.partition:<10.10}" if one.partition else "")
        for one in context.tree.whole.associations
        if one.default_qos in names
    ]
    return [" Associations listed below have these as their Default QOS.", *found, *_KEPT] if found else []


_KEPT = (
    " Please either remove the qos' listed above from list and resubmit,",
    " or change the default qos to remove the qos.",
    " Changes Discarded",
)


def _commit(
    context: ChangeContext, verb: str, names: list[str], changes: dict[str, str], head: str, settings: list[str]
) -> int:
    before = " Problem adding QOS: " if verb == "add" else " Error with request: "
    look, change = (
        pb.ChangeQosRequest(action=_ACTIONS[verb], names=names, changes=changes, check_only=only)
        for only in (True, False)
    )
    _send(context.client, look, before)
    context.put(head, *(f"  {name}" for name in names), *settings)
    if not context.agreed(
        "Would you like to reset usage?" if set(changes) == {"rawusage"} else "Would you like to commit changes?"
    ):
        print(" Changes Discarded")  # noqa: T201
        return 0
    _send(context.client, change, before)
    return 0


def _send(client: Client, message: pb.ChangeQosRequest, before: str) -> None:
    """Sends a change. A loop is also said by the library of Slurm's sacctmgr, in a line of its own."""
    try:
        client.call("ChangeQos", message)
    except PenstockError as error:
        if not error.code:  # not the controller's
            raise
        words, detail = split_message(error)
        first = f"sacctmgr: error: {words}\n" if error.code == Code.QOS_PREEMPTION_LOOP else ""
        raise CommandError(f"{first}{before}{words}", plain=True, detail=detail.replace("\n", " ")) from error


def _nothing_set(key: str) -> str:
    """What follows the line about the only setting of a line, where its value is bad."""
    limit = OF_QOS.get(key)
    return NOTHING_SET if limit is None or limit.kind is LimitKind.COUNT else ""


def _check(changes: dict[str, str], words: Mapping[str, str], after: str) -> None:
    """Checks what the command can check: flags, factors, times. Slurm's line says what is wrong, ours after it what is
    allowed."""
    for key, (name, read, line) in _CHECKS.items():
        if key in changes:
            try:
                read(changes[key])
            except BadValue as error:
                text = line.format(name=name, value=changes[key], word=words.get(key, changes[key]))
                if line is _VALUE_LINE:
                    raise refused(text, str(error), after) from None
                raise refused(text, "" if line is _FLAG_LINE else str(error), "", plain=True) from None


_FLAG_LINE = " Unknown QOS flag used in:\n  '{value}'\n Valid QOS flags are\n  '" + ",".join(FLAGS) + "'"
_VALUE_LINE = "Invalid value for {name} ({value})"
#: Name, parser of its text, Slurm's message for an invalid value.
_CHECKS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    **dict.fromkeys(("flags", "flags+", "flags-"), ("Flags", parse_flags, _FLAG_LINE)),
    "preemptmode": ("PreemptMode", parse_preempt_mode, " Bad Preempt Mode given: {word}"),
    "gracetime": ("GraceTime", parse_grace_s, _VALUE_LINE),
    "preemptexempttime": ("PreemptExemptTime", parse_exempt_s, " Bad PreemptExemptTime format: {word}"),
    **{
        name.lower(): (name, partial(parse_factor, what=name), _VALUE_LINE)
        for name in ("UsageFactor", "UsageThreshold", "LimitFactor")
    },
}


# ---- show --------------------------------------------------------------------------------------------------------


def _chosen(client: Client, said: ParsedLine) -> list[pb.Qos]:
    if is_elsewhere(said, client.cluster.cluster_name):
        return []
    names = {name.lower() for name in said.names()}
    wanted = said.conditions
    return [
        one
        for one in list_qos(client, "withdeleted" in said.flags)
        if ("name" not in wanted or one.name in names)
        and ("id" not in wanted or str(one.id) in wanted["id"])
        and ("description" not in wanted or one.description.lower() in (text.lower() for text in wanted["description"]))
        and (
            "preemptmode" not in wanted
            or bool({mode.lower() for mode in wanted["preemptmode"]} & set(_modes(one).split(",")))
        )
    ]


def show(client: Client, said: ParsedLine, options: OptionValues) -> int:
    """Prints the table of QOS."""
    columns = columns_of(said.columns or DEFAULT, VALUES)
    found = _chosen(client, said)
    if is_wanted(options):
        from cli.accounts.jsonacctmgr import put_qos

        return put_qos(found, client.cluster.cluster_name, options)
    put_table(columns, found, None, options)
    return 0


def _modes(qos: pb.Qos) -> str:
    return ",".join(mode.lower() for mode in qos.preempt_mode) or "cluster"


def _factor(ppm: int) -> str:
    return f"{ppm / 1_000_000:.6f}" if ppm >= 0 else ""


_Value = FieldValue[pb.Qos, None]


def _of(value: Callable[[pb.Qos], str]) -> _Value:
    return lambda qos, view: value(qos)


def _limit(name: str) -> _Value:
    limit = OF_QOS[name]
    return lambda qos, view: limit_text(from_texts(qos.limits), limit)


def _of_tres(name: str, tres: str) -> _Value:
    field = OF_QOS[name].field

    def value(qos: pb.Qos, view: None) -> str:
        amount = dict(getattr(from_texts(qos.limits), field)).get(tres)
        return "" if amount is None else str(amount)

    return value


VALUES: dict[str, _Value] = {
    "name": _of(lambda qos: qos.name), "id": _of(lambda qos: str(qos.id)), "priority": _of(lambda qos: str(qos.priority)),
    "description": _of(lambda qos: qos.description), "flags": _of(lambda qos: ",".join(qos.flags)),
    "gracetime": _of(lambda qos: format_duration(qos.grace_time_s)), "preempt": _of(lambda qos: ",".join(qos.preempt)),
    "preemptmode": _of(_modes),
    "preemptexempttime": _of(lambda qos: "" if qos.preempt_exempt_time_s < 0 else format_duration(qos.preempt_exempt_time_s)),
    "usagefactor": _of(lambda qos: _factor(qos.usage_factor_ppm)),
    "usagethreshold": _of(lambda qos: _factor(qos.usage_threshold_ppm)),
    "limitfactor": _of(lambda qos: _factor(qos.limit_factor_ppm)),
    **{limit.name: _limit(limit.name) for limit in OF_QOS.values()},
    "maxjobs": _limit("maxjobsperuser"), "maxsubmitjobs": _limit("maxsubmitjobsperuser"),
    **{old: _of_tres(*new) for old, new in OLD_LIMITS.items()},
}  # fmt: skip
DEFAULT = (
    "Name,Prio,GraceT,Preempt,PreemptE,PreemptM,Flags%40,UsageThres,UsageFactor,GrpTRES,GrpTRESMins,GrpTRESRunMins,"
    "GrpJ,GrpS,GrpW,"
    "MaxTRES,MaxTRESPerN,MaxTRESMins,MaxW,MaxTRESPerUser,MaxJobsPerUser,MaxSubmitJobsPerUser,MaxTRESPerAcct,MaxJobsPerAcct,"
    "MaxSubmitJobsPerAcct,MinTRES"
)
