"""sacctmgr about the server and its records: show configuration, show stats, ping, reconfigure, shutdown, clear stats,
archive.

There is no slurmdbd: the controller keeps the accounting, so these ask the controller. `show configuration` names the
parameters that tools look for in its answer (DbdHost, TrackWCKey, SLURMDBD_CONF, ...) as `Key = Value`.
"""

import os
import time

from cli.accounts.context import ChangeContext
from cli.accounts.words import Grammar, keywords, read_line
from cli.base.document import is_wanted
from cli.base.listing import emit
from cli.base.options import OptionValues
from cli.base.request import request
from cli.base.run import CommandError, warn
from penstock import SLURM_VERSION
from penstock.client import Client
from penstock.errors import Unreachable
from penstock.v1 import controller_pb2 as pb
from penstock.v1 import explain_pb2
from penstock.v1 import governance_pb2 as gov
from penstock.values.dates import format_date

#: What sacctmgr shows of the clients' configuration file and in place of slurmdbd's. `-` = Penstock has no such
#: setting.
_OF_CLIENT = (
    "AccountingStorageBackupHost", "AccountingStorageHost", "AccountingStorageParameters", "AccountingStoragePass",
    "AccountingStoragePort", "AccountingStorageType", "AccountingStorageUser", "AuthType", "MessageTimeout", "PluginDir",
    "PrivateData", "SlurmUserId", "SLURM_CONF", "SLURM_VERSION", "TCPTimeout", "TrackWCKey",
)  # fmt: skip
_OF_SERVER = (
    "AllowNoDefAcct", "ArchiveDir", "ArchiveEvents", "ArchiveJobs", "ArchiveResvs", "ArchiveScript", "ArchiveSteps",
    "ArchiveSuspend", "ArchiveTXN", "ArchiveUsage", "AuthAltTypes", "AuthAltParameters", "AuthInfo", "AuthType",
    "BOOT_TIME", "CommitDelay", "CommunicationParameters", "DbdAddr", "DbdBackupHost", "DbdHost", "DbdPort",
    "DebugFlags", "DebugLevel", "DebugLevelSyslog", "DefaultQOS", "LogFile", "MaxQueryTimeRange", "MessageTimeout",
    "Parameters", "PidFile", "PluginDir", "PrivateData", "PurgeEventAfter", "PurgeJobAfter", "PurgeResvAfter",
    "PurgeStepAfter", "PurgeSuspendAfter", "PurgeTXNAfter", "PurgeUsageAfter", "SLURMDBD_CONF", "SLURMDBD_VERSION",
    "SlurmUser", "StorageBackupHost", "StorageHost", "StorageLoc", "StorageParameters", "StoragePort", "StorageType",
    "StorageUser", "TCPTimeout", "TrackWCKey", "TrackSlurmctldDown",
)  # fmt: skip


def configuration(reply: pb.ShowConfigReply) -> dict[str, str]:
    """The values of `show configuration`, by their names in lower case: the controller's, and what its accounting does."""
    known = {line.key.lower(): line.value for line in reply.lines}
    host = next(
        (value.partition("(")[0] for key, value in sorted(known.items()) if key.startswith("slurmctldhost")),
        "localhost",
    )
    file = known.get("slurm_conf", "/etc/slurm/slurm.conf")
    port = known.get("slurmctldport", "(null)")
    user = known.get("slurmuser", "(null)")
    track = "Yes" if known.get("trackwckey", "no").lower() in ("yes", "1") else "No"
    own = {
        "accountingstoragehost": host, "accountingstorageport": port, "accountingstoragetype": "accounting_storage/slurmdbd",
        "accountingstoragepass": "(null)", "accountingstorageuser": "N/A", "slurmuserid": user, "slurm_version": SLURM_VERSION,
        "trackwckey": track, "slurm_conf": file, "messagetimeout": known.get("messagetimeout", "10 sec"), "dbdaddr": host,
        "dbdhost": host, "dbdport": port, "slurmdbd_conf": os.path.join(os.path.dirname(file), "slurmdbd.conf"),
        "slurmdbd_version": SLURM_VERSION, "slurmuser": user, "storagetype": "accounting_storage/penstock",
        "allownodefacct": "No", "commitdelay": "No", "debugflags": "(null)", "trackslurmctlddown": "Yes",
        "privatedata": known.get("privatedata", "none"),
    }  # fmt: skip
    return known | own


#: What stands for a setting that there is not, by how its name begins; the first that fits.
_ABSENT = (("Purge", "NONE"), ("ArchiveDir", "(null)"), ("ArchiveScript", "(null)"), ("Archive", "No"), ("", "(null)"))


def _absent(key: str) -> str:
    return next(text for start, text in _ABSENT if key.startswith(start))


def show_configuration(client: Client, words: list[str], options: OptionValues) -> int:
    """`show configuration`."""
    reply = client.call("ShowConfig", pb.ShowConfigRequest())
    values = configuration(reply)
    style = os.environ.get("SLURM_TIME_FORMAT") or "standard"
    lines = [f"Configuration data as of {format_date(reply.at_us or time.time_ns() // 1000, style=style)}"]
    lines += [f"{key:<22} = {values.get(key.lower()) or '(null)'}" for key in _OF_CLIENT]
    lines += [
        "",
        "SlurmDBD configuration:",
        *(f"{key:<22} = {values.get(key.lower()) or _absent(key)}" for key in _OF_SERVER),
    ]
    emit(lines)
    return 0


def show_stats(client: Client, words: list[str], options: OptionValues) -> int:
    """`show stats [ave_time|total_time]`: statistics of the calls that the controller has handled."""
    from cli.listings import diagnostics

    order = None
    for word in words:
        low = word.lower()
        if low not in ("ave_time", "total_time"):
            raise CommandError(f" Unknown condition: {word}", plain=True)
        order = diagnostics.SORTS["sort_by_time2" if low == "ave_time" else "sort_by_time"]
    reply = client.call("Diagnostics", explain_pb2.DiagnosticsRequest())
    if is_wanted(options):
        from cli.base.document import document, write_document

        write_document(
            document("statistics", [], client.cluster.cluster_name) | {"statistics": diagnostics.statistics(reply)},
            options,
        )
        return 0
    line = "*" * 67
    by = order or (lambda one: (-one.count, one.name))
    emit([
        line,
        f"sacctmgr show stats output at {diagnostics.at(reply.now_us)}",
        f"Data since                    {diagnostics.at(reply.since_us)}",
        "All statistics are in microseconds",
        line,
        "",
        *diagnostics.rollup(reply),
        "",
        "Remote Procedure Call statistics by message type",
        *diagnostics.calls(reply.by_type, by),
        "",
        "Remote Procedure Call statistics by user",
        *diagnostics.calls(reply.by_user, by, users=True),
    ])  # fmt: skip
    return 0


# ---- verbs without an entity -------------------------------------------------------------------------------------


def ping(context: ChangeContext, words: list[str]) -> int:
    """`ping`: checks whether the accounting server answers."""
    host = context.client.cluster.host or context.client.cluster.address or "localhost"
    try:
        reply = context.client.call("Ping", pb.PingRequest())
    except Unreachable:
        reply = None
    host = reply.controller_host if reply is not None and reply.controller_host else host
    if is_wanted(context.options):
        from cli.base.document import document, write_document

        one = {"hostname": host, "responding": reply is not None, "latency": 0, "primary": True}
        write_document(document("pings", [one], context.cluster), context.options)
    else:
        print(f"slurmdbd(primary) at {host} is {'UP' if reply is not None else 'DOWN'}")  # noqa: T201
    return 0 if reply is not None else 1


def reconfigure(context: ChangeContext, words: list[str]) -> int:
    """`reconfigure`: the controller reads its configuration again."""
    for warning in request(
        context.client, "Reconfigure", pb.ReconfigureRequest(), " Problem reconfiguring server: "
    ).warnings:
        warn("sacctmgr", warning)
    return 0


def shutdown(context: ChangeContext, words: list[str]) -> int:
    """`shutdown`: refused, since it would stop scheduling too."""
    raise CommandError(
        " Problem shutting down server: Requested operation not supported on this system", plain=True,
        detail="the controller itself keeps the accounts; scontrol shutdown stops it",
    )  # fmt: skip


def clear(context: ChangeContext, words: list[str]) -> int:
    """`clear stats`."""
    if not words or len(words[0]) < 2 or not "stats".startswith(words[0].lower()):
        raise CommandError('No valid entity in clear command\nInput line must include, "Stats"', plain=True)
    request(context.client, "ResetDiagnostics", explain_pb2.ResetDiagnosticsRequest(), " Error with request: ")
    return 0


# ---- archive -----------------------------------------------------------------------------------------------------

_KINDS = {"event": "events", "job": "jobs", "resv": "reservations", "step": "steps", "suspend": "suspend", "txn": "transactions",
          "usage": "usage"}  # fmt: skip
_DUMP = Grammar(
    keywords(
        "Directory:2 Script:2 PurgeEventAfter:10>event PurgeJobAfter:8>job PurgeResvAfter:9>resv PurgeStepAfter:9>step "
        "PurgeSuspendAfter:10>suspend PurgeTXNAfter:8>txn PurgeUsageAfter:8>usage PurgeEventMonths:12>event "
        "PurgeJobMonths:10>job "
        "PurgeResvMonths:11>resv PurgeStepMonths:11>step PurgeSuspendMonths:13>suspend PurgeTXNMonths:10>txn "
        "PurgeUsageMonths:12>usage"
    ),
    flags=keywords("Events:1 Jobs:1 Reservations:1 Steps:2 Suspend:2 TXN:1 Usage:1"),
    use_set=False,
    bare="",
)
_LOAD = Grammar(keywords("File:1 Insert:2"), use_set=False, bare="file")
SURE = "This may result in loss of accounting database records (if Purge* options enabled).\nAre you sure you want to continue?"


def archive(context: ChangeContext, words: list[str]) -> int:
    """`archive dump|load`."""
    verb = next((name for name in ("dump", "load") if words and words[0] and name.startswith(words[0].lower())), None)
    if verb is None:
        raise CommandError('No valid entity in archive command\nInput line must include, "Dump", or "load"', plain=True)
    if verb == "load":
        return _load(context, words[1:])
    said = read_line(words[1:], _DUMP, "show")
    if "script" in said.conditions:
        raise CommandError("script= is not supported: the controller starts no program of a request; use directory=")
    after = {}
    for key, kind in _KINDS.items():
        if key in said.conditions:
            after[kind] = _age(said.conditions[key][-1])
    purge = gov.PurgeRequest(after=after, archive_folder=(said.conditions.get("directory") or [""])[-1])
    before = " Problem dumping archive: "
    if not context.agreed(SURE):
        return 0
    reply = request(context.client, "Purge", purge, before)
    context.put(
        *(f"  {kind:<14} {count}" for kind, count in sorted(reply.records.items())),
        *(f"  {name}" for name in reply.files),
    )
    return 0


def _load(context: ChangeContext, words: list[str]) -> int:
    said = read_line(words, _LOAD, "show")
    if "insert" in said.conditions:
        raise CommandError("insert= is not supported: no SQL of a request goes into the database; use file=")
    files = said.conditions.get("file", [])
    if len(files) != 1:
        raise CommandError(" No filename given, specify one with file=''", plain=True)
    if not context.agreed():
        print(" Changes Discarded")  # noqa: T201
        return 0
    reply = request(
        context.client, "LoadArchive", gov.LoadArchiveRequest(file=files[0]), " Problem loading archive file: "
    )
    context.put(f"  {reply.records} records")
    return 0


def _age(text: str) -> str:
    """12, 12months, 30days, 48hours; a number alone is months."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(digits) :].lower()
    found = next(
        (name for name in ("months", "days", "hours") if unit and name.startswith(unit)), "" if unit else "months"
    )
    if not (digits.isascii() and digits.isdigit() and 0 < len(digits) <= 6 and found):
        raise CommandError(
            f"Invalid value for Purge ({text})", detail="write a number with months, days or hours: 12months"
        )
    return f"{int(digits)}{found}"
