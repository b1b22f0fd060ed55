"""Parses a sacctmgr line: names, conditions, settings.

    modify user where name=ann account=physics set fairshare=5 qos+=gold
    add account physics parent=science
    list associations tree user=ann format=account,user%20

Tables (`keywords`) have the names of keywords and their shortest abbreviations, in Slurm's order: the first match wins.
A word without `=` is a flag of the table, else a name. `where` and `set` separate conditions from settings; without
them a modify begins with conditions, an add has settings only, and everything else conditions only.

All errors of a line are reported together, in Slurm's words, before any request to the controller.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cli.base.run import CommandError

#: Before the keys of conditions in ParsedLine.words.
WHERE = "where "
#: Behind a setting that is not one.
USE_WHERE = "\n Use keyword 'where' to modify condition"
#: The most words of a line, and the most names in it.
WORDS_MAX = 10_000
NAMES_MAX = 10_000


class Keyword(NamedTuple):
    """One keyword: `name` in lower case; the length of its shortest abbreviation; `key` is its meaning."""

    name: str
    least: int
    key: str


class Grammar(NamedTuple):
    """The words allowed in a line about one kind of entity."""

    conditions: tuple[Keyword, ...]
    settings: tuple[Keyword, ...] = ()
    who: tuple[Keyword, ...] = ()  # in a line that adds: keywords that select the record and are not settings
    flags: tuple[Keyword, ...] = ()
    use_set: bool = True  # a condition that is not one: Slurm says how to make it a setting
    use_where: bool = False  # a setting that is not one, in a line that adds: Slurm says how to make it a condition
    bare: str = "name"  # the condition that a word without `=` is; "" = none


class ParsedLine(NamedTuple):
    """A parsed line. A key of `changes` ends in + or - where += or -= was written."""

    conditions: dict[str, list[str]]
    changes: dict[str, str]
    flags: frozenset[str]
    columns: str = ""
    words: Mapping[str, str] = MappingProxyType(
        {}
    )  # the words that conditions and changes were made of; WHERE + condition

    def names(self) -> list[str]:
        """The names that were given, each once."""
        return list(dict.fromkeys(self.conditions.get("name", ())))

    def has_conditions(self) -> bool:
        """Whether any condition restricts the selection. The cluster does not: there is one."""
        return any(values for key, values in self.conditions.items() if key != "cluster")


def keywords(text: str) -> tuple[Keyword, ...]:
    """Builds a table from `Names:1 Users:1>name`: the shortest abbreviation after the colon, the meaning after `>`."""
    found = []
    for word in text.split():
        name, _, rest = word.partition(":")
        least, _, key = rest.partition(">")
        found.append(Keyword(name.lower(), int(least or 1), key or name.lower()))
    return tuple(found)


def find(word: str, table: tuple[Keyword, ...]) -> str | None:
    """Resolves a word that may be abbreviated."""
    low = word.lower()
    for known in table:
        if low == known.name or (len(low) >= known.least and known.name.startswith(low)):
            return known.key
    return None


def unquoted(text: str) -> str:
    """Removes the quotes around a value."""
    if len(text) >= 2 and text[0] in "\"'" and text[-1] == text[0]:
        return text[1:-1]
    return text.strip("\"'") if text in ("'", '"') else text


def listed(text: str) -> list[str]:
    """The items of a comma list; each may be quoted, and a comma in brackets or quotes separates nothing."""
    items = []
    item = ""
    quote = ""
    depth = 0
    for char in unquoted(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[]":
            depth = max(0, depth + (1 if char == "[" else -1))
        elif char == "," and not depth:
            items.append(item)
            item = ""
            continue
        item += char
    return [found for found in (unquoted(one.strip()) for one in (*items, item)) if found]


def read_line(words: list[str], grammar: Grammar, verb: str) -> ParsedLine:
    """Parses the words after the entity. `verb` is add, modify, remove or show. Raises CommandError."""
    if len(words) > WORDS_MAX:
        raise CommandError(f"can not process over {WORDS_MAX} words")
    reader = _Reader(grammar, verb)
    for word in words:
        reader.read(word)
    if reader.wrong:
        raise CommandError("\n".join(reader.wrong), plain=True)
    if sum(map(len, reader.conditions.values())) > NAMES_MAX:
        raise CommandError(f"can not process over {NAMES_MAX} names")
    return ParsedLine(reader.conditions, reader.changes, frozenset(reader.flags), reader.columns, reader.words)


class _Reader:
    """One pass over the words."""

    def __init__(self, grammar: Grammar, verb: str) -> None:
        self.grammar = grammar
        self.verb = verb
        self.is_set = verb == "add"
        self.conditions: dict[str, list[str]] = {}
        self.changes: dict[str, str] = {}
        self.flags: set[str] = set()
        self.columns = ""
        self.words: dict[str, str] = {}
        self.wrong: list[str] = []

    def read(self, word: str) -> None:
        low = word.lower()
        if low in ("where", "set"):
            self.is_set = low == "set" if self.verb in ("modify", "add") else False
            return
        key, equals, value = word.partition("=")
        sign = key[-1:] if equals and key[-1:] in ("+", "-") else ""
        key = key.removesuffix(sign) if sign else key
        if not equals:
            self._bare(word)
        elif self.is_set:
            self._setting(word, key, sign, unquoted(value))
        else:
            self._condition(word, key, value)

    def _bare(self, word: str) -> None:
        flag = find(word, self.grammar.flags)
        if flag is not None:
            self.flags.add(flag)
        elif self.verb == "modify" and self.is_set:
            self.wrong.append(f" Bad format on {word}: End your option with an '=' sign")
        elif self.grammar.bare:
            self.conditions.setdefault(self.grammar.bare, []).extend(listed(word))
        else:
            self._unknown_condition(word)

    def _condition(self, word: str, key: str, value: str) -> None:
        found = find(key, self.grammar.conditions) if key else None
        if found is None:
            self._unknown_condition(word)
        elif found == "format":
            self.columns = f"{self.columns},{value}" if self.columns else unquoted(value)
        else:
            self.words[WHERE + found] = word
            self.conditions.setdefault(found, []).extend(listed(value))

    def _unknown_condition(self, word: str) -> None:
        self.wrong.append(f" Unknown condition: {word}")
        if self.grammar.use_set:
            self.wrong.append(" Use keyword 'set' to modify value")

    def _setting(self, word: str, key: str, sign: str, value: str) -> None:
        who = find(key, self.grammar.who) if key and self.verb == "add" else None
        if who is not None:
            self.conditions.setdefault(who, []).extend(listed(value))
            return
        found = find(key, self.grammar.settings) if key else None
        if found is None:
            use_where = self.verb == "modify" or self.grammar.use_where
            self.wrong.append(f" Unknown option: {word}" + (USE_WHERE if use_where else ""))
            return
        whole = found + sign
        self.words[whole] = word
        self.changes[whole] = f"{self.changes[whole]},{value}" if sign and whole in self.changes else value
