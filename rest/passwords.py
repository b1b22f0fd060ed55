"""Login by a password: asks `penstock pamd`, a helper of root on this machine, which has the controller make a token.

    POST /web/login {"user": ..., "password": ...}

This daemon neither checks passwords nor makes tokens, and keeps neither: the answer is a token of that user, whose session is
made as one of any other token (sessions.py).
"""

import asyncio
from typing import Final

from penstock.passwordlogin import (
    ADDRESS_CHARS_MAX,
    ANSWER_BYTES_MAX,
    LoginAnswer,
    LoginQuestion,
    answer_of,
    encode,
    why_no_question,
)
from penstock.security.credentials import peer_credentials
from rest.answers import RestError

#: Time for an answer: that of a check, of the pause after a refusal, and of the controller.
ANSWER_TIMEOUT_S: Final = 25.0
#: Questions of this daemon at a time.
QUESTIONS_MAX: Final = 64
AWAY: Final = "logins by password are not possible now: penstock pamd does not answer; log in with a token"
_STATUSES: Final = {"no": 401, "closed": 403, "busy": 429, "broken": 503}


class PasswordLogin:
    """Logins by the helper at one socket. Belongs to the loop's thread."""

    def __init__(self, path: str, owner: int = 0) -> None:
        """`owner`: the uid that the helper must have."""
        self._path = path
        self._owner = owner
        self._asking = 0

    async def token(self, name: str, password: str, address: str) -> str:
        """The token of this user. `address`: the browser's machine. Raises RestError."""
        if why := why_no_question(name, password):
            raise RestError(422, 9202, why, source="#/user")
        if self._asking >= QUESTIONS_MAX:
            raise RestError(429, 0, f"{QUESTIONS_MAX} passwords are being checked", retry_after_s=2)
        self._asking += 1
        try:
            answer = await self._ask(LoginQuestion(name, password, address[:ADDRESS_CHARS_MAX]))
        finally:
            self._asking -= 1
        if answer.status == "yes":
            return answer.token
        raise RestError(_STATUSES[answer.status], 0, answer.text, retry_after_s=answer.retry_after_s)

    async def _ask(self, question: LoginQuestion) -> LoginAnswer:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=ANSWER_BYTES_MAX)
                try:
                    if peer_credentials(writer.get_extra_info("socket")).uid != self._owner:
                        raise RestError(503, 0, AWAY, retry_after_s=5)  # no helper of root's: it gets no password
                    writer.write(encode(question))
                    await writer.drain()
                    return answer_of(await reader.readuntil(b"\n"))
                finally:
                    writer.close()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise RestError(503, 0, AWAY, retry_after_s=5) from error
