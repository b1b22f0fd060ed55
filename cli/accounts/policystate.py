"""Exports the cluster's current state in the form of a policy file: to compare with a file, or as a new one. Accounts
and users that were created implicitly, and not by a change, are left out. What users have in account root is here, and
not in the file, where the accounts begin below it; nor is the level of root, which is always that of an administrator.
"""

from collections.abc import Iterable
from typing import TypeAlias

from cli.accounts.policyfile import KEYS, NOTHING, ROOT, EntryKey, Policy
from cli.base.account_tree import load_associations
from cli.base.document import Json
from penstock.client import Client
from penstock.v1.controller_pb2 import ListQosRequest, Qos
from penstock.v1.shares_pb2 import Association, ListAssociationsReply
from penstock.values import limits
from penstock.values.duration import format_duration

_PPM = 1_000_000
#: Users by account: user, partition and settings.
_Members: TypeAlias = dict[str, list[tuple[str, str, dict[str, str]]]]


def cluster_policy(client: Client) -> Policy:
    """Loads the cluster's policy from the controller."""
    answer = load_associations(client)
    return make_policy(answer, client.call("ListQos", ListQosRequest()).qos)


def make_policy(answer: ListAssociationsReply, qos: Iterable[Qos]) -> Policy:
    """Builds a policy from the controller's answers."""
    entities: dict[EntryKey, dict[str, str]] = {("qos", one.name): _normal("qos", _of_qos(one)) for one in qos}
    about = {one.name: one for one in answer.accounts}
    for one in answer.associations:
        if one.made_by_itself or (one.account == ROOT and not one.user):  # the file's accounts begin below it
            continue
        texts = _of_assoc(one)
        if one.user:
            entities["member", one.account, one.user, one.partition] = _normal("member", texts)
            continue
        info = about.get(one.account)
        if info is not None:
            texts |= {"description": info.description, "organization": info.organization}
            texts["coordinators"] = ",".join(info.coordinators)
        texts |= {"parent": one.parent, "budget": one.budget}
        entities["account", one.account] = _normal("account", texts)
    for user in answer.users:
        texts = {
            "adminlevel": "" if user.name == ROOT else user.admin_level,
            "defaultaccount": "" if user.default_account == ROOT else user.default_account,
            "defaultwckey": user.default_wckey,
        }
        entities["user", user.name] = _normal("user", texts)
    return Policy(entities, {}, answer.cluster)


def _of_qos(one: Qos) -> dict[str, str]:
    exempt_s = one.preempt_exempt_time_s
    return {
        "description": one.description,
        "priority": str(one.priority),
        "preempt": ",".join(one.preempt),
        "preemptmode": ",".join(one.preempt_mode),
        "flags": ",".join(one.flags),
        "gracetime": format_duration(one.grace_time_s) if one.grace_time_s else "",
        "preemptexempttime": format_duration(exempt_s) if exempt_s >= 0 else "",
        "usagefactor": _parts(one.usage_factor_ppm),
        "usagethreshold": _parts(one.usage_threshold_ppm),
        "limitfactor": _parts(one.limit_factor_ppm),
        **one.limits,
    }


def _parts(ppm: int) -> str:
    return "" if ppm < 0 else f"{ppm / _PPM:.6f}"


def _of_assoc(one: Association) -> dict[str, str]:
    return {
        "fairshare": "parent" if one.shares < 0 else str(one.shares),
        "priority": str(one.priority),
        "qos": ",".join(one.own_qos),
        "defaultqos": one.default_qos,
        **one.limits,
    }


def _normal(kind: str, texts: dict[str, str]) -> dict[str, str]:
    known = KEYS[kind]
    found = {key: known[key](text) for key, text in texts.items() if key in known and text}
    return {key: text for key, text in found.items() if text and text != NOTHING.get(key)}


# ---- as a file ---------------------------------------------------------------------------------------------------

#: Spellings of keys.
_WORDS = {limit.name: limit.keyword for limit in limits.LIMITS} | {
    "fairshare": "Fairshare", "priority": "Priority", "qos": "QOS", "defaultqos": "DefaultQOS", "parent": "Parent",
    "description": "Description", "organization": "Organization", "coordinators": "Coordinators", "flags": "Flags",
    "preempt": "Preempt", "preemptmode": "PreemptMode", "gracetime": "GraceTime", "usagefactor": "UsageFactor",
    "preemptexempttime": "PreemptExemptTime", "usagethreshold": "UsageThreshold", "limitfactor": "LimitFactor",
    "adminlevel": "AdminLevel", "defaultaccount": "DefaultAccount", "defaultwckey": "DefaultWCKey", "budget": "Budget",
}  # fmt: skip


def word_of(key: str) -> str:
    """The spelling of a key."""
    return _WORDS.get(key, key)


def to_yaml(policy: Policy) -> str:
    """The policy as YAML."""
    import yaml

    return str(yaml.safe_dump(to_object(policy), sort_keys=False, allow_unicode=True, width=120))


def to_object(policy: Policy) -> Json:
    """The content of the policy file."""
    below: dict[str, list[str]] = {}
    members: _Members = {}
    for key, texts in policy.entities.items():
        if key[0] == "account":
            below.setdefault(texts.get("parent", ROOT), []).append(key[1])
        elif key[0] == "member":
            members.setdefault(key[1], []).append((key[2], key[3], texts))
    found: Json = {"cluster": policy.cluster} if policy.cluster else {}
    found["qos"] = {key[1]: _shown(texts) for key, texts in policy.entities.items() if key[0] == "qos"}
    found["accounts"] = _tree(policy, below, ROOT, members)
    people = {key[1]: _shown(texts) for key, texts in policy.entities.items() if key[0] == "user"}
    found["users"] = {name: texts for name, texts in people.items() if texts}
    return found


def _shown(texts: dict[str, str], *but: str) -> dict[str, str]:
    return {word_of(key): text for key, text in texts.items() if key not in but}


def _tree(policy: Policy, below: dict[str, list[str]], parent: str, members: _Members) -> Json:
    found: Json = {}
    for name in below.get(parent, ()):
        one: Json = {**_shown(policy.entities["account", name], "parent")}
        users: Json = {}
        for user, partition, texts in members.get(name, ()):
            said = _shown(texts) | ({"Partition": partition} if partition else {})
            before = users.get(user)
            users[user] = said if before is None else [*(before if isinstance(before, list) else [before]), said]
        if users:
            one["users"] = users
        if below.get(name):
            one["accounts"] = _tree(policy, below, name, members)
        found[name] = one
    return found
