"""Writes JSON and YAML in Slurm's layout: two spaces a level, every key on a line.

Our own writers because documents are long and written item by item: Python's JSON writer takes five times as long when
it indents, and PyYAML's forty times. JSON and YAML have the same content; YAML strings that could be parsed as another
type are quoted as in JSON. `compact` (SLURM_JSON, SLURM_YAML) is JSON without spaces: it is YAML, too.
"""

import json
import re
from functools import lru_cache
from json.encoder import encode_basestring

_NUMBER = {"set", "infinite", "number"}
#: The size of the cache of texts: most words and numbers of a list of jobs repeat.
REMEMBERED = 4096
#: Strings that mean themselves in YAML without quotes.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
_WORDS_OF_YAML = frozenset("true false yes no on off null y n".split())  # noqa: SIM905 (words)
#: Characters that terminals and YAML treat specially, and JSON need not escape; of bytes that are not UTF-8 those in
#: C1.
_CONTROL = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\udc80-\udc9f]")


_quote = encode_basestring


def escaped(text: str) -> str:
    """Escapes those characters in a document's text. They occur in quotes alone, and both languages have the same
    escapes.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _scalar(value: object) -> str:
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
def _number(is_set: object, infinite: object, number: object, pad: str) -> str:
    """An object {"set", "infinite", "number"}."""
    inner = f",\n{pad}  "
    parts = (f'"set": {_scalar(is_set)}', f'"infinite": {_scalar(infinite)}', f'"number": {_scalar(number)}')
    return "{" + inner.join(("", *parts))[1:] + f"\n{pad}}}"


def json_text(value: object, pad: str = "") -> str:
    """A value as JSON that continues a line; further lines are indented by `pad`."""
    if type(value) is str:
        return _quote(value)
    if type(value) is dict:
        if not value:
            return "{}"
        inner = pad + "  "
        if (
            "infinite" in value and value.keys() == _NUMBER and type(value["set"]) is bool
        ):  # half of a job's document are such
            return _number(value["set"], value["infinite"], value["number"], pad)
        pairs = [f"{inner}{_quote(key)}: {json_text(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(pairs) + f"\n{pad}}}"
    if type(value) is list or type(value) is tuple:
        if not value:
            return "[]"
        inner = pad + "  "
        return "[\n" + ",\n".join([inner + json_text(item, inner) for item in value]) + f"\n{pad}]"
    return _scalar(value)


def compact_text(value: object) -> str:
    """The same without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@lru_cache(REMEMBERED)
def yaml_string(text: str) -> str:
    """A string as YAML, in quotes unless it is a plain word."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML:
        return text
    return escaped(_quote(text))


@lru_cache(REMEMBERED, typed=True)
def _yaml_number(is_set: object, infinite: object, number: object, pad: str) -> str:
    pairs = (("set", is_set), ("infinite", infinite), ("number", number))
    return "\n" + "".join([f"{pad}{key}: {_scalar(value)}\n" for key, value in pairs])


def yaml_text(value: object, pad: str = "") -> str:
    """The value after a key (or a dash) at indentation `pad`: on the same line, or on the lines below it."""
    if type(value) is str:
        return f" {yaml_string(value)}\n"
    if type(value) is dict:
        if not value:
            return " {}\n"
        inner = pad + "  "
        if "infinite" in value and value.keys() == _NUMBER and type(value["set"]) is bool:
            return _yaml_number(value["set"], value["infinite"], value["number"], inner)
        return "\n" + "".join([f"{inner}{yaml_string(key)}:{yaml_text(item, inner)}" for key, item in value.items()])
    if type(value) is list or type(value) is tuple:
        if not value:
            return " []\n"
        return "\n" + "".join([yaml_item(item, pad) for item in value])
    return f" {_scalar(value)}\n"


def yaml_item(value: object, pad: str = "") -> str:
    """One item of a list whose dashes are indented by `pad`."""
    if type(value) is dict and value:
        body = yaml_text(value, pad)[1:]
        return f"{pad}- {body[len(pad) + 2 :]}"
    if (type(value) is list or type(value) is tuple) and value:
        return f"{pad}-\n" + "".join([yaml_item(item, pad + "  ") for item in value])
    return f"{pad}-{yaml_text(value, pad)}"
