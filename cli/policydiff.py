"""From what a cluster has to what a policy file says: the changes, in an order in which each can be made, and in words.

What the file names it says whole: a limit that is not in it (any more) is taken away. What it does not name stays as it is,
and is told; with `prune` it goes. Descriptions and defaults that are not said stay.

Order: QOS are made before who uses them; accounts before what is below them; users; then what has changed; then what
goes, from below. The controller makes all changes or none (ChangeMany).
"""

from collections.abc import Iterator
from typing import NamedTuple

from cli.policyfile import KEYS, NOTHING, ROOT, UNMANAGED, Key, Policy
from cli.policystate import word_of
from penstock.v1.controller_pb2 import ChangeQosRequest
from penstock.v1.governance_pb2 import Change
from penstock.v1.shares_pb2 import ChangeAccountsRequest

_A = ChangeAccountsRequest.Action
_Q = ChangeQosRequest.Action
#: QOS that is always there.
NORMAL = ("qos", "normal")
#: What takes a setting away, by key; -1 for all others.
_AWAY = {"fairshare": "1", "parent": ROOT, "adminlevel": "None", "description": "", "organization": "", "qos": "",
         "defaultqos": "-1", "preempt": "", "flags": "-1", "preemptmode": "cluster", "budget": "none"}  # fmt: skip


class Step(NamedTuple):
    """One entity that is made, changed or removed: key -> (before, after), and the messages that do it."""

    sign: str  # + ~ -
    key: Key
    told: dict[str, tuple[str, str]]
    changes: tuple[Change, ...]


class Difference(NamedTuple):
    """All steps in order, and what the file does not name."""

    steps: tuple[Step, ...]
    unnamed: tuple[Key, ...]

    def changes(self) -> list[Change]:
        """What the controller is asked for."""
        return [change for step in self.steps for change in step.changes]


def difference(has: Policy, wanted: Policy, prune: bool = False) -> Difference:
    """Entities of kind `user` are what is said about a person; they are there as soon as he is in an account."""
    new = [key for key in wanted.entities if key not in has.entities and key[0] != "user"]
    gone = [key for key in has.entities if key not in wanted.entities and key[0] != "user" and key != NORMAL]
    both = [key for key in wanted.entities if key in has.entities or key[0] == "user"]
    steps = [_made(key, wanted) for key in sorted(new, key=lambda key: _place(key, wanted))]
    steps += [step for key in sorted(both, key=lambda key: _place(key, wanted)) if (step := _changed(key, has, wanted))]
    if prune:
        covered = [key for key in gone if not _goes_with_its_account(key, gone)]
        steps += [_removed(key) for key in sorted(covered, key=lambda key: _place(key, has), reverse=True)]
    return Difference(tuple(steps), () if prune else tuple(sorted(gone)))


def _goes_with_its_account(key: Key, gone: list[Key]) -> bool:
    return key[0] == "member" and ("account", key[1]) in gone


_KINDS = ("qos", "account", "member", "user")


def _place(key: Key, policy: Policy) -> tuple[int, int, Key]:
    """What may be needed by others first; accounts by their depth."""
    depth, account = 0, key[1]
    while key[0] == "account" and account != ROOT and depth <= len(policy.entities):
        account = policy.entities.get(("account", account), {}).get("parent", ROOT)
        depth += 1
    return _KINDS.index(key[0]), depth, key


# ---- steps -------------------------------------------------------------------------------------------------------


def _made(key: Key, wanted: Policy) -> Step:
    texts = wanted.entities[key]
    told = {name: ("", text) for name, text in texts.items()}
    if key[0] == "qos":
        later = {name: text for name, text in texts.items() if name == "preempt"}  # of QOS that may come after it
        first = {name: text for name, text in texts.items() if name not in later}
        changes = [_qos(_Q.ADD, key[1], first), *([_qos(_Q.MODIFY, key[1], later)] if later else [])]
        return Step("+", key, told, tuple(changes))
    settings = {name: text for name, text in texts.items() if name != "coordinators"}
    change = _accounts(_A.ADD, key, settings)
    return Step("+", key, told, (change, *_coordinators(key, "", texts.get("coordinators", ""))))


def _changed(key: Key, has: Policy, wanted: Policy) -> Step | None:
    before, after = has.entities.get(key, {}), wanted.entities[key]
    told: dict[str, tuple[str, str]] = {}
    for name in KEYS[key[0]]:
        if name in UNMANAGED and name not in after:
            continue
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            told[name] = (old or NOTHING.get(name, ""), new or NOTHING.get(name, ""))
    if not told:
        return None
    changes: dict[str, str] = {}
    for name, (old, new) in told.items():
        if name == "coordinators":
            continue
        changes[name] = _delta(old, new) if name.startswith(("grptres", "maxtres", "mintres", "lend", "borrow")) else (
            new or _AWAY.get(name, "-1")
        )  # fmt: skip
    found: list[Change] = []
    if changes:
        found.append(_qos(_Q.MODIFY, key[1], changes) if key[0] == "qos" else _accounts(_A.MODIFY, key, changes))
    found += _coordinators(key, *told.get("coordinators", ("", "")))
    return Step("~", key, told, tuple(found))


def _delta(old: str, new: str) -> str:
    """TRES that are not named stay as they are: what is not wanted any more is taken away by name."""
    names = {item.partition("=")[0] for item in new.split(",")}
    away = [f"{name}=-1" for name in (item.partition("=")[0] for item in old.split(",") if item) if name not in names]
    return ",".join([*(item for item in new.split(",") if item), *away])


def _removed(key: Key) -> Step:
    if key[0] == "qos":
        return Step("-", key, {}, (_qos(_Q.DELETE, key[1], {}),))
    return Step("-", key, {}, (_accounts(_A.REMOVE, key, {}),))


def _qos(action: int, name: str, changes: dict[str, str]) -> Change:
    return Change(qos=ChangeQosRequest(action=action, names=[name], changes=changes))  # type: ignore[arg-type]


def _accounts(action: int, key: Key, changes: dict[str, str]) -> Change:
    request = ChangeAccountsRequest(action=action, changes=changes)  # type: ignore[arg-type]
    if key[0] == "account":
        request.entity = "account"
        request.names.append(key[1])
    else:
        request.entity = "user"
        if key[0] == "member":
            request.names.append(key[2])
            request.accounts.append(key[1])
            if key[3]:
                request.partitions.append(key[3])
        else:
            request.names.append(key[1])
    return Change(accounts=request)


def _coordinators(key: Key, old: str, new: str) -> Iterator[Change]:
    before, after = _words(old), _words(new)
    for action, users in (
        (_A.REMOVE, [u for u in before if u not in after]),
        (_A.ADD, [u for u in after if u not in before]),
    ):
        if users:
            yield Change(
                accounts=ChangeAccountsRequest(action=action, entity="coordinator", names=[key[1]], users=users)
            )


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


# ---- words -------------------------------------------------------------------------------------------------------


def name_of(key: Key) -> str:
    """An entity for people."""
    if key[0] == "member":
        return f"user {key[2]} in account {key[1]}" + (f", partition {key[3]}" if key[3] else "")
    return f"{key[0]} {key[1]}"


def lines_of(found: Difference) -> Iterator[str]:
    """What would be done, a line each."""
    for step in found.steps:
        if step.sign == "~":
            told = "; ".join(f"{word_of(name)} {old or '-'} -> {new or '-'}" for name, (old, new) in step.told.items())
        else:
            told = " ".join(f"{word_of(name)}={new}" for name, (_, new) in step.told.items())
        yield f"{step.sign} {name_of(step.key)}" + (f": {told}" if told else "")
