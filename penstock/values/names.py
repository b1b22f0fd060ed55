"""Grammar of names that are looked up: of users, groups and hosts in the system's databases, of accounts, partitions
and QOS in the controller's tables.

A name is checked before anything searches for it. The C library passes it to modules (nss-systemd, LDAP, a resolver)
that were written for the names of a login: some of them put it on their stack, and a long one ends the process.
"""

import re
from typing import Final

from penstock.values.text import unsafe

#: The longest name: LOGIN_NAME_MAX, and more than a DNS name (253).
ENTITY_BYTES_MAX: Final = 256
#: A character has at most four bytes.
_SHORT: Final = ENTITY_BYTES_MAX // 4
#: Separators of passwd(5) and group(5).
_SEPARATORS: Final = ":,"
_HOST: Final = re.compile(r"[A-Za-z0-9_.\-]*")
#: A cluster's name, in lower case.
_CLUSTER: Final = re.compile(r"[a-z0-9_-]{1,40}")
#: The schema of PostgreSQL with the table of the clusters of one database (ctld/store/registry.py).
REGISTRY_SCHEMA: Final = "penstock_clusters"
#: What PostgreSQL takes without quotes and does not cut: 63 bytes.
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def why_no_entity(text: str) -> str:
    """Describes why this is not the name of anything; "" = it may be one."""
    if len(text) <= _SHORT and text.isprintable():
        return ""
    if len(text) > ENTITY_BYTES_MAX:
        return f"{len(text)} characters, the limit of a name is {ENTITY_BYTES_MAX} bytes"
    if problem := unsafe(text):
        return problem
    size = len(text.encode())
    return f"{size} bytes, the limit of a name is {ENTITY_BYTES_MAX}" if size > ENTITY_BYTES_MAX else ""


def why_no_login(text: str) -> str:
    """Describes why this is not the name of a user or of a group; "" = it may be one."""
    found = next((char for char in _SEPARATORS if char in text), "") if len(text) <= ENTITY_BYTES_MAX else ""
    return f"{found!r} in a name" if found else why_no_entity(text)


def why_no_host(text: str) -> str:
    """Describes why this is not the name of a host; "" = it may be one."""
    why = why_no_entity(text)
    return why if why or _HOST.fullmatch(text) else "not the name of a host"


def is_cluster_name(text: str) -> bool:
    """Whether this may be a cluster's name, which is kept in lower case."""
    return _CLUSTER.fullmatch(text) is not None


def why_no_schema(text: str) -> str:
    """Describes why this may not be the schema of a cluster's tables in PostgreSQL; "" = it may be one."""
    if not _SCHEMA.fullmatch(text):
        return "not a plain name of a schema: at most 63 of a-z, 0-9 and _, and no digit first"
    if text.startswith("pg_") or text in ("information_schema", REGISTRY_SCHEMA):
        return "a schema that PostgreSQL or Penstock uses itself"
    return ""
