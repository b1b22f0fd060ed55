"""A site's script in Lua 5.4, run by lupa (the extra `lua`): its text, its table `slurm`, and calls of its functions.

Values are plain tables, texts and numbers. Texts are bytes in Lua, and may be any (surrogateescape). The script has all of
Lua's libraries, as in Slurm: it runs as the user of its process. It has no access to Python's objects.
"""

import os
from collections.abc import Callable, ItemsView, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, cast

from lupa.lua54 import LuaError, LuaRuntime, LuaSyntaxError, lua_type

from penstock.sitefilters.base import ERROR_CHARS_MAX, FilterFailed

#: What `slurm` has for a script: numbers, and functions that are called with Lua's values.
LuaConstant: TypeAlias = int | Callable[..., object]
_PRELUDE: Final = b"""
local log, user = ...
local function formatted(to, level)
    return function(text, ...)
        if select("#", ...) > 0 then text = string.format(text, ...) end
        to(tostring(text), level)
    end
end
slurm = {SUCCESS = 0, ERROR = -1, FAILURE = -1}
for _, level in ipairs({"info", "error", "verbose", "debug", "debug2", "debug3", "debug4"}) do
    slurm["log_" .. level] = formatted(log, level)
    slurm[level] = slurm["log_" .. level]
end
slurm.log_user = formatted(user)
slurm.user_msg = slurm.log_user
io.stdout:setvbuf("line")
setmetatable(slurm, {__index = function(_, name)
    if type(name) == "string" and name:sub(1, 7) == "ESLURM_" then return -1 end
end})
unpack = table.unpack
python, package.loaded.python = nil
"""


class _LuaTable(Protocol):
    """A table of Lua."""

    def __getitem__(self, key: bytes) -> object: ...
    def __iter__(self) -> Iterator[object]: ...
    def items(self) -> ItemsView[object, object]:
        """Returns its pairs."""


class LuaScript:
    """A loaded script. `log`, `user`: take its lines, (text, level), as bytes."""

    def __init__(
        self, path: str, text: str, log: Callable[..., None], user: Callable[..., None],
        constants: Mapping[str, LuaConstant],
    ) -> None:  # fmt: skip
        """Raises FilterFailed."""
        self.path = path
        self._lua = LuaRuntime(
            encoding=None, register_eval=False, register_builtins=False, unpack_returned_tuples=True,
            attribute_filter=_no_attributes,
        )  # fmt: skip
        self._lua.execute(_PRELUDE, log, user)
        self._globals = self._lua.globals()
        slurm = self._globals[b"slurm"]
        for name, value in constants.items():
            slurm[name.encode()] = value
        try:
            self._lua.execute(text.encode("utf-8", "surrogateescape"), name=f"@{os.path.basename(path)}".encode())
        except (LuaError, LuaSyntaxError) as error:
            raise FilterFailed(self._described(error)) from None

    def functions(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Returns those of the names that are functions of the script."""
        return tuple(name for name in names if lua_type(self._globals[name.encode()]) == "function")

    def call(self, function: str, *values: object) -> int:
        """Calls a function with values of Lua's. Returns its number; 0 = slurm.SUCCESS. Raises FilterFailed."""
        try:
            code = self._globals[function.encode()](*values)
        except LuaError as error:
            raise FilterFailed(self._described(error)) from None
        if isinstance(code, tuple):
            code = code[0] if code else None
        if isinstance(code, bool) or not isinstance(code, (int, float)):
            raise FilterFailed(f"{self.path}: {function} returned no number")
        return int(code)

    def table(self, value: object) -> object:
        """Returns a value as Lua's."""
        if isinstance(value, dict):
            return self._lua.table_from({_bytes(str(key)): self.table(one) for key, one in value.items()})
        if isinstance(value, list):
            return self._lua.table_from([self.table(one) for one in value])
        return _bytes(value) if isinstance(value, str) else value

    def _described(self, error: Exception) -> str:
        text = error.args[0] if error.args else b""
        shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        shown = shown.split("\nstack traceback:")[0].removeprefix("error loading code: ")
        name = os.path.basename(self.path)  # Lua cuts longer names of chunks
        shown = shown.replace(f"{name}:", f"{self.path}:")
        return (shown if self.path in shown else f"{self.path}: {shown}")[:ERROR_CHARS_MAX]


def _no_attributes(value: object, name: object, is_setting: bool) -> object:
    """Lets Lua see nothing of Python's objects."""
    raise AttributeError("access denied")


def plain(value: object) -> object:
    """Returns a value of Lua's as Python's."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if lua_type(value) == "table":
        return {str(plain(key)): plain(one) for key, one in cast("_LuaTable", value).items()}
    return value


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
