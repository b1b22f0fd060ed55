"""sacctmgr without a keyword: a line at a time (cli/base/prompt.py), with the same keywords as on the command line.

`exit`, `quit`, `\\q` and the end of the input end it; `quiet`, `verbose`, `readonly`, `oneliner`, `parsable`, `parsable2`,
`noheader`, `immediate` and `associations` toggle what the options of these names turn on.
"""

from cli.accounts.keywords import NAME, do, find_keyword
from cli.base import prompt
from cli.base.options import OptionValues
from cli.base.run import CommandError

_SWITCHES = (
    "associations",
    "immediate",
    "noheader",
    "oneliner",
    "parsable",
    "parsable2",
    "quiet",
    "readonly",
    "verbose",
)
_LEAST_SWITCH = 2


def read_lines(options: OptionValues) -> int:
    """Reads lines until the end; returns the status."""
    return prompt.read_lines(NAME, lambda words: _do(words, options), _ends)


def _ends(line: str) -> bool:
    low = line.lower()
    return low in ("\\q", "exit", "quit", "qui") or "exit".startswith(low)


def _do(words: list[str], options: OptionValues) -> int:
    low = words[0].lower()
    for name in _SWITCHES:
        if low == name or (len(low) > _LEAST_SWITCH and name.startswith(low) and not _is_keyword(low)):
            if len(words) > 1:
                raise CommandError(f"too many arguments for keyword:{words[0]}", plain=True)
            options[name] = 1 if name == "verbose" else True
            return 0
    if low in ("exit", "quit"):
        raise CommandError(f"too many arguments for keyword:{low}", plain=True)
    return do(words, options)


def _is_keyword(word: str) -> bool:
    try:
        find_keyword(word)
    except CommandError:
        return False
    return word not in ("associations",)
