"""Names of QOS in a line of sacctmgr: one that the cluster does not have is refused in Slurm's words before anything is sent."""

from collections.abc import Iterable, Mapping

from cli.accounts.words import WHERE, ParsedLine
from cli.base.run import CommandError
from penstock.client import Client
from penstock.v1 import controller_pb2 as pb

_LISTS = ("qos", "qos+", "qos-")


def list_qos(client: Client, with_deleted: bool = False) -> list[pb.Qos]:
    """Returns all QOS, by their numbers."""
    found: list[pb.Qos] = list(client.call("ListQos", pb.ListQosRequest(with_deleted=with_deleted)).qos)
    return sorted(found, key=lambda one: (one.id, one.name))


def bad_qos(known: Iterable[str], names: Iterable[str]) -> str:
    """Slurm's line about the first name that is not known; "" = all are."""
    known = list(known)
    wrong = next((name for name in names if name not in ("", "-1") and name.lower() not in known), "")
    return f"You gave a bad qos '{wrong}'. Valid QOS's are {','.join(known)}" if wrong else ""


def check_qos(client: Client, said: ParsedLine, changes: Mapping[str, str], after: str = "") -> None:
    """Checks the QOS that a line about associations names. `after`: what follows a setting that is not one. Raises
    CommandError."""
    wanted = said.conditions.get("qos", [])
    given = [key for key in _LISTS if changes.get(key)]
    default = changes.get("defaultqos", "")
    if not (wanted or given or default):
        return
    known = [one.name for one in list_qos(client)]
    if line := bad_qos(known, wanted):
        raise CommandError(f"sacctmgr: error: {line}\n Unknown condition: {said.words[WHERE + 'qos']}", plain=True)
    for key in given:
        if line := bad_qos(known, changes[key].split(",")):
            word = said.words.get(key) or said.words["qos"]
            raise CommandError(f"sacctmgr: error: {line}\n Unknown option: {word}{after}", plain=True)
    if bad_qos(known, (default,)):
        raise CommandError(f"You gave a bad default qos '{default}'.  Use 'list qos' to get complete list.", plain=True)
