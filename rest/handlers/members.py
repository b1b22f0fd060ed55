"""Members of a body at paths with dots, and settings made of them: the keys and values of sacctmgr and scontrol. Pure.

settings({"max": {"jobs": {"active": 4}}}, {"max.jobs.active": MemberSetting("maxjobs", as_limit)})   # {"maxjobs": "4"}
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias, cast

from penstock.values.duration import format_duration
from rest.contract.parse import INFINITE

Members: TypeAlias = Mapping[str, object]
#: Shares of an association that has its parent's.
_PARENT_SHARES: Final = 2**31 - 1


class MemberSetting(NamedTuple):
    """The key of a change, and how its value is written. `write` returns None for a value that changes nothing."""

    key: str
    write: Callable[[object], str | None]


# ---- values


def as_text(value: object) -> str | None:
    """A text; an empty one changes nothing."""
    return str(value) or None


def as_limit(value: object) -> str | None:
    """A number; -1 for no limit."""
    return "-1" if value == INFINITE else str(value)


def as_factor(value: object) -> str | None:
    """A factor with six digits behind the point; -1 = none."""
    return "-1" if value == INFINITE or not isinstance(value, int | float) else f"{value:.6f}"


def as_duration(value: object) -> str | None:
    """Seconds as HH:MM:SS; -1 = none."""
    return "-1" if value == INFINITE or not isinstance(value, int) else format_duration(value)


def as_names(value: object) -> str | None:
    """A list of names with commas; an empty one changes nothing."""
    return ",".join(map(str, value)) or None if isinstance(value, list) else str(value) or None


def as_amounts(value: object) -> str | None:
    """A list of {type, name, count} as cpu=4,gres/gpu=2."""
    found = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    texts = (
        f"{one['type']}/{one['name']}" if one.get("name") else str(one["type"]) for one in found if one.get("type")
    )
    counts = (one.get("count", 0) for one in found if one.get("type"))
    return ",".join(f"{text}={count}" for text, count in zip(texts, counts, strict=True)) or None


def as_shares(value: object) -> str | None:
    """Shares; `parent` for Slurm's number of the parent's."""
    return "parent" if value == _PARENT_SHARES else str(value)


def as_level(value: object) -> str | None:
    """The level of an administrator."""
    words = [word for word in value if word != "Not Set"] if isinstance(value, list) else []
    return str(words[-1]).lower() if words else None


def as_preempt_mode(value: object) -> str | None:
    """The modes of preemption; DISABLED is the cluster's."""
    words = list(map(str, value)) if isinstance(value, list) else []
    return ",".join("CLUSTER" if word == "DISABLED" else word for word in words) or None


# ---- members


def at(record: Members, path: str) -> object:
    """The member at a path with dots; None = it is not there."""
    value: object = record
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def settings(record: Members, table: Mapping[str, MemberSetting]) -> dict[str, str]:
    """The settings that a record makes, by key."""
    found = {}
    for path, (key, write) in table.items():
        value = at(record, path)
        text = None if value is None else write(value)
        if text is not None:
            found[key] = text
    return found


def text_of(record: Members, path: str) -> str:
    """A text of a record; "" = it is not there."""
    value = at(record, path)
    return "" if value is None else str(value)


def records_of(record: Members, path: str) -> list[Members]:
    """A list of records of a record."""
    found = at(record, path)
    return [cast("Members", one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def texts_of(record: Members, name: str) -> list[str]:
    """A list of texts of a record."""
    found = record.get(name)
    return list(map(str, found)) if isinstance(found, list) else []
