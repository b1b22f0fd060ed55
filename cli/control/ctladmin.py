"""scontrol's keywords for the controller and its nodes: ping, reconfigure, shutdown, log level, tokens, reboots, power.

Syntax is Slurm's (scontrol(1)); what has no meaning here is refused with Slurm's message.
"""

import os
import sys
from collections.abc import Iterable, Sequence

from cli.base.document import Json, document, is_wanted, write_document
from cli.base.options import VERSION_TEXT
from cli.base.run import CommandError, complain
from cli.base.users import numbered
from cli.control.keywords import NAME, KeywordCall, ask, find_word, refused
from penstock.client import Client
from penstock.cluster import find_cluster
from penstock.errors import PenstockError, Unreachable
from penstock.v1 import controller_pb2 as pb
from penstock.values.debugflags import EFFECTS, NODE_EFFECTS, find_flag, without_effect
from penstock.values.errors import BadValue
from penstock.values.hostlist import as_lists, expand
from penstock.values.numbers import parse_int
from penstock.values.refusals import TEXT, Code

PING_TIMEOUT_S = 5.0
ERROR_NUMBER_MAX = 2**31 - 1
DOWN_BANNER = "*" * 41 + "\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n" + "*" * 41
LEVELS = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")
FACTOR_MAX = 65533


def _node_words(
    what: str, state: str, words: list[str], ways: Iterable[str], keys: Iterable[str]
) -> tuple[str, dict[str, str]]:
    """Parses the nodes and the changes: `[WAY] [KEY=TEXT ...] NODES` in any order; a way is appended to the state."""
    changes, nodes = {"state": state}, ""
    for word in words:
        key, equals, value = word.partition("=")
        if word.lower() in ways:
            changes["state"] = f"{state}_{word.upper()}"
        elif equals and key.lower() in keys:
            changes[key.lower()] = value
        elif equals or nodes:
            raise CommandError(f"Invalid {what} parameter: {word}", plain=True)
        else:
            nodes = word
    if not nodes:
        raise CommandError("Missing node list. Specify ALL|<NodeList>", plain=True)
    return nodes, changes


def reboot(call: KeywordCall) -> int:
    """`reboot [ASAP] [nextstate=RESUME|DOWN] [reason=TEXT] ALL|NODES`."""
    nodes, changes = _node_words("reboot", "REBOOT", call.words, ("asap",), ("nextstate", "reason"))
    if changes.get("nextstate", "RESUME").upper() not in ("RESUME", "DOWN"):
        raise CommandError(f"Invalid state: {changes['nextstate']}", plain=True)
    ask("UpdateNodes", pb.UpdateNodesRequest(names=nodes, changes=changes), "scontrol_reboot_nodes")
    return 0


def cancel_reboot(call: KeywordCall) -> int:
    """`cancel_reboot NODES`."""
    request = pb.UpdateNodesRequest(names=call.words[0], changes={"state": "CANCEL_REBOOT"})
    ask("UpdateNodes", request, "slurm_update")
    return 0


def power(call: KeywordCall) -> int:
    """`power {up|down} [asap|force] [reason=TEXT] ALL|NODES`."""
    direction, *words = call.words
    way = find_word(direction, ("up", "down"))
    if way is None:
        raise CommandError(f"Invalid power argument: {direction}", plain=True)
    ways = ("asap", "force") if way == "down" else ()
    nodes, changes = _node_words("power", f"POWER_{way.upper()}", words, ways, ("reason",))
    ask("UpdateNodes", pb.UpdateNodesRequest(names=nodes, changes=changes), "slurm_update")
    return 0


def ping(call: KeywordCall) -> int:
    """`ping`: checks whether the controller answers."""
    cluster = find_cluster()
    reply: pb.PingReply | None = None
    with Client.open(PING_TIMEOUT_S, cluster=cluster) as client:
        try:
            reply = client.call("Ping", pb.PingRequest())
        except Unreachable:
            reply = None
    host = reply.controller_host if reply is not None else cluster.host or cluster.address
    if is_wanted(call.options):
        one: Json = {
            "hostname": host,
            "pinged": "UP" if reply is not None else "DOWN",
            "responding": reply is not None,
            "latency": 0,
            "mode": "primary",
            "primary": True,
        }
        write_document(document("pings", [one], cluster.cluster_name), call.options)
    elif reply is not None:
        print(f"Slurmctld(primary) at {host} is UP")  # noqa: T201
    else:
        print(f"Slurmctld(primary) at {host} is DOWN\n{DOWN_BANNER}")  # noqa: T201
    return 0 if reply is not None else 1


def reconfigure(call: KeywordCall) -> int:
    """`reconfigure`: applies all of the new configuration or nothing."""
    for warning in ask("Reconfigure", pb.ReconfigureRequest(), "slurm_reconfigure").warnings:
        complain(NAME, f"{NAME}: warning: {warning}", plain=True)
    return 0


def shutdown(call: KeywordCall) -> int:
    """`shutdown [slurmctld]`: stops the controller; jobs and node daemons continue."""
    if call.words and call.words[0].lower() not in ("slurmctld", "controller"):
        raise CommandError(f"invalid shutdown argument:{call.words[0]}", plain=True)
    ask("Shutdown", pb.ShutdownRequest(), "slurm_shutdown")
    return 0


def abort(call: KeywordCall) -> int:
    """`abort`: refused; the flight recorder has the controller's state."""
    text = f"slurm_shutdown error: {TEXT[Code.NOT_SUPPORTED]}"
    raise CommandError(f"{text}\n{NAME}: the controller writes no core file; scontrol shutdown stops it", plain=True)


def takeover(call: KeywordCall) -> int:
    """`takeover [INDEX]`: there is no backup controller."""
    if call.words:
        index = call.words[0] if call.words[0].isascii() and call.words[0].isdigit() else "0"
        raise CommandError(f"takeover: invalid backup controller index ({index[:10]})", plain=True)
    text = f"slurm_takeover error: {TEXT[Code.NOT_SUPPORTED]}"
    raise CommandError(f"{text}\n{NAME}: no backup controller is configured", plain=True)


def setdebug(call: KeywordCall) -> int:
    """`setdebug LEVEL [nodes=NODES]`: sets the level of the controller's log, or of nodes', until the next reload."""
    word = call.words[0].lower()
    level = LEVELS[int(word)] if len(word) == 1 and word in "0123456789" else word
    if level not in LEVELS:
        raise CommandError(f"invalid debug level: {call.words[0]}", plain=True)
    nodes = ""
    if call.words[1:]:
        key, _, nodes = call.words[1].partition("=")
        if key.lower() != "nodes" or not nodes:
            raise CommandError(f"invalid option: {call.words[1]}\nUsage: setdebug LEVEL [nodes=NODES]", plain=True)
    ask("SetController", pb.SetControllerRequest(debug_level=level, nodes=nodes), "slurm_set_debug_level")
    return 0


def setdebugflags(call: KeywordCall) -> int:
    """`setdebugflags [+|-]FLAG... [nodes=NODES]`: the controller's, or those of nodes, until the next reload."""
    *words, last = call.words
    key, equals, nodes = last.partition("=")
    if key.lower() != "nodes" or not equals:
        words, nodes = call.words, ""
    elif not nodes or not words:
        raise CommandError(f"invalid option: {last}\nUsage: setdebugflags [+|-]NAME [nodes=NODES]", plain=True)
    request = pb.SetControllerRequest(nodes=nodes)
    for word in ",".join(words).split(","):
        flag = find_flag(word.lstrip("+-"))
        if flag is None or not word:
            raise CommandError(f"invalid debug flag: {word}\nUsage: setdebugflags [+|-]NAME", plain=True)
        (request.debug_flags_off if word.startswith("-") else request.debug_flags_on).append(flag)
    for flag in without_effect(request.debug_flags_on, NODE_EFFECTS if nodes else EFFECTS):
        complain(NAME, f"debug flag {flag} has no effect in Penstock{nodes and ' at nodes'}", level="warning")
    ask("SetController", request, "slurm_set_debug_flags")
    return 0


def schedloglevel(call: KeywordCall) -> int:
    """`schedloglevel 0|1|disable|enable`: there is no SlurmSchedLogFile, so it is refused as by Slurm without one."""
    level = {"0": False, "1": True, "disable": False, "enable": True}.get(call.words[0].lower())
    if level is None:
        raise CommandError(f"invalid schedlog level: {call.words[0]}", plain=True)
    ask("SetController", pb.SetControllerRequest(schedule_log=level), "slurm_set_schedlog_level")
    return 0


def fsdampeningfactor(call: KeywordCall) -> int:
    """`fsdampeningfactor N`: FairShareDampeningFactor, until the configuration is read again."""
    try:
        factor = parse_int(call.words[0], 1, FACTOR_MAX, "dampening factor")
    except BadValue as error:
        raise CommandError(f"invalid dampening factor: {call.words[0]}", plain=True) from error
    ask("SetController", pb.SetControllerRequest(fair_share_dampening_factor=factor), "slurm_set_fs_dampeningfactor")
    return 0


def token(call: KeywordCall) -> int:
    """`token [lifespan=SECONDS] [username=USER]`, `token revoke [username=USER | all]`."""
    if call.words and call.words[0].lower() == "revoke":
        return _revoke_tokens(call.words[1:])
    request = pb.IssueTokenRequest()
    for word in call.words:
        key, equals, value = word.partition("=")
        if equals and key.lower() == "lifespan":
            try:
                request.lifespan_s = parse_int(value, 1, 2**31 - 1, "lifespan")
            except BadValue as error:
                raise CommandError(f"Invalid lifespan: {error}", plain=True) from error
        elif equals and key.lower() == "username" and value:
            request.for_user = value
        else:
            raise CommandError(f"Invalid option: `{word}`", plain=True)
    with Client.open() as client:
        try:
            print(f"SLURM_JWT={client.call('IssueToken', request).token}")  # noqa: T201
        except PenstockError as error:
            raise CommandError(
                f"{NAME}: error: slurm_fetch_token: {error.text}\nError fetching token", plain=True
            ) from error
    return 0


def _revoke_tokens(words: Sequence[str]) -> int:
    request = pb.RevokeTokensRequest()
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key.lower() == "username" and value:
            request.for_user = value
        elif word.lower() == "all":
            request.everybody = True
        else:
            raise CommandError(f"Invalid option: `{word}`", plain=True)
    ask("RevokeTokens", request, "slurm_revoke_tokens")
    return 0


def version(call: KeywordCall) -> int:
    """`version`."""
    print(VERSION_TEXT)  # noqa: T201
    return 0


def errnumstr(call: KeywordCall) -> int:
    """`errnumstr NUMBER`: the message of an error number, Slurm's or Penstock's own."""
    try:
        number = parse_int(call.words[0], 0, ERROR_NUMBER_MAX, "error number")
    except BadValue as error:
        raise CommandError("numeric arguments required for keyword:errnumstr", plain=True) from error
    from cli.base.errnumbers import WORDS

    known = number in Code.__members__.values()
    text = WORDS.get(number) or (TEXT[Code(number)] if known else "")
    if not text:
        text = os.strerror(number) if 0 < number < 200 else "No error" if not number else f"Unknown error {number}"
    print(text)  # noqa: T201
    return 0


def getaddrs(call: KeywordCall) -> int:
    """`getaddrs NODES`: the address of each."""
    try:
        names = [name for word in call.words for name in expand(word)]
    except BadValue as error:
        raise CommandError(f"Invalid hostlist: {' '.join(call.words)}\n{NAME}: {error}", plain=True) from error
    reply = ask("ListNodes", pb.ListNodesRequest(names=as_lists(names)), "slurm_load_node")
    nodes = {node.name: node for node in reply.nodes}
    missing = [name for name in names if name not in nodes]
    for name in names:
        if name in nodes:
            print(f"{name}: {nodes[name].addr or name}")  # noqa: T201
    for name in missing:
        complain(NAME, f"Node {name} not found", plain=True)
    return 1 if missing else 0


def getent(call: KeywordCall) -> int:
    """`getent NODE`: users and groups of the jobs on it, as their steps see them."""
    from cli.control.showsteps import steps_of

    node = call.words[0]
    try:
        with Client.open() as client:
            client.call("Ping", pb.PingRequest())
    except PenstockError as error:
        raise refused("slurm_load_jobs", error) from error
    steps = [step for step in steps_of([]) if node in expand(step.node_list)]
    if not steps:
        raise CommandError("No steps found on this node", plain=True)
    for step in steps:
        one = numbered(step.user_id)
        if one is None:
            continue
        sys.stdout.write(f"JobId={step.job_id}:\nUser:\n{':'.join(map(str, one))}\nGroups:\n")
        sys.stdout.write("".join(f"{line}\n" for line in _group_lines(one.pw_name, one.pw_gid)) + "\n")
    return 0


def _group_lines(user: str, gid: int) -> list[str]:
    import grp

    found = []
    for number in os.getgrouplist(user, gid):
        try:
            group = grp.getgrgid(number)
        except KeyError:
            continue
        found.append(f"{group.gr_name}:{group.gr_passwd}:{group.gr_gid}:{user if user in group.gr_mem else ''}")
    return found
