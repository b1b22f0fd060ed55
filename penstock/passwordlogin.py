"""What the REST daemon and `penstock pamd` say to each other over a Unix socket: one question and one answer for each
connection, each a line of JSON of bounded length. Pure: no I/O.

    {"name": "ann", "password": "...", "address": "10.0.0.7"}
    {"status": "yes", "token": "eyJ...", "text": "", "retry_after_s": 0}

The password is in no other place: not in an argument, the environment, a file or a log.
"""

import re
from typing import Final, Literal

import msgspec

#: The longest question: each byte of a password may take six as JSON.
QUESTION_BYTES_MAX: Final = 8 * 1024
#: The longest answer: it has a token.
ANSWER_BYTES_MAX: Final = 16 * 1024
NAME_CHARS_MAX: Final = 64
PASSWORD_BYTES_MAX: Final = 512
ADDRESS_CHARS_MAX: Final = 64
#: Names of logins, those of a domain (ann@example.org) too; a number would be taken for a uid.
_NAME: Final = re.compile(r"(?!\d+\Z)[A-Za-z0-9_][A-Za-z0-9_.@-]*\Z")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9_.:%/-]*\Z")

#: yes: `token` is there; no: name or password are wrong; closed: they are right, and `text` says why there is no login
#: nevertheless; busy: ask again in `retry_after_s`; broken: no password can be checked now.
Status = Literal["yes", "no", "closed", "busy", "broken"]


class LoginQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A login. `address`: the browser's machine, as the REST daemon knows it; for budgets, and PAM's rhost."""

    name: str
    password: str
    address: str

    def __repr__(self) -> str:
        """Without the password."""
        return f"LoginQuestion({self.name!r}, address={self.address!r})"


class LoginAnswer(msgspec.Struct, frozen=True):
    """What became of it."""

    status: Status
    token: str = ""
    text: str = ""
    retry_after_s: int = 0


def why_no_question(name: str, password: str) -> str:
    """Why nobody is asked about this login; "" = PAM may be asked."""
    if not name or len(name) > NAME_CHARS_MAX or not _NAME.match(name):
        return f"a name has at most {NAME_CHARS_MAX} letters, digits and any of _ . - @"
    # a surrogate, which no browser sends, has three bytes here and is refused by what reads UTF-8
    if len(password) > PASSWORD_BYTES_MAX or len(password.encode("utf-8", "surrogatepass")) > PASSWORD_BYTES_MAX:
        return f"a password has at most {PASSWORD_BYTES_MAX} bytes"
    if not password or "\0" in password:
        return "a password has at least one character, and no NUL"
    return ""


def encode(message: LoginQuestion | LoginAnswer) -> bytes:
    """The message as a line."""
    return msgspec.json.encode(message) + b"\n"


def question_of(line: bytes) -> LoginQuestion:
    """Reads a question. Raises ValueError, whose text repeats nothing of the line."""
    try:
        found = msgspec.json.decode(line, type=LoginQuestion)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ValueError("no question in JSON") from None
    if why := why_no_question(found.name, found.password):
        raise ValueError(why)
    if len(found.address) > ADDRESS_CHARS_MAX or not _ADDRESS.match(found.address):
        raise ValueError("the address is none")
    return found


def answer_of(line: bytes) -> LoginAnswer:
    """Reads an answer. Raises ValueError."""
    try:
        return msgspec.json.decode(line, type=LoginAnswer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"no answer in JSON: {error}") from error
