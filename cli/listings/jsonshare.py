"""`sshare --json`: shares of associations in the structure of Slurm's data_parser."""

import math
from collections.abc import Mapping

from cli.base.document import Json, number
from cli.base.listing import words
from penstock.v1.shares_pb2 import Association, ListAssociationsReply
from penstock.values.memory import parse_mb


def share_object(one: Association, view: ListAssociationsReply) -> Json:
    """One line for --json and --yaml, by the names of Slurm's data_parser."""
    level = None if math.isinf(one.level_fs) else one.level_fs
    return {
        "id": one.id, "cluster": view.cluster, "name": one.user or one.account, "parent": one.parent,
        "partition": one.partition,
        "shares": number(max(one.shares, 0), infinite=one.shares < 0),
        "shares_normalized": number(one.norm_shares if view.multifactor else None),
        "usage": one.usage_s, "usage_normalized": number(one.norm_usage if view.multifactor else None),
        "effective_usage": number(one.effective_usage), "type": ["USER" if one.user else "ASSOCIATION"],
        "fairshare": {"factor": number(one.fair_share if one.user else None),
                      "level": number(level, infinite=level is None)},
        "tres": {"run_seconds": _tres_list(one.tres_run_mins, 60),
                 "group_minutes": _tres_list(amounts_of(one.limits.get("grptresmins", "")), 1),
                 "usage": _tres_list(one.tres_mins, 60)},
    }  # fmt: skip


def amounts_of(text: str) -> dict[str, str]:
    """Amounts by name, as the controller writes them: cpu=1,mem=2."""
    return dict(part.split("=", 1) for part in words(text))


def _tres_list(found: Mapping[str, str], factor: int) -> list[Json]:
    """Amounts by name. One that is not a plain number is memory with its unit, in TRES minutes."""
    return [
        {"name": name, "value": number((int(text) if text.isdigit() else parse_mb(text)) * factor)}
        for name, text in sorted(found.items())
    ]
