"""The errors that a caller of Penstock may get: one small hierarchy, raised at the edge and nowhere else.

`code` is a refusal's number (`penstock.values.refusals.Code`, or one of the two transport numbers below), `text` is
what a user reads after `command: error: `, `detail` is a further line for who wants to know more (it may be empty).
Nothing here knows gRPC; `penstock.calls` translates.
"""

from typing import Final

#: Slurm's numbers for a controller that cannot be reached and for one that does not answer.
CONNECT_FAILURE: Final = 1800
RECEIVE_FAILURE: Final = 1802

CONNECT_FAILURE_TEXT: Final = "Unable to contact slurm controller (connect failure)"
RECEIVE_FAILURE_TEXT: Final = "Socket timed out on send/recv operation"

#: Exit status of a program whose configuration, keys or certificates cannot be used (sysexits' EX_CONFIG).
EXIT_CONFIG: Final = 78


class PenstockError(Exception):
    """A request was refused, or could not be made."""

    def __init__(self, code: int, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.code = int(code)
        self.text = text
        self.detail = detail


class Unreachable(PenstockError):
    """The controller could not be reached, or did not answer, in the time given."""

    def __init__(self, text: str = CONNECT_FAILURE_TEXT, detail: str = "", code: int = CONNECT_FAILURE) -> None:
        super().__init__(code, text, detail)


class NotKnown(Unreachable):
    """The request was sent and not answered: it may have been carried out. `detail` says what to do."""


class NotProven(PenstockError):
    """The controller does not accept the caller's proof: a token that is not valid, has ended, or is another user's."""


class BadSetup(PenstockError):
    """A key, certificate or folder of this machine cannot be used: a daemon prints the text and exits with 78."""

    def __init__(self, text: str) -> None:
        from penstock.values.refusals import Code

        super().__init__(Code.CONFIG_INVALID, text)
        self.exit_status = EXIT_CONFIG
