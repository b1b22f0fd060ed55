"""Reads the tokens of a line by a table of parameters.

The same rules apply to all kinds of lines. An unknown key or an invalid value is a problem, and the key is dropped, so
that one mistake causes one message. A key that Slurm knows and Penstock does not use causes one warning per load. Of a
repeated key the last value is used, with a warning. `DEFAULT` lines add to the defaults of the lines that follow.
"""

from collections.abc import Iterable

# Any: each parameter has a value of its kind
from typing import Any, NamedTuple

from penstock.config.keys import KEY_CHARS_MAX, SECRET, Key, Table
from penstock.config.problem import PROBLEMS_MAX, Findings, Ignored, Where
from penstock.config.syntax import Token
from penstock.config.unknown import unknown
from penstock.config.words import NOT_KNOWN, WORDS, without_meaning
from penstock.values.errors import BadValue

#: Kinds of lines that messages name together with the key.
ON_LINES = ("NodeName", "PartitionName")


class Value(NamedTuple):
    """A parsed value, and its position."""

    value: Any
    where: Where


class Values(dict[str, Value]):
    """The values of one line by field (by name for keys without a field)."""

    def value(self, name: str, default: object = None) -> Any:
        """Returns the value, or `default` if the line does not have it."""
        found = self.get(name)
        return default if found is None else found.value


class LineReader:
    """Reads lines of one kind, in file order."""

    def __init__(self, table: Table, findings: Findings) -> None:
        self.table = table
        self.findings = findings
        self.defaults = Values()
        self.texts: dict[str, str] = {}
        self._warned: set[str] = set()

    def read(self, tokens: Iterable[Token]) -> Values:
        """Reads the values of the tokens, without defaults."""
        values = Values()
        for token in tokens:
            key = self.table.find(token.key)
            if key is None:
                self._unknown(token)
            elif key.kind is None:
                self._ignore(key, token)
            else:
                self._take(key, token, values)
        return values

    def read_named(self, tokens: tuple[Token, ...]) -> Values | None:
        """Reads a NodeName or PartitionName line and adds defaults; returns None for a DEFAULT line, which changes them."""
        own = self.read(tokens)
        replaced = {other for name in own for other in self.table.instead.get(name, ())} - own.keys()
        merged = Values({name: value for name, value in self.defaults.items() if name not in replaced} | own)
        if tokens[0].value.upper() == "DEFAULT":
            merged.pop("name", None)
            self.defaults = merged
            return None
        return merged

    def _unknown(self, token: Token) -> None:
        # the search for a similar name is slow, and a wrong file can contain a million unknown words
        text = unknown(token.key, self.table) if self.findings.number() < PROBLEMS_MAX else ""
        self.findings.error(token.where, text)

    def _take(self, key: Key, token: Token, values: Values) -> None:
        assert key.kind is not None
        name = key.field or key.name
        before = values.get(name) if key.several else None
        if name in values and before is None:
            self.findings.warn(token.where, f"{key.name} is given more than once; the last value is used")
        try:
            value = key.kind.read(token.value, key.name)
            values[name] = Value(value if before is None else (*before.value, *value), token.where)
        except BadValue as problem:
            text = str(problem)
            self.findings.error(token.where, text if key.name in text else f"{key.name}: {text}")
            return
        if key.note and (note := key.note(token.value)):
            self.findings.warn(token.where, f"{key.name}: {note}")
        if key.name in WORDS:
            for word, why in without_meaning(key.name, _names(values[name].value)):
                if why.startswith(NOT_KNOWN):
                    self.findings.warn(token.where, f"{key.name}: {word[:KEY_CHARS_MAX]} {why}")
                else:
                    self.findings.ignore(Ignored(token.where, key.name, word, token.value, "", why))

    def _ignore(self, key: Key, token: Token) -> None:
        """Warns once per key, unless the value describes what Penstock does anyway."""
        self.texts[key.name.lower()] = token.value
        if key.name in self._warned or token.value.lower() in (word.lower() for word in key.accepted):
            return
        self._warned.add(key.name)
        name = key.name + (f" on {self.table.what} lines" if self.table.what in ON_LINES else "")
        value = "" if key.name.lower() in SECRET else token.value
        self.findings.ignore(Ignored(token.where, name, "", value, key.does, key.why))


def _names(words: tuple[str | tuple[str, object], ...]) -> tuple[str, ...]:
    """Returns the words of a list of words, or of pairs of a word and its value."""
    return tuple(word if isinstance(word, str) else word[0] for word in words)
