"""--helpformat, --helpFormat, --helpstate and --helpreason: what a command's options accept."""

from collections.abc import Iterable

from cli.base.options import OptionValues

LETTERS_PER_LINE = 8
NAMES_PER_LINE = 4


def asked_lines(
    options: OptionValues, letters: Iterable[str], names: Iterable[str], states: Iterable[str]
) -> list[str]:
    """The lines of --helpstate, --helpformat and --helpFormat; none without them."""
    if options.flag("helpstate"):
        return name_lines(states)
    if options.flag("helpformat"):
        return letter_lines(sorted(letters))
    return name_lines(sorted(names)) if options.flag("helpFormat") else []


def letter_lines(letters: Iterable[str]) -> list[str]:
    """The letters of -o: `%a %b ...`."""
    shown = [f"%{letter}" for letter in letters]
    return [" ".join(shown[at : at + LETTERS_PER_LINE]) for at in range(0, len(shown), LETTERS_PER_LINE)]


def name_lines(names: Iterable[str], width: int = 19) -> list[str]:
    """Names in columns."""
    shown = [f"{name:<{width}}" for name in names]
    return [" ".join(shown[at : at + NAMES_PER_LINE]) for at in range(0, len(shown), NAMES_PER_LINE)]
