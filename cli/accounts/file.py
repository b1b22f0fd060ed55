"""The flat file of `sacctmgr dump` and `load`: reads its lines, writes its values. No requests, no controller.

    # a comment
    Cluster - 'tiny':Fairshare=1:QOS='normal'
    Parent - 'root'
    Account - 'physics':Description='all of physics':Organization='science':Fairshare=30:GrpTRES=cpu=64,gres/gpu=8
    Parent - 'physics'
    User - 'ann':DefaultAccount='physics':AdminLevel='Operator':Fairshare=1

A line is a title, ` - `, a name and options separated by colons, in any order. Values may be quoted; within quotes a
backslash escapes a quote or a backslash. `Parent` names the account that contains the accounts and users of the
following lines. Files of Slurm are read as they are: old names of limits, numbers instead of names of TRES, 2147483647
for Fairshare=parent.

Every error is reported with its line number, and a file with an error changes nothing.
"""

import re
from typing import NamedTuple

from cli.accounts.grammar import OLD_LIMITS
from cli.accounts.values import checked
from cli.accounts.words import Keyword, find, keywords
from cli.base.run import CommandError
from penstock.values.limits import OF_ASSOC, LimitKind
from penstock.values.text import clean_line

#: The largest file, and the longest line in characters: a site of 100,000 associations has 20 MB.
FILE_BYTES_MAX = 64 * 1024 * 1024
LINE_MAX = 64 * 1024
#: The most errors reported before reading ends.
WRONG_MAX = 20
PARENT_SHARES = "2147483647"

_LIMITS = (
    "DefaultQOS:8 FairShare:1 Shares:1>fairshare GrpTRESRunMins:8 GrpTRESMins:8 GrpTRES:7 GrpCPURunMins:8 "
    "GrpCPUMins:7 GrpCPUs:7 "
    "GrpJobsAccrue:8 GrpJobs:4 GrpMemory:4 GrpNodes:4 GrpSubmitJobs:4 GrpWall:4 MaxCPUMinsPerJob:7 MaxCPUsPerJob:7 "
    "MaxTRESMinsPerJob:8 MaxTRESRunMins:8>ignored MaxTRESPerNode:11 MaxTRESPerJob:7 MaxJobsAccrue:8 MaxJobs:4 "
    "MaxNodesPerJob:4 "
    "MaxSubmitJobs:4 MaxWallDurationPerJob:4 MinPrioThreshold:4 Priority:3 QosLevel:1>qos Lend:4 Borrow:4 Budget:4"
)
OPTIONS: dict[str, tuple[Keyword, ...]] = {
    "cluster": keywords("Name:1 Classification:2>ignored Flags:2>ignored " + _LIMITS),
    "account": keywords("Name:1 Description:3 Organization:1 " + _LIMITS),
    "user": keywords(
        "Name:1 AdminLevel:2 Coordinator:2 DefaultAccount:8 DefaultWCKey:8 Partition:2 WCKeys:1 " + _LIMITS
    ),
    "parent": (),
}
_TITLES = {
    "cluster": "cluster",
    "machine": "cluster",
    "parent": "parent",
    "account": "account",
    "project": "account",
    "user": "user",
}
_LINE = re.compile(r"([A-Za-z]+)\s*-\s+(.*)", re.DOTALL)
_TRES_OF_ID = {
    "1": "cpu",
    "2": "mem",
    "3": "energy",
    "4": "node",
    "5": "billing",
    "6": "fs/disk",
    "7": "vmem",
    "8": "pages",
}


class DumpLine(NamedTuple):
    """One line: of an account or a user, with its parent account; `settings` are as the controller takes them."""

    line: int
    name: str
    parent: str
    settings: dict[str, str]
    own: dict[str, str]  # description, organization; adminlevel, coordinator, defaultaccount, defaultwckey, wckeys
    partition: str = ""


class AccountsFile(NamedTuple):
    """The content of a file. Accounts precede their members."""

    cluster: str
    settings: dict[str, str]  # of the root account
    accounts: list[DumpLine]
    users: list[DumpLine]


class _Wrong(Exception):
    """An error in the current line."""


def read_file(text: str, there: frozenset[str] = frozenset()) -> AccountsFile:
    """Parses the text of a file; `there`: existing accounts, which may be parents without being in the file. Raises
    CommandError.
    """
    reader = _Reader(there)
    wrong: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            reader.read(number, line)
        except _Wrong as error:
            wrong += [f" {error}", f" Problem with line({number})"]
        except CommandError as error:
            wrong += [f" {error.text.strip()}", f" Problem with line({number})"]
        if len(wrong) >= 2 * WRONG_MAX:
            wrong.append(" and maybe more")
            break
    if not wrong and not reader.cluster:
        wrong.append(" You need to specify a cluster name first with 'Cluster - $NAME' in your file")
    if wrong:
        raise CommandError("\n".join(clean_line(line) for line in wrong), plain=True)
    return AccountsFile(reader.cluster, reader.settings, reader.accounts, reader.users)


class _Reader:
    """One pass over the lines."""

    def __init__(self, there: frozenset[str]) -> None:
        self.known = {"root", *there}
        self.cluster = ""
        self.settings: dict[str, str] = {}
        self.parent = "root"
        self.accounts: list[DumpLine] = []
        self.users: list[DumpLine] = []
        self.seen: set[tuple[str, ...]] = set()

    def read(self, number: int, text: str) -> None:
        line = text.strip()
        if not line or line.startswith("#"):
            return
        if len(line) > LINE_MAX:
            raise _Wrong(f"The line has {len(line)} characters, the limit is {LINE_MAX}")
        match = _LINE.fullmatch(line)
        kind = _TITLES.get(match[1].lower()) if match else None
        if match is None or kind is None:
            raise _Wrong(f"Misformatted line({number}): {line[:80]}")
        name, options = _parts(match[2])
        if not name:
            raise _Wrong(f"Nothing after object name '{match[1]}'. line({number})")
        if kind == "cluster":
            self._read_cluster(name, options)
        elif not self.cluster:
            raise _Wrong("You need to specify a cluster name first with 'Cluster - $NAME' in your file")
        elif kind == "parent":
            self._read_parent(number, name.lower(), options)
        elif kind == "account":
            self._read_account(number, name.lower(), options)
        else:
            self._read_user(number, name, options)

    def _read_cluster(self, name: str, options: list[str]) -> None:
        if self.cluster:
            raise _Wrong("You can only add one cluster at a time.")
        self.cluster = name
        self.settings, _ = _settings("cluster", options)

    def _read_parent(self, number: int, name: str, options: list[str]) -> None:
        if options:
            raise _Wrong(f"Unknown option: {options[0][:80]}")
        if name not in self.known:
            self.parent = name
            self.known.add(name)  # reported once
            raise _Wrong(
                f"line({number}) You need to add this parent ({name}) as a child before you can add children to it."
            )
        self.parent = name

    def _read_account(self, number: int, name: str, options: list[str]) -> None:
        if name == "root":
            raise _Wrong("root contains all other accounts and can not be added")
        self._once(("account", name))
        settings, own = _settings("account", options)
        self.accounts.append(DumpLine(number, name, self.parent, settings, own))
        self.known.add(name)

    def _read_user(self, number: int, name: str, options: list[str]) -> None:
        settings, own = _settings("user", options)
        partition = own.pop("partition", "")
        self._once(("user", name, self.parent, partition))
        self.users.append(DumpLine(number, name, self.parent, settings, own, partition))

    def _once(self, key: tuple[str, ...]) -> None:
        if key in self.seen:
            raise _Wrong(f"{key[0].capitalize()} '{key[1]}' is in the file twice")
        self.seen.add(key)


def _parts(text: str) -> tuple[str, list[str]]:
    """The name, and the options after it. Raises _Wrong when a quote is not closed."""
    parts = []
    part = ""
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if quote and char == "\\" and text[at : at + 1] in ("\\", quote):
            part += char + text[at]
            at += 1
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (not part or part.endswith("=")):
            quote = char
        elif char == ":":
            parts.append(part)
            part = ""
            continue
        part += char
    if quote:
        raise _Wrong(f"There is a problem with option {part[:80]} with quotes.")
    name, *options = (*parts, part)
    return _value(name.strip()), [option.strip() for option in options if option.strip()]


def _value(text: str) -> str:
    if len(text) >= 2 and text[0] in "\"'" and text[-1] == text[0]:
        return re.sub(r"\\([\\" + text[0] + "])", r"\1", text[1:-1])
    if text[:1] in ("'", '"'):
        raise _Wrong(f"There is a problem with option {text[:80]} with quotes.")
    return text


def _settings(kind: str, options: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the association, and what is the account's or user's own."""
    own: dict[str, str] = {}
    changes: dict[str, str] = {}
    for option in options:
        key, equals, raw = option.partition("=")
        if not equals:
            raise _Wrong(f"Bad format on {option[:80]}: End your option with an '=' sign")
        sign = key[-1] if key[-1:] in ("+", "-") else ""
        found = find(key.removesuffix(sign) if sign else key, OPTIONS[kind]) if key else None
        if found is None:
            raise _Wrong(f"Unknown option: {option[:80]}")
        value = _value(raw)
        if found in ("ignored", "name"):
            continue
        if found in (
            "description",
            "organization",
            "coordinator",
            "defaultaccount",
            "defaultwckey",
            "partition",
            "wckeys",
        ):
            own[found] = value
        elif found == "adminlevel":
            own[found] = (
                checked({"adminlevel": value}, OF_ASSOC)["adminlevel"] if value.lower() != "not set" else "None"
            )
        elif found == "qos":
            changes[f"qos{sign}"] = value
        else:
            changes[found + sign] = _as_here(found, value)
    return checked(changes, OF_ASSOC), own


def _as_here(key: str, value: str) -> str:
    if key == "fairshare" and value == PARENT_SHARES:
        return "parent"
    limit = OF_ASSOC.get(key)
    if limit is None or limit.kind is not LimitKind.TRES or key in OLD_LIMITS:
        return value
    pairs = (item.partition("=") for item in value.split(","))
    return ",".join(f"{_TRES_OF_ID.get(name.strip(), name.strip())}{equals}{amount}" for name, equals, amount in pairs)


def quoted(text: str) -> str:
    """A value as the file has it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
