"""Parses --mail-type and --mail-user: the job events that send mail, in Slurm's words, and the recipient's address.

`ALL` stands for BEGIN, END, FAIL, INVALID_DEPEND, REQUEUE and STAGE_OUT; `NONE` cancels the words beside it.
ARRAY_TASKS is no event: with it, each task of an array sends mail, without it the array as a whole.

An address becomes an argument of a mail program, and mail programs interpret addresses: `|PROGRAM` is run, `/PATH` and
`+FOLDER` are written to, `-X` is an option, and commas, quotes and brackets make several addresses or comments. So the
check is a list of what is allowed: USER or USER@HOST of letters, digits and a few other characters.
"""

import re

from penstock.values.errors import BadValue
from penstock.values.text import shown

#: Percentage of the time limit by word.
TIME_LIMITS = {"TIME_LIMIT_50": 50, "TIME_LIMIT_80": 80, "TIME_LIMIT_90": 90, "TIME_LIMIT": 100}
MAIL_TYPES = ("INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", *reversed(TIME_LIMITS), "STAGE_OUT", "ARRAY_TASKS")
ALL = ("INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT")
_TEXT_MAX = 1024
#: The limits of SMTP (RFC 5321, 4.5.3.1): of the part before the @, and of a host name.
_USER_MAX, _HOST_MAX = 64, 253
_USER = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.+-]{{0,{_USER_MAX - 1}}}", re.ASCII)
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)


def parse_mail_types(text: str) -> tuple[str, ...]:
    """Parses the words; returns each once, in a fixed order; () = no mail. Raises BadValue."""
    words = [word.strip().upper() for word in text[:_TEXT_MAX].split(",")] if text else []
    for word in words:
        if word not in MAIL_TYPES and word not in ("ALL", "NONE"):
            raise BadValue(f"Invalid mail type {shown(word)}: write {', '.join(('NONE', 'ALL', *MAIL_TYPES))}")
    if "NONE" in words:
        return ()
    found = {*words, *(ALL if "ALL" in words else ())}
    return tuple(word for word in MAIL_TYPES if word in found)


def is_mail_address(text: str) -> bool:
    """Whether `text` is USER or USER@HOST and nothing else."""
    user, at, host = text.partition("@")
    return bool(_USER.fullmatch(user)) and (not at or (len(host) <= _HOST_MAX and bool(_HOST.fullmatch(host))))


def parse_mail_user(text: str) -> str:
    """Parses an address or a user's name; "" = the job's owner. Raises BadValue."""
    if text and not is_mail_address(text):
        raise BadValue(
            f"Invalid mail user {shown(text)}: write a user name or USER@HOST, of letters, digits, '_', '.', '+' and '-'"
        )
    return text
