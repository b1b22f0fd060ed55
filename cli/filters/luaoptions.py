"""cli_filter.lua: Slurm's interface of a site's script at the options of a command, in Lua 5.4 (the extra `lua`).

    slurm_cli_setup_defaults(options, early)
    slurm_cli_pre_submit(options, component)
    slurm_cli_post_submit(component, job_id, step_id)

`options` has texts by the options' long names, and `type`: sbatch, salloc or srun. What was not given is nil; counts have
Slurm's numbers, flags "unset"; an option of the other commands is "invalid-context".
"""

import json
import os
from typing import Final

from cli.base.options import NO, Command
from cli.base.run import complain
from cli.jobs.jobopts import JOB_OPTIONS
from penstock.sitefilters.base import FilterFailed, FilterRefusal
from penstock.sitefilters.luascript import LuaConstant, LuaScript, plain

FUNCTIONS: Final = ("slurm_cli_setup_defaults", "slurm_cli_pre_submit", "slurm_cli_post_submit")
NO_VAL: Final = 0xFFFF_FFFE
INVALID_CONTEXT: Final = "invalid-context"
#: Slurm's texts of counts that were not given.
_UNSET: Final = {
    "ntasks": "1", "nodes": "1", "cpus-per-task": "1", "cpus-per-gpu": "0",
    **dict.fromkeys(("ntasks-per-node", "ntasks-per-socket", "ntasks-per-core", "sockets-per-node", "cores-per-socket",
                     "threads-per-core"), "-2"),
}  # fmt: skip
#: Slurm's text of --mem=0, all memory of a node.
_ALL_MEMORY: Final = "0?"


class LuaOptions:
    """A loaded cli_filter.lua."""

    def __init__(self, command: Command, path: str, text: str) -> None:
        """Raises FilterFailed."""
        self._command = command
        names = {option.name for option in command.options}
        flags = (option.name for option in command.options if option.value == NO)
        self._unset = {
            **{option.name: INVALID_CONTEXT for option in JOB_OPTIONS if option.name not in names},
            **dict.fromkeys(flags, "unset"), **{name: one for name, one in _UNSET.items() if name in names},
            "type": command.name,
        }  # fmt: skip
        self._stored: dict[object, object] = {}
        functions: dict[str, LuaConstant] = {
            "json_cli_options": self._json, "json_env": self._json_env, "cli_store": self._store,
            "cli_retrieve": self._stored.get,
        }  # fmt: skip
        constants = {"NO_VAL": NO_VAL, "NO_VAL8": 0xFE, "NO_VAL16": 0xFFFE, "INFINITE": 0xFFFF_FFFF}
        self._script = LuaScript(path, text, self._log, self._user, {**functions, **constants})
        self._has = self._script.functions(FUNCTIONS)
        if not self._has:
            raise FilterFailed(f"{path}: it has none of {', '.join(FUNCTIONS)}")

    def setup_defaults(self, options: dict[str, str], early: bool, component: int) -> dict[str, str | None]:
        """Returns the changes of the defaults."""
        return self._changes("slurm_cli_setup_defaults", options, early)

    def pre_submit(self, options: dict[str, str], component: int) -> dict[str, str | None]:
        """Returns the changes of the options of a component."""
        return self._changes("slurm_cli_pre_submit", options, component)

    def post_submit(self, component: int, job_id: int, step_id: int | None) -> None:
        """Tells of a job or step."""
        self._call("slurm_cli_post_submit", component, job_id, NO_VAL if step_id is None else step_id)

    def _changes(self, function: str, options: dict[str, str], more: object) -> dict[str, str | None]:
        before = {**self._unset, **options}
        if options.get("mem") == "0":
            before["mem"] = _ALL_MEMORY
        table = self._script.table(before)
        self._call(function, table, more)
        after = plain(table)
        found: dict[str, str | None] = {}
        for name, value in after.items() if isinstance(after, dict) else ():
            text = _text(name, value, self._script.path)
            if text != before.get(name):
                found[name] = None if text in ("unset", INVALID_CONTEXT) else text
        return found | {name: None for name in options if name not in found and not _has(after, name)}

    def _call(self, function: str, *values: object) -> None:
        """Calls a function that the script has. Raises FilterRefusal, FilterFailed."""
        if function in self._has and (code := self._script.call(function, *values)):
            raise FilterRefusal("", code)

    def _json(self, options: object) -> bytes:
        given = plain(options)
        pairs = given.items() if isinstance(given, dict) else ()
        return _json({name: one for name, one in pairs if name == "type" or one != self._unset.get(name)})

    def _json_env(self) -> bytes:
        return _json(dict(os.environ))

    def _store(self, key: object, value: object) -> None:
        self._stored[key] = value

    def _log(self, text: bytes, level: bytes) -> None:
        name, words = self._command.name, text.decode("utf-8", "replace")
        if level == b"error":
            complain(name, f"lua: {words}")
        elif level == b"info":
            complain(name, f"{name}: lua: {words}", plain=True)

    def _user(self, text: bytes, level: object = None) -> None:
        complain(self._command.name, f"{self._command.name}: {text.decode('utf-8', 'replace')}", plain=True)


def _has(after: object, name: str) -> bool:
    return isinstance(after, dict) and name in after


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _text(name: str, value: object, path: str) -> str:
    """Returns a value that a script has set as an option's text. Raises FilterFailed."""
    if isinstance(value, bool):
        return "set" if value else "unset"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise FilterFailed(f"{path}: options[{name!r}] is neither a text nor a number")
