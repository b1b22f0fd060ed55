"""GET conf of both interfaces: the lines of `scontrol show config`, each in the type that the version gives its name.

A name that Penstock does not show has its unset value. Times lose their unit (10 sec is 10), lists their commas.
"""

import re
from collections.abc import Mapping
from typing import Final

from cli.accounts.server import configuration
from cli.base.document import Json, number
from penstock.v1.controller_pb2 import ShowConfigRequest
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue
from rest.calling import RestCall
from rest.contract.facts import ListOf, ObjectOf, Scalar, Schema, Words

#: Values of scontrol that mean nothing.
_NOTHING: Final = frozenset(("", "(null)", "none", "n/a", "(none)"))
_YES: Final = frozenset(("yes", "1", "true", "on", "enabled"))
_INFINITE: Final = frozenset(("unlimited", "infinite"))
_NUMBER: Final = re.compile(r"-?\d+")
_RANGE: Final = re.compile(r"(\d+)-(\d+)")
_HOST: Final = re.compile(r"slurmctldhost\[\d+\]")
UNCHANGED: Final = "Slurm configuration has not changed since update_time"


async def conf(call: RestCall) -> Json:
    """GET /slurm/.../conf."""
    if call.number("update_time") * 1_000_000 > call.now_us:
        call.warn(UNCHANGED, "_op_handler_conf")
        return {}
    reply = await call.call("ShowConfig", ShowConfigRequest())
    values = {line.key.lower(): line.value for line in reply.lines}
    shown = _typed(call.operation.answer.members["slurm_conf"], values)
    hosts = [text.partition("(") for key, text in values.items() if _HOST.fullmatch(key)]
    controllers = [{"machine": host, "address": address.rstrip(")") or host} for host, _, address in hosts]
    meta = {
        "BOOT_TIME": _at_s(values.get("boot_time", ""), call.now_us),
        "LastUpdate": call.now_us // 1_000_000,
        "NEXT_JOB_ID": _amount(values.get("next_job_id", "")),
        "SLURM_CONF": values.get("slurm_conf", ""),
        "SLURM_VERSION": values.get("slurm_version", ""),
    }
    return {"slurm_conf": shown | {"controllers": controllers}, "slurm_conf_meta": meta}


async def accounting_conf(call: RestCall) -> Json:
    """GET /slurmdb/.../conf: the controller keeps the accounting."""
    values = configuration(await call.call("ShowConfig", ShowConfigRequest()))
    return {"slurmdbd_conf": _typed(call.operation.answer.members["slurmdbd_conf"], values)}


def _typed(schema: Schema, values: Mapping[str, str]) -> Json:
    """The members that have a value."""
    assert isinstance(schema, ObjectOf)
    known = {name: (member, values.get(name.lower(), "")) for name, member in schema.members.items()}
    return {name: _value(text, member) for name, (member, text) in known.items() if text.lower() not in _NOTHING}


def _value(text: str, schema: Schema) -> object:
    if isinstance(schema, ListOf):
        parts = [one for one in re.split("[,|;]", text) if one]
        return _words(parts, schema.item) if isinstance(schema.item, Words) else parts
    if isinstance(schema, Scalar):
        return text if schema.kind == "string" else text.lower() in _YES if schema.kind == "boolean" else _amount(text)
    if isinstance(schema, ObjectOf) and schema.is_number:
        return number(None, infinite=True) if text.lower() in _INFINITE else number(_amount(text))
    ports = _RANGE.fullmatch(text)
    return {"set": True, "minimum": int(ports[1]), "maximum": int(ports[2])} if ports else None


def _words(parts: list[str], schema: Words) -> list[str]:
    known = {word.lower(): word for word in schema.words}
    return [known[part.lower()] for part in parts if part.lower() in known]


def _amount(text: str) -> int | None:
    found = _NUMBER.match(text)
    return int(found[0]) if found else None


def _at_s(text: str, now_us: int) -> int:
    try:
        return parse_date_us(text, now_us, past=True) // 1_000_000 if text else 0
    except BadValue:
        return 0
