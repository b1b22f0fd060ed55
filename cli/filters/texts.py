"""A command's options as texts by their long names, as filters see them, and texts as options again.

The texts are those of `sbatch -v`. A flag that is set is "set"; a text that says no unsets it. A name that the command does
not have is ignored: one filter serves three commands.
"""

from collections.abc import Mapping
from typing import Final

from cli.base.options import MAYBE, NO, Command, Option, OptionValues, flag_is_on, parse
from cli.jobs.defined import option_text
from cli.jobs.jobrequest import merge

SET: Final = "set"
_ON: Final = frozenset((SET, "true", "y", "on"))


def texts_of(command: Command, values: OptionValues) -> dict[str, str]:
    """Returns the options that have a value."""
    found: dict[str, str] = {}
    by_key: dict[str, list[Option]] = {}
    for option in command.options:
        by_key.setdefault(option.key, []).append(option)
    for key, value in values.items():
        if options := by_key.get(key):
            option = _named(options, value)
            found[option.name] = SET if option.value == NO and not option.counted else option_text(values, key)
    return found


def _named(options: list[Option], value: object) -> Option:
    """Returns the one of several options for the same value by which it can be given."""
    constant = (option for option in options if option.value == NO and option.const == value)
    with_value = (option for option in options if option.value != NO)
    return next(constant, None) or next(with_value, options[0])


def with_changes(command: Command, values: OptionValues, changes: Mapping[str, str | None]) -> OptionValues:
    """Returns the values with a filter's changes; None removes one. Raises CommandError, as for a command line."""
    by_name = {option.name: option for option in command.options}
    kept = OptionValues(values)
    words: list[str] = []
    for name, text in changes.items():
        option = by_name.get(name)
        if option is None:
            continue
        is_flag = option.value == NO
        if text is None or (is_flag and not (text.lower() in _ON or flag_is_on(text))):
            kept.pop(option.key, None)
        elif is_flag or (text in ("", SET) and option.value == MAYBE):
            words.append(f"--{name}")
        else:
            words.append(f"--{name}={text}")
    return merge(kept, parse(command, words).values)
