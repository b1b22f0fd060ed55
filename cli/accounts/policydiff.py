"""Computes the changes from a cluster's present state to a policy file: in an order in which each can be made, with a
description. The file defines each entity that it names completely: a limit that is not in it is removed. Entities that
it does not name stay unchanged and are listed; `prune` removes them. Descriptions and defaults that are not given stay.

Order: every change comes after those that it depends on. QOS before the entities that use them; accounts, both new and
changed, from the top, so that a child finds its parent's new settings; users; then removals, children first. A
reference to a later entity of the same kind is a second change, after all of the kind exist: the QOS that a QOS
preempts, and an account's coordinators, who are users. The controller makes all changes
or none (ChangeMany).
"""

from collections.abc import Iterator
from typing import NamedTuple

from cli.accounts.policyfile import KEYS, NOTHING, ROOT, UNMANAGED, EntryKey, Policy
from cli.accounts.policystate import word_of
from penstock.v1.controller_pb2 import ChangeQosRequest
from penstock.v1.governance_pb2 import Change
from penstock.v1.shares_pb2 import ChangeAccountsRequest

_A = ChangeAccountsRequest.Action
_Q = ChangeQosRequest.Action
#: The QOS that always exists.
NORMAL = ("qos", "normal")
#: The value that removes a setting, by key; -1 for all others.
_AWAY = {"fairshare": "1", "parent": ROOT, "adminlevel": "None", "description": "", "organization": "", "qos": "",
         "defaultqos": "-1", "preempt": "", "flags": "-1", "preemptmode": "cluster", "budget": "none"}  # fmt: skip


class PolicyStep(NamedTuple):
    """One entity that is created, changed or removed: key -> (before, after), and the messages for it. `later`: those
    that refer to other entities of the policy.
    """

    sign: str  # + ~ -
    key: EntryKey
    differences: dict[str, tuple[str, str]]
    changes: tuple[Change, ...]
    later: tuple[Change, ...] = ()


class Difference(NamedTuple):
    """All steps in order, and what the file does not name."""

    steps: tuple[PolicyStep, ...]
    unnamed: tuple[EntryKey, ...]

    def changes(self) -> list[Change]:
        """The changes to request."""
        kept = [step for step in self.steps if step.sign != "-"]
        gone = [change for step in self.steps if step.sign == "-" for change in step.changes]
        found: list[Change] = []
        for kind in _KINDS:
            found += [change for step in kept if step.key[0] == kind for change in step.changes]
            if kind == "qos":
                found += [change for step in kept if step.key[0] == kind for change in step.later]
        return found + [change for step in kept if step.key[0] != "qos" for change in step.later] + gone


def difference(has: Policy, wanted: Policy, prune: bool = False) -> Difference:
    """Computes the difference. Entities of kind `user` have a user's own settings; users exist as soon as they are in
    an account."""
    new = [key for key in wanted.entities if key not in has.entities and key[0] != "user"]
    gone = [key for key in has.entities if key not in wanted.entities and not _stays(key)]
    both = [key for key in wanted.entities if key in has.entities or key[0] == "user"]
    kept = sorted((*new, *both), key=lambda key: _place(key, wanted))
    made = dict.fromkeys(new)
    found = (_made(key, wanted) if key in made else _changed(key, has, wanted) for key in kept)
    steps = [step for step in found if step is not None]
    if prune:
        steps += _defaults_that_move(has, wanted)
        all_gone = frozenset(gone)
        apart = [key for key in gone if not _is_removed_with_account(key, all_gone, has)]
        apart.sort(key=lambda key: (_place(key, has)[:2], not _is_default(key, has), key), reverse=True)
        steps += [_removed(key) for key in apart]
    return Difference(tuple(steps), () if prune else tuple(sorted(gone)))


def _stays(key: EntryKey) -> bool:
    """Whether an entity that the file does not name stays in any case: the file says nothing of account root."""
    return key[0] == "user" or key == NORMAL or key[:2] == ("member", ROOT)


def _defaults_that_move(has: Policy, wanted: Policy) -> Iterator[PolicyStep]:
    """New default accounts of users whose default is removed and who remain in others: the first of these, unless the
    file gives one."""
    stays = {(key[2], key[1]): None for key in wanted.entities if key[0] == "member"}
    stays |= {(key[2], key[1]): None for key in has.entities if key[:2] == ("member", ROOT)}
    for key, texts in sorted(has.entities.items()):
        old = texts.get("defaultaccount", "")
        if key[0] != "user" or not old or (key[1], old) in stays or wanted.entities.get(key, {}).get("defaultaccount"):
            continue
        new = min((account for user, account in stays if user == key[1]), default="")
        if new:
            change = _accounts(_A.MODIFY, key, {"defaultaccount": new})
            yield PolicyStep("~", key, {"defaultaccount": (old, new)}, (change,))


def _is_removed_with_account(key: EntryKey, gone: frozenset[EntryKey], has: Policy) -> bool:
    """Orders removals: a user's default account is removed after the user's others."""
    if key[0] != "member" or ("account", key[1]) not in gone:
        return False
    default = has.entities.get(("user", key[2]), {}).get("defaultaccount", "")
    return default == key[1] or ("account", default) not in gone


def _is_default(key: EntryKey, has: Policy) -> bool:
    return key[0] == "member" and has.entities.get(("user", key[2]), {}).get("defaultaccount", "") == key[1]


_KINDS = ("qos", "account", "member", "user")


def _place(key: EntryKey, policy: Policy) -> tuple[int, int, EntryKey]:
    """The sort key: entities that others depend on first; accounts by depth."""
    depth, account = 0, key[1]
    while key[0] == "account" and account != ROOT and depth <= len(policy.entities):
        account = policy.entities.get(("account", account), {}).get("parent", ROOT)
        depth += 1
    return _KINDS.index(key[0]), depth, key


# ---- steps -------------------------------------------------------------------------------------------------------


def _made(key: EntryKey, wanted: Policy) -> PolicyStep:
    texts = wanted.entities[key]
    differences = {name: ("", text) for name, text in texts.items()}
    if key[0] == "qos":
        later = {name: text for name, text in texts.items() if name == "preempt"}  # references to later QOS
        first = {name: text for name, text in texts.items() if name not in later}
        after = (_qos(_Q.MODIFY, key[1], later),) if later else ()
        return PolicyStep("+", key, differences, (_qos(_Q.ADD, key[1], first),), after)
    settings = {name: text for name, text in texts.items() if name != "coordinators"}
    change = _accounts(_A.ADD, key, settings)
    return PolicyStep("+", key, differences, (change,), tuple(_coordinators(key, "", texts.get("coordinators", ""))))


def _changed(key: EntryKey, has: Policy, wanted: Policy) -> PolicyStep | None:
    before, after = has.entities.get(key, {}), wanted.entities[key]
    differences: dict[str, tuple[str, str]] = {}
    for name in KEYS[key[0]]:
        if (name in UNMANAGED and name not in after) or (name == "adminlevel" and key[1] == ROOT):
            continue
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            differences[name] = (old or NOTHING.get(name, ""), new or NOTHING.get(name, ""))
    if not differences:
        return None
    changes: dict[str, str] = {}
    for name, (old, new) in differences.items():
        if name == "coordinators":
            continue
        changes[name] = _delta(old, new) if name.startswith(("grptres", "maxtres", "mintres", "lend", "borrow")) else (
            new or _AWAY.get(name, "-1")
        )  # fmt: skip
    found: list[Change] = []
    if changes:
        found.append(_qos(_Q.MODIFY, key[1], changes) if key[0] == "qos" else _accounts(_A.MODIFY, key, changes))
    later = tuple(_coordinators(key, *differences.get("coordinators", ("", ""))))
    if key[0] == "qos":  # it may name a new QOS
        return PolicyStep("~", key, differences, (), tuple(found))
    return PolicyStep("~", key, differences, tuple(found), later)


def _delta(old: str, new: str) -> str:
    """The change of a limit by TRES: TRES that are not named stay unchanged, so removed ones are named."""
    names = {item.partition("=")[0] for item in new.split(",")}
    away = [f"{name}=-1" for name in (item.partition("=")[0] for item in old.split(",") if item) if name not in names]
    return ",".join([*(item for item in new.split(",") if item), *away])


def _removed(key: EntryKey) -> PolicyStep:
    if key[0] == "qos":
        return PolicyStep("-", key, {}, (_qos(_Q.DELETE, key[1], {}),))
    return PolicyStep("-", key, {}, (_accounts(_A.REMOVE, key, {}),))


def _qos(action: int, name: str, changes: dict[str, str]) -> Change:
    return Change(qos=ChangeQosRequest(action=action, names=[name], changes=changes))  # type: ignore[arg-type]


def _accounts(action: int, key: EntryKey, changes: dict[str, str]) -> Change:
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


def _coordinators(key: EntryKey, old: str, new: str) -> Iterator[Change]:
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


def name_of(key: EntryKey) -> str:
    """The name of an entity in messages."""
    if key[0] == "member":
        return f"user {key[2]} in account {key[1]}" + (f", partition {key[3]}" if key[3] else "")
    return f"{key[0]} {key[1]}"


def lines_of(found: Difference) -> Iterator[str]:
    """The changes, one line each."""
    for step in found.steps:
        if step.sign == "~":
            text = "; ".join(
                f"{word_of(name)} {old or '-'} -> {new or '-'}" for name, (old, new) in step.differences.items()
            )
        else:
            text = " ".join(f"{word_of(name)}={new}" for name, (_, new) in step.differences.items())
        yield f"{step.sign} {name_of(step.key)}" + (f": {text}" if text else "")
