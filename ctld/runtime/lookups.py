"""Looks up users and groups: the only way to the system's databases for what the controller is asked.

    caller -> FairThreads -> a helper process (lookuphelper.py) -> pwd, grp -> NSS modules

Rules
    - A name is checked before it leaves this process (penstock/values/names.py).
    - A helper answers one question at a time, so the one at which it dies is known. It is asked once more, of another
      helper; then the question has failed, and the next one is asked as if nothing had been.
    - An answer takes at most ANSWER_S; then its helper is killed. A slow LDAP server delays the user who asked, and no other.
    - What authenticates has helpers and threads of its own: names that callers send cannot occupy them.
    - Users take turns (fair.py), and have at most QUESTIONS_MAX questions that wait.

One helper of each kind is started with the controller, the others when they are needed. Deliberately absent: caches
(rpc/gate/users.py, auth.py).
"""

from queue import LifoQueue
from typing import Final, TypeVar

import msgspec

from ctld.runtime import lookuphelper
from ctld.runtime.errors import BadRequest
from ctld.runtime.fair import FairThreads
from ctld.runtime.helperprocess import HelperFailed, HelperProcess
from ctld.runtime.programs import UserIdentity
from penstock.values.names import why_no_login
from penstock.values.refusals import TEXT, Code

T = TypeVar("T")
#: Helpers of each kind.
AUTHENTICATION_HELPERS: Final = 4
NAME_HELPERS: Final = 2
#: Names of one user that wait to be looked up; a command has one at a time.
QUESTIONS_MAX: Final = 256
#: Time limit of one answer: beyond what a slow LDAP server takes, below what a caller waits.
ANSWER_S: Final = 10.0
#: A group of 100,000 members has 1 MiB.
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
#: How often a question is asked.
TRIES: Final = 2


class LookupFailed(BadRequest):
    """The system's databases did not answer: whether there is such a user is not known."""

    def __init__(self, why: str) -> None:
        super().__init__(Code.BUSY, f"{TEXT[Code.BUSY]}: the system's user database has not answered: {why}")


class Account(msgspec.Struct, frozen=True, array_like=True):
    """A user as the system knows them."""

    name: str
    gid: int
    groups: tuple[tuple[int, str], ...]  # (gid, name), the primary one and all others


class _Helpers:
    """Helpers of one kind, and the threads that wait for them."""

    def __init__(self, what: str, number: int, program: str, answer_s: float) -> None:
        self._threads = FairThreads(what, number, QUESTIONS_MAX)
        self._free: LifoQueue[HelperProcess] = (
            LifoQueue()
        )  # the last one used comes first: the others need not be started
        self._all = tuple(HelperProcess(program, answer_s, ANSWER_BYTES_MAX, TRIES) for _ in range(number))
        for helper in self._all:
            self._free.put(helper)

    def start(self) -> None:
        """Starts the first one. Raises OSError."""
        self._all[-1].start()

    def stop(self) -> None:
        """Ends all of them. A question in progress fails."""
        for helper in self._all:
            helper.close()

    async def ask(self, for_uid: int, question: bytes) -> bytes:
        """Returns the answer, when it is the user's turn. Raises BadRequest."""
        return await self._threads.ask(for_uid, self._ask, lambda: question)

    def _ask(self, question: bytes) -> bytes:
        helper = self._free.get_nowait()  # there are as many as threads
        try:
            return helper.ask(question)
        except HelperFailed as error:
            raise LookupFailed(str(error)) from None
        finally:
            self._free.put(helper)


class Lookups:
    """The look-ups of one controller. Belongs to one event loop. All methods raise LookupFailed, and BadRequest for a user
    with too many questions. `for_uid`: the uid whose turn it takes."""

    def __init__(self, program: str = lookuphelper.__file__, answer_s: float = ANSWER_S) -> None:
        """`program`: of the helpers."""
        self._authentication = _Helpers("users to authenticate", AUTHENTICATION_HELPERS, program, answer_s)
        self._names = _Helpers("names to look up", NAME_HELPERS, program, answer_s)

    def start(self) -> None:
        """Starts a helper of each kind, while there is certainly room for one. Raises OSError."""
        self._authentication.start()
        self._names.start()

    def stop(self) -> None:
        """Ends the helpers."""
        self._authentication.stop()
        self._names.stop()

    # ---- of those who call -----------------------------------------------------------------------------------------

    async def account(self, uid: int) -> Account | None:
        """Returns the user of a uid that the kernel or a token has reported; None for an unknown one."""
        return await _asked(self._authentication, uid, Account, "account", uid)

    async def caller_uid(self, name: str, for_uid: int) -> int | None:
        """Returns the uid of a user that a token names; None for an unknown one."""
        return None if why_no_login(name) else await _asked(self._authentication, for_uid, int, "uid_of", name)

    async def group_name(self, gid: int, for_uid: int) -> str | None:
        """Returns a group's name; None for an unknown one."""
        return await _asked(self._authentication, for_uid, str, "group_name", gid)

    # ---- of what they call -----------------------------------------------------------------------------------------

    async def uid_of(self, name: str, for_uid: int) -> int | None:
        """Returns the uid of a user; None for an unknown one."""
        return None if why_no_login(name) else await _asked(self._names, for_uid, int, "uid_of", name)

    async def name_of(self, uid: int, for_uid: int) -> str | None:
        """Returns the name of a uid; None for an unknown one."""
        return await _asked(self._names, for_uid, str, "name_of", uid)

    async def members(self, group: str, for_uid: int) -> tuple[int, ...] | None:
        """Returns the uids of a group's listed members; None for an unknown one."""
        return None if why_no_login(group) else await _asked(self._names, for_uid, tuple[int, ...], "members", group)

    # ---- of programs -----------------------------------------------------------------------------------------------

    async def identity(self, name: str, for_uid: int) -> UserIdentity | None:
        """Returns the identity of a user; None for an unknown one."""
        return None if why_no_login(name) else await _asked(self._names, for_uid, UserIdentity, "identity", name)

    async def groups(self, name: str, gid: int, for_uid: int) -> tuple[int, ...] | None:
        """Returns the gids of a user whose primary group is `gid`."""
        return None if why_no_login(name) else await _asked(self._names, for_uid, tuple[int, ...], "groups", name, gid)


async def _asked(helpers: _Helpers, for_uid: int, kind: type[T], *question: str | int) -> T | None:
    answer = await helpers.ask(for_uid, msgspec.json.encode(question))
    try:
        return msgspec.json.decode(answer, type=kind | None)
    except msgspec.DecodeError as error:
        raise LookupFailed(str(error)) from None
