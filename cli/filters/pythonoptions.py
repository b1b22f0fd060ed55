"""A site's filter of options in Python: penstock/clifilter.py is what it imports.

setup_defaults(options, call)
pre_submit(options, call)
post_submit(call)
"""

from typing import Final

from cli.base.options import Command
from cli.base.run import complain
from penstock.clifilter import CommandCall
from penstock.sitefilters.base import FilterFailed
from penstock.sitefilters.pythonscript import PythonScript
from penstock.submitfilter import take_messages

FUNCTIONS: Final = ("setup_defaults", "pre_submit", "post_submit")


class PythonOptions:
    """A loaded filter."""

    def __init__(self, command: Command, path: str, text: str) -> None:
        """Raises FilterFailed, FilterRefusal."""
        self._name = command.name
        self._script = PythonScript(path, text)
        self._functions = self._script.functions(FUNCTIONS)
        if not self._functions:
            raise FilterFailed(f"{path}: it has none of {', '.join(FUNCTIONS)}")

    def setup_defaults(self, options: dict[str, str], early: bool, component: int) -> dict[str, str | None]:
        """Returns the changes of the defaults."""
        return {} if early else self._changes("setup_defaults", options, CommandCall(self._name, component))

    def pre_submit(self, options: dict[str, str], component: int) -> dict[str, str | None]:
        """Returns the changes of the options of a component."""
        return self._changes("pre_submit", options, CommandCall(self._name, component))

    def post_submit(self, component: int, job_id: int, step_id: int | None) -> None:
        """Tells of a job or step."""
        self._call("post_submit", CommandCall(self._name, component, job_id, step_id))

    def _changes(self, function: str, options: dict[str, str], call: CommandCall) -> dict[str, str | None]:
        after: dict[str, object] = dict(options)
        self._call(function, after, call)
        found: dict[str, str | None] = dict.fromkeys(name for name in options if after.get(name) is None)
        for name, value in after.items():
            if value is None or value == options.get(name):
                continue
            if not isinstance(value, str | int):
                raise FilterFailed(f"{self._script.path}: options[{name!r}] is no text: {type(value).__name__}")
            found[name] = ("set" if value else None) if isinstance(value, bool) else str(value)
        return found

    def _call(self, function: str, *values: object) -> None:
        """Calls a function that the script has; shows its lines. Raises FilterRefusal, FilterFailed."""
        if function not in self._functions:
            return
        take_messages()
        try:
            self._script.call(self._functions[function], *values)
        finally:
            for line in take_messages():
                complain(self._name, f"{self._name}: {line}", plain=True)
