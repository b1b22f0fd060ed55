"""`scontrol show assoc_mgr [accounts=] [users=] [qos=] [flags=users,assoc,qos]`: associations and QOS with their limits
and usage.

Slurm's layout, which scripts parse: `GrpTRES=cpu=64(12),mem=N(4096),...` is the limit with what is used of it, N = no
limit; all TRES of the cluster are named. Limits of single jobs have no usage. Usage comes from ListCounters; a
controller without enforcement counts nothing and shows zeros.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cli.accounts.tree import AssociationTree
from cli.base.run import CommandError, complain
from cli.base.users import named
from cli.control.keywords import NAME, KeywordCall, refused
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.v1.governance_pb2 import Counters, ListCountersRequest, ListTresRequest
from penstock.v1.shares_pb2 import Association, UserInfo
from penstock.values.limits import NO_LIMIT, Limits, Tres, from_texts, tres_text
from penstock.values.refusals import Code
from penstock.values.tres import parse_tres

FLAGS = ("users", "assoc", "qos")
PROBLEM = "slurm_load_assoc_mgr_info"
#: NO_VAL, which Slurm shows of a user that this machine does not know.
NO_UID = 2**32 - 2


class AssocMatch(NamedTuple):
    """All records to show, read at about the same time."""

    tree: AssociationTree
    qos: list[pb.Qos]
    counters: list[Counters]
    tres: list[str]


def assoc_mgr(call: KeywordCall) -> int:
    """`show assoc_mgr`."""
    wanted = read_words(call.words)
    shown = {word.lower() for word in wanted["flags"]} or set(FLAGS)
    found = _load(wanted)
    join = " " if call.options.flag("oneliner") else "\n    "
    print("Current Association Manager state\n")  # noqa: T201
    if "users" in shown:
        users = [
            one for _, one in sorted(found.tree.users.items()) if not wanted["users"] or one.name in wanted["users"]
        ]
        _put("User Records", "users", [user_line(one) for one in users])
    if "assoc" in shown:
        used = {one.assoc_id: one.used for one in found.counters if one.assoc_id}
        chosen = [
            one
            for one in found.tree.whole.associations
            if (not wanted["users"] or one.user in wanted["users"])
            and (not wanted["accounts"] or one.account in wanted["accounts"])
        ]
        levels = found.tree.level_shares()
        lines = (
            assoc_lines(found.tree, one, levels[one.id], _Cells(used.get(one.id, {}), found.tres)) for one in chosen
        )
        _put("Association Records", "associations", [join.join(record) for record in lines])
    if "qos" in shown:
        chosen_qos = [one for one in found.qos if not wanted["qos"] or one.name in wanted["qos"]]
        _put("QOS Records", "QOS", [join.join(qos_lines(one, found)) for one in chosen_qos])
        for name in sorted(set(wanted["qos"]) - {one.name for one in chosen_qos}):
            complain(NAME, f"QOS {name} not found", plain=True)
    return 0


def read_words(words: list[str]) -> dict[str, list[str]]:
    """Parses the words of the query. Raises CommandError."""
    wanted: dict[str, list[str]] = {"users": [], "accounts": [], "qos": [], "flags": []}
    for word in words:
        key, equals, value = word.partition("=")
        name = next((known for known in wanted if key and known.startswith(key.lower())), None)
        if name is None or not equals:
            raise CommandError(f"invalid entity: {word} for keyword:show assoc_mgr", plain=True)
        if not value:
            raise CommandError(f"No value given for option {key}", plain=True)
        wanted[name] += [item for item in value.split(",") if item]
    for flag in wanted["flags"]:
        if flag.lower() not in FLAGS:
            raise CommandError(f"invalid flag '{flag}', valid options are 'Assoc, QOS, and/or Users'", plain=True)
    return wanted


def _load(wanted: dict[str, list[str]]) -> AssocMatch:
    with Client.open() as client:
        try:
            tree = AssociationTree.load(client)._replace(own_only=True)
            qos = sorted(client.call("ListQos", pb.ListQosRequest()).qos, key=lambda one: (one.id, one.name))
            tres = [
                f"{one.type}/{one.name}" if one.name else one.type
                for one in client.call("ListTres", ListTresRequest()).tres
            ]
        except PenstockError as error:
            raise refused(PROBLEM, error) from error
        request = ListCountersRequest(accounts=wanted["accounts"], users=wanted["users"], qos=wanted["qos"])
        try:
            counters = [one for page in client.stream("ListCounters", request) for one in page.counters]
        except PenstockError as error:
            if error.code != Code.NOT_SUPPORTED:  # a controller that counts nothing
                raise refused(PROBLEM, error) from error
            counters = []
    return AssocMatch(tree, qos, counters, tres)


def _put(title: str, what: str, records: list[str]) -> None:
    if records:
        print("\n".join([f"{title}\n", *records, ""]))  # noqa: T201
    else:
        end = "\n" if what == "QOS" else "\n\n"
        print(f"No {what} currently cached in Slurm.{end}")  # noqa: T201


def _uid(name: str) -> int:
    entry = named(name)
    return NO_UID if entry is None else int(entry.pw_uid)


def user_line(one: UserInfo) -> str:
    """UserName=ann(1001) DefAccount=..."""
    return (
        f"UserName={one.name}({_uid(one.name)}) DefAccount={one.default_account} DefWckey={one.default_wckey} "
        f"AdminLevel={one.admin_level or 'None'}"
    )


class _Cells:
    """Limits with their usage, as texts."""

    def __init__(self, used: Mapping[str, str], tres: list[str]) -> None:
        self.used = used
        self.tres = tres

    def count(self, name: str, limit: int, used: str) -> str:
        """`GrpJobs=N(3)`."""
        return f"{name}={'N' if limit == NO_LIMIT else limit}({self.used.get(used, '') or 0})"

    def wall(self, name: str, limit: int, used: str) -> str:
        """Minutes used have two decimals."""
        return f"{name}={'N' if limit == NO_LIMIT else limit}({float(self.used.get(used, '') or 0):.2f})"

    def amounts(self, name: str, limit: Tres, used: str) -> str:
        """`GrpTRES=cpu=64(12),mem=N(0)`."""
        text = self.used.get(used, "")
        found = parse_tres(text) if text else {}
        limits = dict(limit)
        names = list(dict.fromkeys((*self.tres, *limits, *found)))
        return f"{name}=" + ",".join(f"{kind}={limits.get(kind, 'N')}({found.get(kind, 0)})" for kind in names)


def _plain(name: str, limit: int) -> str:
    return f"{name}={'' if limit == NO_LIMIT else limit}"


def _group_lines(limits: Limits, cells: _Cells) -> list[str]:
    return [
        cells.amounts("GrpTRES", limits.grp_tres, "grptres"),
        cells.amounts("GrpTRESMins", limits.grp_tres_min, "grptresmins"),
        cells.amounts("GrpTRESRunMins", limits.grp_tres_run_min, "grptresrunmins"),
    ]


def assoc_lines(tree: AssociationTree, one: Association, level: int, cells: _Cells) -> list[str]:
    """The record of an association. level: the sum of its siblings' shares and its own."""
    limits = from_texts(one.limits)
    user = f"{one.user}({_uid(one.user)})" if one.user else ""
    info = tree.users.get(one.user)
    is_default = info is not None and info.default_account == one.account
    parent = None if one.user else tree.above(one)
    above = f"{parent.account}({parent.id})" if parent is not None else ""
    shares = 2**31 - 1 if one.shares < 0 else one.shares

    def of_user(name: str, limit: int, used: str) -> str:
        if limit == NO_LIMIT or not one.user:
            return _plain(name, limit)
        return cells.count(name, limit, used)

    return [
        f"ClusterName={tree.cluster} Account={one.account} UserName={user} Partition={one.partition} "
        f"Priority={one.priority} ID={one.id}",
        f"SharesRaw/Norm/Level/Factor={shares}/{one.norm_shares:.2f}/{level}/{one.fair_share:.2f}",
        f"UsageRaw/Norm/Efctv={one.usage_s:.2f}/{one.norm_usage:.2f}/{one.effective_usage:.2f}",
        f"ParentAccount={above} Lineage={tree.lineage(one)} DefAssoc={'Yes' if is_default else 'No'}",
        f"{cells.count('GrpJobs', limits.grp_jobs, 'grpjobs')} "
        f"{cells.count('GrpJobsAccrue', limits.grp_jobs_accrue, 'grpjobsaccrue')}",
        f"{cells.count('GrpSubmitJobs', limits.grp_submit_jobs, 'grpsubmitjobs')} "
        f"{cells.wall('GrpWall', limits.grp_wall_min, 'grpwall')}",
        *_group_lines(limits, cells),
        f"{of_user('MaxJobs', limits.max_jobs, 'maxjobs')} "
        f"{of_user('MaxJobsAccrue', limits.max_jobs_accrue, 'maxjobsaccrue')} "
        f"{of_user('MaxSubmitJobs', limits.max_submit_jobs, 'maxsubmitjobs')} {_plain('MaxWallPJ', limits.max_wall_min)}",
        f"MaxTRESPJ={tres_text(limits.max_tres_per_job)}",
        f"MaxTRESPN={tres_text(limits.max_tres_per_node)}",
        f"MaxTRESMinsPJ={tres_text(limits.max_tres_min_per_job)}",
        _plain("MinPrioThresh", limits.min_prio_threshold),
    ]


def qos_lines(one: pb.Qos, found: AssocMatch) -> list[str]:
    """The record of a QOS, with the users and accounts that use it."""
    limits = from_texts(one.limits)
    own = next((c for c in found.counters if c.qos == one.name and not c.user and not c.account), Counters())
    cells = _Cells(own.used, found.tres)
    users = [c for c in found.counters if c.qos == one.name and c.user]
    accounts = [c for c in found.counters if c.qos == one.name and c.account and not c.user]
    return [
        f"QOS={one.name}({one.id})",
        f"UsageRaw={own.usage_raw:.6f}",
        f"{cells.count('GrpJobs', limits.grp_jobs, 'grpjobs')} "
        f"{cells.count('GrpJobsAccrue', limits.grp_jobs_accrue, 'grpjobsaccrue')} "
        f"{cells.count('GrpSubmitJobs', limits.grp_submit_jobs, 'grpsubmitjobs')} "
        f"{cells.wall('GrpWall', limits.grp_wall_min, 'grpwall')}",
        *_group_lines(limits, cells),
        _plain("MaxWallPJ", limits.max_wall_min),
        f"MaxTRESPJ={tres_text(limits.max_tres_per_job)}",
        f"MaxTRESPN={tres_text(limits.max_tres_per_node)}",
        f"MaxTRESMinsPJ={tres_text(limits.max_tres_min_per_job)}",
        _plain("MinPrioThresh", limits.min_prio_threshold),
        f"MinTRESPJ={tres_text(limits.min_tres_per_job)}",
        f"PreemptMode={','.join(one.preempt_mode) or 'OFF'}",
        f"Priority={one.priority}",
        "Account Limits",
        *(_each(((c.account, c) for c in accounts), "PA", limits, found.tres) or ["  No Accounts"]),
        "User Limits",
        *(_each(((f"{c.user}({_uid(c.user)})", c) for c in users), "PU", limits, found.tres) or ["  No Users"]),
    ]


_PER = (("MaxJobs", "max_jobs"), ("MaxJobsAccrue", "max_jobs_accrue"), ("MaxSubmitJobs", "max_submit_jobs"))


def _each(rows: Iterable[tuple[str, Counters]], after: str, limits: Limits, tres: list[str]) -> list[str]:
    """The usage of a QOS by each user (PU) or account (PA)."""
    per = "account" if after == "PA" else "user"
    lines = []
    for name, counted in rows:
        cells = _Cells(counted.used, tres)
        jobs, accrue, submit = (
            cells.count(f"{word}{after}", getattr(limits, f"{field}_per_{per}"), f"{word.lower()}per{per}")
            for word, field in _PER
        )
        most = cells.amounts(f"MaxTRES{after}", getattr(limits, f"max_tres_per_{per}"), f"maxtresper{per}")
        run_name, run_used = f"MaxTRESRunMins{after}", f"maxtresrunminsper{per}"
        run = cells.amounts(run_name, getattr(limits, f"max_tres_run_min_per_{per}"), run_used)
        lines += [f"  {name}", f"    {jobs} {accrue} {submit}", f"    {most}", f"    {run}"]
    return lines
