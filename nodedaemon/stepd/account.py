"""Looks up users in this node's user database, at most once a second for the same user.

A stepd serves many steps of one user in a row, and each needs the account and the groups. A change of either counts for
steps that start a second later.
"""

import os
import pwd
import time

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

KEPT_S = 1.0


class _Answer:
    """The last answer to one kind of question."""

    __slots__ = ("answer", "at_s", "question")

    def __init__(self) -> None:
        self.question: object = None
        self.answer: object = None
        self.at_s = 0.0

    def of(self, question: object, ask: "Callable[[], T]") -> "T":
        """Returns the answer of less than a second ago, or a new one. A failure is not kept."""
        now_s = time.monotonic()
        if question != self.question or now_s - self.at_s > KEPT_S:
            self.answer = ask()
            self.question = question
            self.at_s = now_s
        answer: T = self.answer  # type: ignore[assignment]  # the same question has an answer of the same type
        return answer


_account, _groups = _Answer(), _Answer()


def account_of(uid: int) -> pwd.struct_passwd:
    """The user's entry. Raises KeyError."""
    return _account.of(uid, lambda: pwd.getpwuid(uid))


def groups_of(name: str, gid: int) -> list[int]:
    """The groups of a user whose primary one is `gid`."""
    return _groups.of((name, gid), lambda: os.getgrouplist(name, gid))
