"""--mail-type: on which events of a job its user gets mail, as Slurm's words.

`ALL` stands for BEGIN, END, FAIL, INVALID_DEPEND, REQUEUE and STAGE_OUT; `NONE` takes back what stands beside it.
ARRAY_TASKS is no event: with it, each task of an array is told of, without it the array as a whole.
"""

from penstock.values.errors import BadValue
from penstock.values.text import shown

#: Percent of the time limit by word.
TIME_LIMITS = {"TIME_LIMIT_50": 50, "TIME_LIMIT_80": 80, "TIME_LIMIT_90": 90, "TIME_LIMIT": 100}
MAIL_TYPES = ("INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", *reversed(TIME_LIMITS), "STAGE_OUT", "ARRAY_TASKS")
ALL = ("INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT")
_TEXT_MAX = 1024


def parse_mail_types(text: str) -> tuple[str, ...]:
    """The words in one order, each once; () = no mail. Raises BadValue."""
    words = [word.strip().upper() for word in text[:_TEXT_MAX].split(",")] if text else []
    for word in words:
        if word not in MAIL_TYPES and word not in ("ALL", "NONE"):
            raise BadValue(f"Invalid mail type {shown(word)}: write {', '.join(('NONE', 'ALL', *MAIL_TYPES))}")
    if "NONE" in words:
        return ()
    found = {*words, *(ALL if "ALL" in words else ())}
    return tuple(word for word in MAIL_TYPES if word in found)


def parse_mail_user(text: str) -> str:
    """An address or a user's name: one word that no mail program takes for an option. Raises BadValue."""
    if text.startswith("-") or any(character.isspace() or not character.isprintable() for character in text):
        raise BadValue(f"Invalid mail user {shown(text)}: write a user name or an address")
    if len(text) > _TEXT_MAX:
        raise BadValue(f"mail user has {len(text)} characters, the limit is {_TEXT_MAX}")
    return text
