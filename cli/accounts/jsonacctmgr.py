"""sacctmgr --json and --yaml: accounts, users, associations, clusters, QOS and lists in the structure of Slurm's data_parser.

A limit that is not set is a number that is not set and infinite; amounts by TRES are lists of {type, name, id, count}.
Accounts, associations and QOS are as slurmrestd 25.05 answers with v0.0.43; the rest is from the manual.
"""

# Any: each kind of entity has a function of its own message and arguments
from typing import Any

from cli.accounts.tree import RPC_VERSION, AssociationTree, ShownEntity
from cli.base.document import Json, document, number, time_object, write_document
from cli.base.options import OptionValues
from cli.listings.jsonacct import tres_object
from penstock.v1 import controller_pb2 as pb
from penstock.v1.governance_pb2 import EventInfo, TransactionInfo
from penstock.v1.shares_pb2 import AccountInfo, Association, UserInfo
from penstock.values.limits import NO_LIMIT, Limits, Tres, from_texts
from penstock.values.tres import parse_tres

_PPM = 1_000_000


def put_tree(tree: AssociationTree, entity: str, rows: list[ShownEntity], options: OptionValues) -> int:
    """Accounts, users or associations."""
    if entity == "account":
        items = [account_object(tree, one) for one in _once(row.account for row in rows)]
    elif entity == "user":
        items = [user_object(tree, one) for one in _once(row.user for row in rows)]
    else:
        items = [association_object(tree, row.assoc) for row in rows if row.assoc is not None]
    write_document(document(f"{entity}s", items, tree.cluster), options)
    return 0


def put_clusters(found: list[tuple[AssociationTree, Association | None]], cluster: str, options: OptionValues) -> int:
    """Clusters, each with its root association."""
    write_document(document("clusters", [cluster_object(*one) for one in found], cluster), options)
    return 0


def _once(found: Any) -> list[Any]:
    return list({one.name: one for one in found if one is not None}.values())


def _count(value: int) -> Json:
    return number(max(value, 0), infinite=value == NO_LIMIT)


def _part(ppm: int) -> Json:
    """A factor; negative = not set."""
    return number(ppm / _PPM) if ppm >= 0 else number(0.0, infinite=True) | {"number": 0.0}


def _amounts(value: Tres) -> list[Json]:
    return [tres_object(name, count) for name, count in value]


def short_object(tree: AssociationTree, one: Association) -> Json:
    """An association by its key."""
    return {"account": one.account, "cluster": tree.cluster, "partition": one.partition, "user": one.user, "id": one.id}


def account_object(tree: AssociationTree, one: AccountInfo) -> Json:
    """One account."""
    return {
        "associations": [short_object(tree, a) for a in tree.whole.associations if a.account == one.name],
        "coordinators": [{"name": name, "direct": True} for name in one.coordinators],
        "description": one.description,
        "name": one.name,
        "organization": one.organization,
        "flags": ["DELETED"] if one.deleted else [],
    }


def user_object(tree: AssociationTree, one: UserInfo) -> Json:
    """One user."""
    own = [a for a in tree.whole.associations if a.user == one.name]
    default = next((tree.default_qos(a) for a in own if a.account == one.default_account), "")
    return {
        "administrator_level": [one.admin_level or "None"],
        "associations": [short_object(tree, a) for a in own],
        "coordinators": [{"name": name, "direct": True} for name in one.coordinator_of],
        "default": {"account": one.default_account, "qos": default, "wckey": one.default_wckey},
        "flags": ["DELETED"] if one.deleted else [],
        "name": one.name,
        "old_name": "",
        "wckeys": [],
    }


def association_object(tree: AssociationTree, one: Association) -> Json:
    """One association with its limits."""
    info = tree.users.get(one.user)
    return {
        "accounting": [],
        "account": one.account,
        "cluster": tree.cluster,
        "comment": "",
        "default": {"qos": tree.default_qos(one)},
        "flags": ["DELETED"] if one.deleted else [],
        "max": _assoc_max(tree.limits(one)),
        "id": one.id,
        "is_default": info is not None and info.default_account == one.account,
        "lineage": tree.lineage(one),
        "min": {"priority_threshold": _count(tree.limits(one).min_prio_threshold)},
        "parent_account": "" if one.user else one.parent,
        "partition": one.partition,
        "priority": number(tree.priority(one), infinite=not tree.priority(one)),
        "qos": tree.qos(one),
        "shares_raw": one.shares if one.shares >= 0 else 2**31 - 1,
        "user": one.user,
    }


def _assoc_max(limits: Limits) -> Json:
    return {
        "jobs": {
            "per": {
                "count": _count(limits.grp_jobs),
                "accruing": _count(limits.grp_jobs_accrue),
                "submitted": _count(limits.grp_submit_jobs),
                "wall_clock": _count(limits.max_wall_min),
            },
            "active": _count(limits.max_jobs),
            "accruing": _count(limits.max_jobs_accrue),
            "total": _count(limits.max_submit_jobs),
        },
        "tres": {
            "total": _amounts(limits.grp_tres),
            "group": {"minutes": _amounts(limits.grp_tres_min), "active": _amounts(limits.grp_tres_run_min)},
            "minutes": {
                "total": [],
                "per": {"job": _amounts(limits.max_tres_min_per_job)},
            },  # MaxTRESRunMins is a QOS's
            "per": {"job": _amounts(limits.max_tres_per_job), "node": _amounts(limits.max_tres_per_node)},
        },
        "per": {"account": {"wall_clock": _count(limits.grp_wall_min)}},
    }


def cluster_object(tree: AssociationTree, root: Association | None) -> Json:
    """The cluster."""
    return {
        "controller": {"host": tree.whole.controller_host, "port": tree.whole.controller_port},
        "flags": [],
        "name": tree.cluster,
        "nodes": "",
        "select_plugin": "select/cons_tres",
        "associations": {"root": short_object(tree, root) if root is not None else {}},
        "rpc_version": RPC_VERSION if root is not None else 0,
        "tres": [],
    }


def put_qos(found: list[pb.Qos], cluster: str, options: OptionValues) -> int:
    """QOS."""
    write_document(document("qos", [qos_object(one) for one in found], cluster), options)
    return 0


def qos_object(one: pb.Qos) -> Json:
    """One QOS."""
    limits = from_texts(one.limits)
    exempt = one.preempt_exempt_time_s
    return {
        "description": one.description,
        "flags": [_flag(flag) for flag in one.flags],
        "id": one.id,
        "limits": {
            "grace_time": one.grace_time_s,
            "max": _qos_max(limits),
            "factor": _part(one.limit_factor_ppm),
            "min": {
                "priority_threshold": _count(limits.min_prio_threshold),
                "tres": {"per": {"job": _amounts(limits.min_tres_per_job)}},
            },
        },
        "name": one.name,
        "preempt": {
            "list": list(one.preempt),
            "mode": [mode.upper() for mode in one.preempt_mode] or ["DISABLED"],
            "exempt_time": number(max(exempt, 0), infinite=exempt < 0),
        },
        "priority": number(one.priority),
        "usage_factor": number(one.usage_factor_ppm / _PPM),
        "usage_threshold": _part(one.usage_threshold_ppm),
    }


def _flag(word: str) -> str:
    """DenyOnLimit -> DENY_LIMIT and so on, as data_parser names them."""
    return {
        "DenyOnLimit": "DENY_LIMIT", "EnforceUsageThreshold": "ENFORCE_USAGE_THRESHOLD", "NoDecay": "NO_DECAY",
        "NoReserve": "NO_RESERVE", "OverPartQOS": "OVERRIDE_PARTITION_QOS", "PartitionMaxNodes": "PARTITION_MAXIMUM_NODE",
        "PartitionMinNodes": "PARTITION_MINIMUM_NODE", "PartitionTimeLimit": "PARTITION_TIME_LIMIT", "Relative": "RELATIVE",
        "RequiresReservation": "REQUIRED_RESERVATION", "UsageFactorSafe": "USAGE_FACTOR_SAFE",
    }.get(word, word)  # fmt: skip


def _qos_max(limits: Limits) -> Json:
    per = {"account": _count(limits.max_jobs_per_account), "user": _count(limits.max_jobs_per_user)}
    submit = {"account": _count(limits.max_submit_jobs_per_account), "user": _count(limits.max_submit_jobs_per_user)}
    accrue = {"account": _count(limits.max_jobs_accrue_per_account), "user": _count(limits.max_jobs_accrue_per_user)}
    return {
        "active_jobs": {"accruing": _count(limits.grp_jobs_accrue), "count": _count(limits.grp_jobs)},
        "jobs": {"count": _count(limits.grp_submit_jobs), "active_jobs": {"per": per}, "per": submit},
        "accruing": {"per": accrue},
        "tres": {
            "total": _amounts(limits.grp_tres),
            "minutes": {
                "total": _amounts(limits.grp_tres_min),
                "per": {
                    "qos": _amounts(limits.grp_tres_run_min),
                    "job": _amounts(limits.max_tres_min_per_job),
                    "account": _amounts(limits.max_tres_run_min_per_account),
                    "user": _amounts(limits.max_tres_run_min_per_user),
                },
            },
            "per": {
                "account": _amounts(limits.max_tres_per_account),
                "job": _amounts(limits.max_tres_per_job),
                "node": _amounts(limits.max_tres_per_node),
                "user": _amounts(limits.max_tres_per_user),
            },
        },
        "wall_clock": {"per": {"qos": _count(limits.grp_wall_min), "job": _count(limits.max_wall_min)}},
    }


# ---- lists -------------------------------------------------------------------------------------------------------

_KEYS = {"runawayjobs": "jobs", "tres": "tres"}


def put_list(entity: str, rows: list[object], cluster: str, options: OptionValues) -> int:
    """Events, transactions, TRES, wckeys, and so on."""
    items = [list_object(entity, row, cluster) for row in rows] if entity in _OBJECTS else []
    write_document(document(_KEYS.get(entity, f"{entity}s"), items, cluster), options)
    return 0


def list_object(entity: str, row: object, cluster: str) -> Json:
    """One item of such a list."""
    made: Json = _OBJECTS[entity](row, cluster)
    return made


def _event(row: EventInfo, cluster: str) -> Json:
    return {
        "cluster": cluster, "cluster_nodes": "" if row.node else row.reason, "event_type": row.event_type or "Node",
        "node": row.node, "reason": row.reason, "state": row.state, "time": {"start": time_object(row.start_at_us),
        "end": time_object(row.end_at_us)}, "tres": _tres_list(row.tres), "user": row.user,
    }  # fmt: skip


def _tres_list(text: str) -> list[Json]:
    return [tres_object(name, count) for name, count in parse_tres(text).items()] if text else []


def _transaction(row: TransactionInfo, cluster: str) -> Json:
    return {
        "accounts": list(row.accounts), "action": row.action, "actor": row.actor, "clusters": [cluster], "id": row.id,
        "info": row.info, "timestamp": time_object(row.at_us), "users": list(row.users), "where": row.where,
    }  # fmt: skip


_OBJECTS: dict[str, Any] = {
    "event": _event,
    "transaction": _transaction,
    "tres": lambda row, cluster: {"type": row.type, "name": row.name, "id": row.id, "count": row.count},
    "wckey": lambda row, cluster: {
        "accounting": [], "cluster": cluster, "id": row.id, "name": row.name, "user": row.user,
        "flags": [flag for flag, on in (("DEFAULT", row.is_default), ("DELETED", row.deleted)) if on],
    },
    "resource": lambda row, cluster: {
        "name": row.name, "server": row.server, "type": "LICENSE", "count": row.count, "allocated": row.allowed,
        "last_consumed": row.last_consumed, "server_type": row.manager, "description": row.description, "flags": list(row.flags),
    },
    "reservation": lambda row, cluster: {
        "cluster": cluster, "name": row.name, "flags": [flag for flag in row.flags.split(",") if flag], "nodes": row.node_list,
        "time": {"start": time_object(row.start_at_us), "end": time_object(row.end_at_us)}, "tres": _tres_list(row.tres),
    },
    "runawayjobs": lambda row, cluster: {
        "job_id": row.job_id, "name": row.name, "partition": row.partition, "cluster": cluster, "user": row.user,
        "account": row.account, "state": {"current": [row.state]},
        "time": {"submission": time_object(row.submit_at_us), "start": time_object(row.start_at_us),
                 "end": time_object(row.end_at_us)},
    },
    "problem": lambda row, cluster: {"cluster": cluster, "account": row.account, "user": row.user, "problem": row.problem},
}  # fmt: skip
