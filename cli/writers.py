"""JSON and YAML as text, as Slurm lays them out: two spaces a level, every key on a line.

Written out here because documents are long and made item by item: Python's own JSON writer takes five times as long when
it indents, and PyYAML's forty times. Both languages say the same; YAML strings that could be read as something else stand
in quotes, written as in JSON. `compact` (SLURM_JSON, SLURM_YAML) is JSON without spaces: it is YAML, too.
"""

import json
import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

_quote = encode_basestring
_NUMBER = {"set", "infinite", "number"}
#: Texts that are remembered: most words and numbers of a list of jobs come again and again.
REMEMBERED = 4096
#: Strings that mean themselves in YAML without quotes.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
_WORDS_OF_YAML = frozenset("true false yes no on off null y n".split())  # noqa: SIM905 (words)
_CONTROL = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _scalar(value: Any) -> str:
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if kind is int:
        return str(value)
    text = json.dumps(value)
    return text if "." in text else text.replace("e", ".0e")  # 1e-9 is a word in YAML


@lru_cache(REMEMBERED, typed=True)
def _number(is_set: Any, infinite: Any, number: Any, pad: str) -> str:
    """An object {"set", "infinite", "number"}."""
    inner = f",\n{pad}  "
    parts = (f'"set": {_scalar(is_set)}', f'"infinite": {_scalar(infinite)}', f'"number": {_scalar(number)}')
    return "{" + inner.join(("", *parts))[1:] + f"\n{pad}}}"


def json_text(value: Any, pad: str = "") -> str:
    """A value whose first line stands behind something, and whose others are indented by `pad`."""
    kind = type(value)
    if kind is str:
        return _quote(value)
    if kind is dict:
        if not value:
            return "{}"
        inner = pad + "  "
        if "infinite" in value and value.keys() == _NUMBER:  # half of a job's document are such
            return _number(value["set"], value["infinite"], value["number"], pad)
        pairs = [f"{inner}{_quote(key)}: {json_text(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(pairs) + f"\n{pad}}}"
    if kind is list or kind is tuple:
        if not value:
            return "[]"
        inner = pad + "  "
        return "[\n" + ",\n".join([inner + json_text(item, inner) for item in value]) + f"\n{pad}]"
    return _scalar(value)


def compact_text(value: Any) -> str:
    """The same without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@lru_cache(REMEMBERED)
def yaml_string(text: str) -> str:
    """A string as YAML, in quotes unless it is a plain word."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML:
        return text
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", _quote(text))


@lru_cache(REMEMBERED, typed=True)
def _yaml_number(is_set: Any, infinite: Any, number: Any, pad: str) -> str:
    pairs = (("set", is_set), ("infinite", infinite), ("number", number))
    return "\n" + "".join([f"{pad}{key}: {_scalar(value)}\n" for key, value in pairs])


def yaml_text(value: Any, pad: str = "") -> str:
    """What stands behind a key (or a dash) at indentation `pad`: on the same line, or on lines below it."""
    kind = type(value)
    if kind is str:
        return f" {yaml_string(value)}\n"
    if kind is dict:
        if not value:
            return " {}\n"
        inner = pad + "  "
        if "infinite" in value and value.keys() == _NUMBER:
            return _yaml_number(value["set"], value["infinite"], value["number"], inner)
        return "\n" + "".join([f"{inner}{yaml_string(key)}:{yaml_text(item, inner)}" for key, item in value.items()])
    if kind is list or kind is tuple:
        if not value:
            return " []\n"
        return "\n" + "".join([yaml_item(item, pad) for item in value])
    return f" {_scalar(value)}\n"


def yaml_item(value: Any, pad: str = "") -> str:
    """One item of a list whose dashes stand at indentation `pad`."""
    if type(value) is dict and value:
        body = yaml_text(value, pad)[1:]
        return f"{pad}- {body[len(pad) + 2 :]}"
    if type(value) in (list, tuple) and value:
        return f"{pad}-\n" + "".join([yaml_item(item, pad + "  ") for item in value])
    return f"{pad}-{yaml_text(value, pad)}"
