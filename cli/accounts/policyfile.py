"""The policy file: accounts, users, QOS, limits and shares of a cluster in one YAML file, for version control.

    qos:
      normal: {}
      long: {MaxWall: 7-00:00:00, Priority: 10, Flags: [DenyOnLimit]}
    accounts:
      science:
        Fairshare: 70
        accounts:                     # below it
          physics:
            GrpTRES: {gres/gpu: 8}
            QOS: [normal, long]
            Coordinators: [ann]
            users:
              ann: {Fairshare: 5, DefaultAccount: yes}
              bob: {MaxJobs: 10, Partition: gpu}
    users:
      ann: {AdminLevel: Operator}

Keys are sacctmgr's, in any case; accounts may also be nested through `parent: NAME`. The result is a table of entities,
each a kind, a name and texts by key: the form in which cli/accounts/policystate.py returns the cluster's state, so
that cli/accounts/policydiff.py depends on neither.

All scalars are texts as written (YAML would read 12:00:00 as a number of seconds). Every error is reported with its
line; a file with an error is not used at all. The walk over a file is bounded: anchors could make it endless.
"""

from collections.abc import Callable, Iterator

# Any: PyYAML's nodes are untyped; their `id` has the kind
from typing import Any, Final, NamedTuple, TypeAlias

from cli.base.run import CommandError
from penstock.boundedfile import read_bounded
from penstock.values import limits
from penstock.values.duration import format_duration
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.qos import PPM, parse_exempt_s, parse_factor, parse_grace_s

#: A node of the tree that PyYAML composes, a mapping, a sequence or a scalar by its `id`; PyYAML is untyped.
_Node: TypeAlias = Any
FILE_BYTES_MAX: Final = 8 * 1024 * 1024
VALUES_MAX: Final = 1_000_000
#: Characters of all texts that are made: an anchor may stand for a long text at many places.
CHARS_MAX: Final = 2 * FILE_BYTES_MAX
DEPTH_MAX: Final = 64
MISTAKES_SHOWN: Final = 20
ROOT: Final = "root"

EntryKey = tuple[str, ...]  # kind, then its name: qos NAME; account NAME; member ACCOUNT USER PARTITION; user NAME


class Policy(NamedTuple):
    """Entities with their texts by lower-case key. `lines`: their lines in the file, for messages."""

    entities: dict[EntryKey, dict[str, str]]
    lines: dict[EntryKey, int]
    cluster: str = ""


def _list(text: str) -> str:
    return ",".join(sorted(dict.fromkeys(word.strip() for word in text.split(",") if word.strip())))


def _lower_list(text: str) -> str:
    return _list(text.lower())


def _shares(text: str) -> str:
    return "parent" if text.lower() in ("parent", "-1") else str(parse_int(text, 0, 2**31 - 2, "Fairshare"))


def _grace(text: str) -> str:
    seconds = parse_grace_s(text)
    return format_duration(seconds) if seconds else ""


def _exempt(text: str) -> str:
    seconds = parse_exempt_s(text)
    return format_duration(seconds) if seconds >= 0 else ""


def _factor(name: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        found = parse_factor(text, name)
        return f"{found // PPM}.{found % PPM:06d}".rstrip("0").rstrip(".") if found >= 0 else ""

    return read


def _count(text: str) -> str:
    return "" if text in ("", "-1", "0") else str(parse_int(text, 0, 2**32 - 2, "number"))


def _limit(limit: limits.Limit) -> Callable[[str], str]:
    return lambda text: limits.texts(limits.change(limits.NO_LIMITS, limit, text)).get(limit.name, "")


def _text(text: str) -> str:
    return text


_LIMITS_OF_ASSOC = {limit.name: _limit(limit) for limit in limits.LIMITS if limit.of_assoc}
_LIMITS_OF_QOS = {limit.name: _limit(limit) for limit in limits.LIMITS if limit.of_qos}
#: Keys of each kind, each with the function that normalises its text for comparison.
KEYS: Final[dict[str, dict[str, Callable[[str], str]]]] = {
    "qos": {
        "description": _text, "priority": _count, "preempt": _list, "preemptmode": _lower_list, "flags": _lower_list,
        "gracetime": _grace, "preemptexempttime": _exempt,
        **{name.lower(): _factor(name) for name in ("UsageFactor", "UsageThreshold", "LimitFactor")}, **_LIMITS_OF_QOS,
    },
    "account": {
        "description": _text, "organization": _text, "parent": str.lower, "fairshare": _shares, "priority": _count,
        "qos": _lower_list, "defaultqos": str.lower, "budget": _text, "coordinators": _list, **_LIMITS_OF_ASSOC,
    },
    "member": {
        "fairshare": _shares, "priority": _count, "qos": _lower_list, "defaultqos": str.lower, **_LIMITS_OF_ASSOC,
    },
    "user": {"adminlevel": str.lower, "defaultaccount": str.lower, "defaultwckey": _text},
}  # fmt: skip
#: Only compared when the file has them: a file without a description does not remove one.
UNMANAGED: Final = frozenset(("description", "organization", "defaultaccount", "defaultwckey"))
#: The defaults of omitted keys.
NOTHING: Final = {"fairshare": "1", "parent": ROOT, "adminlevel": "none", "usagefactor": "1"}
_OTHER_WORDS: Final = {"shares": "fairshare", "share": "fairshare", "qoslevel": "qos", "coordinator": "coordinators"}


def read_policy(path: str) -> Policy:
    """Reads the file. Raises CommandError with all its errors."""
    try:
        data = read_bounded(path, FILE_BYTES_MAX)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    return parse_policy(data, path)


def parse_policy(data: bytes, name: str, values_max: int = VALUES_MAX) -> Policy:
    """The policy of a file's content. `name`: of the file, for messages. Raises CommandError with all its errors."""
    import yaml

    try:
        root = yaml.compose(data, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise CommandError(f"{name} is not YAML: {' '.join(str(error).split())}") from None
    reader = _Reader(name, values_max)
    if root is not None:
        reader.document(root)
    return reader.policy()


class _Reader:
    """One walk over a document."""

    def __init__(self, path: str, values_max: int) -> None:
        self._path = path
        self._values_max = values_max
        self._mistakes: list[str] = []
        self._entities: dict[EntryKey, dict[str, str]] = {}
        self._lines: dict[EntryKey, int] = {}
        self._cluster = ""
        self._left = values_max
        self._chars_left = CHARS_MAX

    def policy(self) -> Policy:
        """The parsed policy. Raises CommandError."""
        self._check()
        if self._mistakes:
            more = len(self._mistakes) - MISTAKES_SHOWN
            lines = [*self._mistakes[:MISTAKES_SHOWN], *([f"and {more} more"] if more > 0 else [])]
            raise CommandError("\n".join(lines), plain=True)
        return Policy(self._entities, self._lines, self._cluster)

    def document(self, root: _Node) -> None:
        """The file's three parts."""
        for word, line, node in self._pairs(root, "the file"):
            if word == "qos":
                for name, at, values in self._pairs(node, "qos"):
                    self._put(("qos", name.lower()), at, self._texts("qos", values, at, name))
            elif word == "accounts":
                self._accounts(node, ROOT, 0)
            elif word == "users":
                for name, at, values in self._pairs(node, "users"):
                    self._put(("user", name), at, self._texts("user", values, at, name))
            elif word == "cluster":
                self._cluster = self._scalar(node, line, "cluster")
            else:
                self._wrong(line, f"{word}: expected cluster, qos, accounts, users")

    def _accounts(self, node: _Node, parent: str, depth: int) -> None:
        if depth > DEPTH_MAX:
            self._wrong(node.start_mark.line + 1, f"more than {DEPTH_MAX} accounts below one another")
            return
        for word, line, values in self._pairs(node, "accounts"):
            name = word.lower()
            if name == ROOT:
                self._wrong(line, "root is above all accounts and not in the file: sacctmgr modify cluster changes it")
                continue
            own: list[tuple[str, int, _Node]] = []
            for key, at, value in self._pairs(values, f"account {name}"):
                if key.lower() == "accounts":
                    self._accounts(value, name, depth + 1)
                elif key.lower() == "users":
                    for user, user_line, said in self._pairs(value, f"users of {name}"):
                        self._member(name, user, user_line, said)
                else:
                    own.append((key, at, value))
            texts = self._read("account", own, name)
            if parent != ROOT and texts.setdefault("parent", parent) != parent:
                self._wrong(line, f"account {name} is nested below {parent} and has parent: {texts['parent']}")
            self._put(("account", name), line, texts)

    def _member(self, account: str, user: str, line: int, node: _Node) -> None:
        """A user in an account; a list of such mappings = one association for each partition."""
        for values in node.value if node.id == "sequence" else (node,):
            partitions, pairs = [""], []
            for key, at, value in self._pairs(values, f"user {user} of {account}"):
                if key.lower() in ("partition", "partitions"):
                    partitions = self._scalar(value, at, key).split(",")
                elif key.lower() == "defaultaccount":
                    if self._scalar(value, at, key).lower() in ("yes", "true", account):
                        self._entities.setdefault(("user", user), {})["defaultaccount"] = account
                        self._lines.setdefault(("user", user), at)
                else:
                    pairs.append((key, at, value))
            texts = self._read("member", pairs, f"{user} of {account}")
            for partition in partitions:
                self._put(("member", account, user, partition.strip()), line, dict(texts))

    def _texts(self, kind: str, node: _Node, line: int, name: str) -> dict[str, str]:
        return self._read(kind, list(self._pairs(node, f"{kind} {name}")), name)

    def _read(self, kind: str, pairs: list[tuple[str, int, _Node]], name: str) -> dict[str, str]:
        known = KEYS[kind]
        other = limits.OF_QOS if kind == "qos" else limits.OF_ASSOC
        found: dict[str, str] = {}
        for word, line, node in pairs:
            low = word.lower().replace("_", "")
            key = _OTHER_WORDS.get(low) or (other[low].name if low in other else low)
            if key not in known:
                self._wrong(line, f"{kind} {name}: there is no key {word[:64]}; known: {', '.join(sorted(known))}")
                continue
            if key in found:
                self._wrong(line, f"{kind} {name}: {key} is given twice")
                continue
            try:
                found[key] = known[key](self._scalar(node, line, word))
            except BadValue as error:
                self._wrong(line, f"{kind} {name}: {error}")
        return {key: text for key, text in found.items() if text and text != NOTHING.get(key)}

    def _put(self, key: EntryKey, line: int, texts: dict[str, str]) -> None:
        if key[0] == "user":
            texts = {**self._entities.get(key, {}), **texts}
        elif key in self._entities:
            self._wrong(
                line, f"{' '.join(part for part in key if part)} is there twice, first in line {self._lines[key]}"
            )
            return
        self._entities[key] = texts
        self._lines[key] = line

    def _pairs(self, node: _Node, what: str) -> Iterator[tuple[str, int, _Node]]:
        """A mapping's entries, each with its line. An empty value is an empty mapping."""
        line = node.start_mark.line + 1
        if node.id == "scalar" and node.value in ("", "~", "null"):
            return
        if node.id != "mapping":
            self._wrong(line, f"{what}: expected KEY: VALUE lines")
            return
        seen: dict[str, None] = {}
        for key, value in node.value:
            at = key.start_mark.line + 1
            self._left -= 1
            if self._left < 0:
                raise CommandError(f"{self._path}: more than {self._values_max} values")
            if key.id != "scalar" or not key.value:
                self._wrong(at, f"{what}: a key must be a word")
            elif key.value in seen:
                self._wrong(at, f"{what}: {key.value[:64]} is there twice")
            else:
                seen[key.value] = None
                yield key.value, at, value

    def _scalar(self, node: _Node, line: int, what: str) -> str:
        """A text; a list becomes a,b and a mapping (of TRES) a=1,b=2."""
        if node.id == "scalar":
            return "" if node.value in ("~", "null") else self._counted(str(node.value))
        if node.id == "mapping":
            pairs = [(word, at, value) for word, at, value in self._pairs(node, what)]
            wrong = [at for _, at, value in pairs if value.id != "scalar"]
            if wrong:
                self._wrong(wrong[0], f"{what}: expected a word or a number")
                return ""
            return ",".join(f"{word}={self._scalar(value, at, what)}" for word, at, value in pairs)
        self._left -= len(node.value)
        if any(one.id != "scalar" for one in node.value) or self._left < 0:
            self._wrong(line, f"{what}: expected a word or a list of words")
            return ""
        return ",".join(self._counted(one.value) for one in node.value)

    def _counted(self, text: str) -> str:
        self._chars_left -= len(text)
        if self._chars_left < 0:
            raise CommandError(f"{self._path}: more than {CHARS_MAX} characters where anchors are used")
        return text

    def _check(self) -> None:
        """Checks that all parents exist."""
        for key, texts in self._entities.items():
            parent = texts.get("parent", ROOT)
            if key[0] == "account" and key[1] == parent:
                self._wrong(self._lines[key], f"account {parent} is its own parent")

    def _wrong(self, line: int, text: str) -> None:
        self._mistakes.append(f"{self._path}:{line}: {text}")
