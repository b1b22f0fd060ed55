"""What filters in Python and in Lua share, in the process that runs them: how they refuse and fail, and a filter's lines
for the controller's log."""

from typing import Final

from penstock.submitfilter import MESSAGE_CHARS_MAX, MESSAGES_MAX

#: Longest description of a filter's error.
ERROR_CHARS_MAX: Final = 500

_notes: list[str] = []


def note(text: str) -> None:
    """Writes a line of a filter to the controller's log, with the answer."""
    if len(_notes) < MESSAGES_MAX:
        _notes.append(text[:MESSAGE_CHARS_MAX])


def take_notes() -> list[str]:
    """Returns the lines of this call, and forgets them."""
    found = list(_notes)
    _notes.clear()
    return found


class FilterFailed(Exception):
    """A filter is wrong: its text, or what it has done in a call. The text names its line."""


class FilterRefusal(Exception):
    """A filter has refused the request. `code`: a number of Slurm's; 0 = its general error."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code
