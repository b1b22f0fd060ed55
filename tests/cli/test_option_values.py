"""The values of options: read by kind; and all places that read one name an option that has a value of that kind."""

import ast
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import cli
from cli.base.options import NO, Command, Option, OptionValues

VALUES = OptionValues(name="n", hold=True, verbose=2, nodes=(1, 4), users=["a", "b"])
#: Keys that the commands set themselves, and those that strigger turns into numbers.
SET_LATER = {"nothing", "switches_wait", "id", "offset"}


def test_values_are_read_by_their_kind() -> None:
    assert (VALUES.text("name"), VALUES.flag("hold"), VALUES.number("verbose")) == ("n", True, 2)
    assert (VALUES.numbers("nodes"), VALUES.each(str, "users")) == ((1, 4), ("a", "b"))
    assert VALUES.of(str, "name") == "n"


def test_an_option_that_was_not_given_has_its_default() -> None:
    assert (VALUES.text("x"), VALUES.flag("x"), VALUES.number("x"), VALUES.numbers("x")) == ("", False, 0, ())
    assert (VALUES.text("x", "y"), VALUES.flag("x", True), VALUES.number("x", 1)) == ("y", True, 1)
    assert (VALUES.numbers("x", 0, 0), VALUES.each(str, "x"), VALUES.of(int, "x")) == ((0, 0), (), None)


def test_a_value_of_another_kind_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="verbose is no str: 2"):
        VALUES.text("verbose")
    with pytest.raises(TypeError, match="name is no int: 'n'"):
        VALUES.number("name")
    with pytest.raises(TypeError, match=r"users is no list of int: \['a', 'b'\]"):
        VALUES.numbers("users")


def test_sources_lie_over_each_other() -> None:
    found = OptionValues(a=1, b=2).over({"b": 3, "c": 4})
    assert found == {"b": 2, "c": 4, "a": 1} and found.only("a", "x") == {"a": 1}
    assert type(found) is type(found.only()) is OptionValues


def options() -> Iterator[Option]:
    """Those of all tables."""
    for module in pkgutil.walk_packages(cli.__path__, "cli."):
        for value in vars(import_module(module.name)).values():
            found = value.options if isinstance(value, Command) else value if isinstance(value, tuple) else (value,)
            yield from (option for option in found if isinstance(option, Option))


def admits(option: Option, method: str) -> bool:
    """Whether a value of the option may be read so."""
    if option.value == NO:
        kinds = {"flag", "number"} if option.counted else {"flag", "text"} if option.const is not True else {"flag"}
    else:
        kinds = {"flag", "text"} if option.convert is None else {"flag", "text", "number", "numbers"}
    return method in kinds


def reads() -> Iterator[tuple[str, str, str]]:
    """Where a value is read, by which method, and its key."""
    for path in Path(cli.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    ast.Attribute(attr="flag" | "text" | "number" | "numbers" as method),
                    [ast.Constant(str() as key), *_],
                ) if not key.startswith("-"):
                    yield f"{path}:{node.lineno}", method, key


def test_a_value_is_read_as_its_table_has_it() -> None:
    by_key: dict[str, list[Option]] = {}
    for option in options():
        by_key.setdefault(option.key, []).append(option)
    found = list(reads())
    assert len(found) > 300
    bad = [
        f"{where}: {method}({key!r})"
        for where, method, key in found
        if key not in SET_LATER and not any(admits(option, method) for option in by_key.get(key, ()))
    ]
    assert not bad
