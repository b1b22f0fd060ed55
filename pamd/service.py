"""Answers questions about logins: grammar, budgets, PAM, a token. No I/O: what it asks, its clock and its pause are given.

Every refusal of PAM leaves after a pause that depends on nothing but the time that PAM took, rounded up to REFUSAL_S: a wrong
password, an unknown name, a locked account and a name that may not log in have the same answer after the same time.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from pamd.budgets import LoginBudgets
from penstock.errors import PenstockError
from penstock.passwordlogin import LoginAnswer, LoginQuestion, question_of

log = logging.getLogger("pamd")
#: Refusals leave at multiples of this time after their question.
REFUSAL_S: Final = 3.0
#: Questions that are checked, or whose refusal waits, at a time.
WAITING_MAX: Final = 64
#: Children that ask PAM at a time: each may take a core for some 100 ms.
CHILDREN_MAX: Final = 8
BUSY_S: Final = 2

WRONG: Final = "the name or the password is not right"
BROKEN: Final = "passwords cannot be checked now: an administrator finds the reason in the log of penstock pamd"
EXPIRED: Final = "this password has expired: change it where you log in to the cluster (passwd), and log in again"
ACCOUNT_EXPIRED: Final = "this account has expired: ask your administrator"
NOT_HERE: Final = "this account may not log in here now: ask your administrator"
TOO_OFTEN: Final = "too many logins have failed: wait, or log in with a token"
BUSY: Final = "too many logins are being checked: try again"

_TEXTS: Final = {
    "no": WRONG, "expired": EXPIRED, "account expired": ACCOUNT_EXPIRED, "not here": NOT_HERE, "broken": BROKEN,
}  # fmt: skip


class PamVerdict(NamedTuple):
    """What PAM says of a login: yes, no, expired, account expired, not here, broken. `why`: for the log."""

    word: str
    why: str = ""
    is_known: bool = False  # the name is a user's; a name that is none may be a password in the wrong field


class PasswordService:
    """Answers questions. Belongs to the loop's thread."""

    def __init__(
        self,
        ask: Callable[[LoginQuestion], Awaitable[PamVerdict]],
        issue: Callable[[str], Awaitable[str]],
        clock_s: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        """`ask`: PAM. `issue`: the controller, for a token of a user; raises PenstockError."""
        self._ask = ask
        self._issue = issue
        self._clock_s = clock_s
        self._pause = pause
        self._budgets = LoginBudgets(clock_s)
        self._waiting = 0
        self._asking = 0

    async def answer(self, line: bytes) -> LoginAnswer:
        """Answers one question."""
        try:
            question = question_of(line)
        except ValueError as error:
            return LoginAnswer("broken", text=str(error))
        if self._waiting >= WAITING_MAX or self._asking >= CHILDREN_MAX:
            return LoginAnswer("busy", text=BUSY, retry_after_s=BUSY_S)
        if wait_s := self._budgets.take(question.name, question.address):
            return LoginAnswer("busy", text=TOO_OFTEN, retry_after_s=wait_s)
        self._waiting += 1
        try:
            return await self._checked(question)
        finally:
            self._waiting -= 1

    async def _checked(self, question: LoginQuestion) -> LoginAnswer:
        began_s = self._clock_s()
        self._asking += 1
        try:
            verdict = await self._ask(question)
        finally:
            self._asking -= 1
        shown = question.name if verdict.is_known else "a name that is no user's"
        if verdict.word == "yes":
            self._budgets.give_back(question.name, question.address)
            return await self._accepted(question)
        log.warning("login of %s from %s refused: %s", shown, question.address or "?", verdict.why or verdict.word)
        await self._pause(REFUSAL_S - (self._clock_s() - began_s) % REFUSAL_S)
        status = verdict.word if verdict.word in ("no", "broken") else "closed"
        return LoginAnswer(status, text=_TEXTS[verdict.word])  # type: ignore[arg-type]  # one of three words of Status

    async def _accepted(self, question: LoginQuestion) -> LoginAnswer:
        try:
            token = await self._issue(question.name)
        except PenstockError as error:
            log.error("no token for %s: %s", question.name, f"{error.text} {error.detail}".strip())
            return LoginAnswer("closed", text=f"the password is right, and the controller gives no token: {error.text}")
        log.info("login of %s from %s", question.name, question.address or "?")
        return LoginAnswer("yes", token)
