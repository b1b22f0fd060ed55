"""sacctmgr add, modify, delete resource: licences of a server, of which the cluster has a part.

They join the cluster's licences as NAME@SERVER, as in Slurm: jobs ask for `--licenses=NAME@SERVER:2`. The cluster's
number is the allowed percentage of the count, rounded down. A licence that active jobs ask for cannot be removed.
"""

from collections.abc import Callable, Mapping

from ctld.core.accounts.draft import Draft
from ctld.core.accounts.keys import name_of
from ctld.core.queue.rights import AccountingChange, authorize
from ctld.core.records.accounting_rows import ResourceRow
from ctld.core.records.effects import Changed, Refused
from ctld.core.records.events import ChangeAccounts
from penstock.values.errors import BadValue
from penstock.values.fields import Fields, made_of
from penstock.values.licenses import LICENSES_MAX
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code
from penstock.values.text import check_name

#: Maximum kinds of licence beside those of slurm.conf; the planner counts each for every job.
RESOURCES_MAX = 1_000


def _percent(text: str) -> int:
    value = parse_int(text, 0, 1_000, "percentallowed")
    if value > 100:
        raise Refused(Code.OVER_ALLOCATE)
    return value


def _type(text: str) -> str:
    if text.lower() != "license":
        raise BadValue("Invalid type: expected License")
    return "License"


_KEYS: dict[str, tuple[str, Callable[[str], object]]] = {
    "count": ("total", lambda text: parse_int(text, 0, LICENSES_MAX, "count")),
    "percentallowed": ("allowed_percent", _percent),
    "allowed": ("allowed_percent", _percent),
    "type": ("type", _type),
    "servertype": ("manager", lambda text: check_name(text, "servertype", 128)),
    "manager": ("manager", lambda text: check_name(text, "manager", 128)),
    "description": ("description", lambda text: check_name(text, "description", 255)),
    "descrip": ("description", lambda text: check_name(text, "description", 255)),
}
_KNOWN = "Count, Description, PercentAllowed, Server, ServerType and Type"


def _values(changes: Mapping[str, str]) -> Fields:
    found: Fields = {}
    for key, text in changes.items():
        if key in ("server", "cluster", "clusters"):
            continue
        if key not in _KEYS:
            raise Refused(Code.NOT_SUPPORTED, f"{key}= of a resource; there are {_KNOWN}")
        field, read = _KEYS[key]
        found[field] = read(text)
    return found


def add_resources(draft: Draft, event: ChangeAccounts) -> Changed:
    """Adds licences. The server is a key of the changes; its default is slurmdb, as in Slurm."""
    state = draft.state
    authorize(state, draft.actor, AccountingChange("adding a resource", event.changes))
    values, server = _values(event.changes), _server(event.changes)
    if "total" not in values or not event.names:
        raise Refused(Code.INVALID_VALUE, "a resource needs a name and a count")
    if sum(not row.deleted for row in state.registry.resources.values()) + len(event.names) > RESOURCES_MAX:
        raise Refused(Code.INVALID_VALUE, f"more than {RESOURCES_MAX} resources")
    new = []
    for name in dict.fromkeys(event.names):
        row = made_of(ResourceRow, {"name": name_of(name, "resource name"), "server": server or "slurmdb", **values})
        known = state.registry.resources.get(row.key)
        if known is None or known.deleted:
            draft.put_resource(row)
            new.append(name)
    return Changed(tuple(new), ())


def modify_resources(draft: Draft, event: ChangeAccounts) -> Changed:
    """Changes licences of the server that `where` names, or of all."""
    authorize(draft.state, draft.actor, AccountingChange("changing a resource", event.changes))
    values = _values(event.changes)
    if not values:
        raise Refused(Code.INVALID_VALUE, "nothing to change is given (set ...)")
    found = _found(draft, event)
    for row in found:
        draft.put_resource(made_of(row._replace, values))
    return Changed(tuple(row.name for row in found), ())


def remove_resources(draft: Draft, event: ChangeAccounts) -> Changed:
    """Removes licences. Refused while active jobs ask for one of them."""
    authorize(draft.state, draft.actor, AccountingChange("removing a resource"))
    found = _found(draft, event)
    for row in found:
        job_id = draft.active.of_license.get(row.key, 0)
        if job_id:
            raise Refused(Code.JOBS_ON_ASSOCIATION, f"job {job_id} asks for {row.key}")
        draft.put_resource(row._replace(deleted=True))
    return Changed(tuple(row.name for row in found), ())


def _server(keys: Mapping[str, str]) -> str:
    return name_of(keys["server"], "server") if keys.get("server") else ""


def _found(draft: Draft, event: ChangeAccounts) -> list[ResourceRow]:
    server = _server(event.where)
    if not event.names and not server:
        raise Refused(Code.INVALID_VALUE, "no condition given: name the resources")
    rows = [row for row in draft.state.registry.resources.values() if not row.deleted]
    return [r for r in rows if (not event.names or r.name in event.names) and (not server or r.server == server)]
