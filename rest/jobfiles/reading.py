"""Reads a job file: a value as JSON has them, and the places of its members.

YAML is read by the rules of its version 1.2 for plain words: `yes` and `1:30:00` are texts, not true and 5400. Tags, and
anchors with references to them, are refused: a short text with these may stand for a very long one.
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from typing import Final, NamedTuple, NoReturn

import yaml

from cli.base.run import CommandError
from penstock.boundedfile import read_all, read_bounded
from rest.jobfiles.places import FilePlace, MemberPath, toml_places
from rest.limits import BODY_BYTES_MAX

STDIN: Final = "-"
_WORDS: Final = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,30}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]{1,30}(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,5})?")
#: Tags that PyYAML gives to what has none.
_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")
)
_TOML_PLACE: Final = re.compile(r"^(.*?) ?\(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)


class JobFile(NamedTuple):
    """What a file says. `places` may lack members: then those above them are the nearest."""

    value: object
    places: dict[MemberPath, FilePlace]


class FileError(Exception):
    """The text is not of its format, at a place if that is known."""

    def __init__(self, text: str, place: FilePlace | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.place = place


def read_text(path: str) -> str:
    """The text of a file, or of standard input. Raises CommandError."""
    try:
        data = read_all(sys.stdin.buffer, BODY_BYTES_MAX) if path == STDIN else read_bounded(path, BODY_BYTES_MAX)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise CommandError(f"{path}:{line}: not UTF-8") from None


def parse_text(text: str, suffix: str) -> JobFile:
    """Reads a text in the format of a file name's suffix; without a known one it is YAML. Raises FileError."""
    try:
        found = _FORMATS.get(suffix.lower(), _yaml)(text)
        json.dumps(found.value, ensure_ascii=False).encode()  # an escape may be half of a pair, which is no Unicode
    except RecursionError:
        raise FileError("nested too deep") from None
    except (ValueError, OverflowError) as error:  # of the libraries: a number of thousands of digits, \UFFFFFFFF
        raise FileError(f"a value that cannot be read: {error}") from None
    return found


# ---- YAML


def _yaml(text: str) -> JobFile:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        place = _place(error.problem_mark) if error.problem_mark else None
        raise FileError(f"not YAML: {' '.join((error.problem or str(error)).split())}", place) from None
    except yaml.YAMLError as error:
        raise FileError(f"not YAML: {' '.join(str(error).split())}") from None
    tree = _YamlTree()
    return JobFile({} if root is None else tree.value(root, ()), tree.places)


class _YamlTree:
    """Makes values of nodes, and notes their places."""

    def __init__(self) -> None:
        self.places: dict[MemberPath, FilePlace] = {}
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, path: MemberPath) -> object:
        """The value of a node. Raises FileError."""
        if id(node) in self._seen:
            raise FileError(
                "references to anchors (*name) are not read: write the value again", _place(node.start_mark)
            )
        self._seen.add(id(node))
        if node.tag not in _PLAIN_TAGS:
            raise FileError(f"tags are not read: {node.tag}", _place(node.start_mark))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return self._sequence(node.value, path)
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: MemberPath) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in node.value:
            place = _place(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                raise FileError("the name of a member is a text", place)
            name = str(key.value)
            if name in found:
                raise FileError(f"{name} is there twice", place)
            self.places[*path, name] = place
            found[name] = self.value(value, (*path, name))
        return found

    def _sequence(self, nodes: Sequence[yaml.Node], path: MemberPath) -> list[object]:
        found: list[object] = []
        for index, one in enumerate(nodes):
            here = (*path, str(index))
            self.places[here] = _place(one.start_mark)
            found.append(self.value(one, here))
        return found


def _scalar(node: yaml.Node) -> object:
    text = str(node.value)
    if getattr(node, "style", None):  # in quotes, or a block
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _place(mark: "yaml.Mark") -> FilePlace:
    return FilePlace(mark.line + 1, mark.column + 1)


# ---- TOML, JSON


def _toml(text: str) -> JobFile:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _TOML_PLACE.match(str(error))
        place = FilePlace(int(match[2]), int(match[3])) if match and match[2] else None
        raise FileError(f"not TOML: {match[1] if match else error}", place) from None
    return JobFile(_plain(found), toml_places(text))


def _plain(value: object) -> object:
    """A value without TOML's dates: they are texts."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, datetime | date | time) else value


def _json(text: str) -> JobFile:
    try:
        found = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise FileError(f"not JSON: {error.msg}", FilePlace(error.lineno, error.colno)) from None
    try:
        places = _yaml(text).places  # JSON is nearly always YAML, too
    except FileError:
        places = {}
    return JobFile(found, places)


def _no_constant(name: str) -> NoReturn:
    raise FileError(f"not JSON: {name} is no number")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise FileError(f"{name} is there twice")
        found[name] = value
    return found


_FORMATS: Final[dict[str, Callable[[str], JobFile]]] = {".toml": _toml, ".json": _json}
