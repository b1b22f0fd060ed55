"""libpam through ctypes, for the two programs of root that ask it: a task of a job (UsePAM), and the check of a password
(`penstock pamd`). No package is needed, and nothing is loaded where neither is configured.

A handle belongs to the thread that made it. The library keeps pointers to what it was given, so the handle holds them.
"""

import ctypes
from collections.abc import Callable
from typing import Final

SUCCESS: Final = 0
#: Codes of <security/_pam_types.h>.
NEW_AUTHTOK_REQD = 12
ACCT_EXPIRED = 13
CONV_ERR = 19
AUTHTOK_EXPIRED = 27
#: Items.
USER = 2
TTY = 3
RHOST = 4
RUSER = 8
_FAIL_DELAY = 10
#: Flags.
SILENT = 0x8000
DISALLOW_NULL_AUTHTOK = 0x0001
ESTABLISH_CRED = 0x0002
#: Styles of a module's messages: a question whose answer is hidden, one whose answer is shown, and two kinds of news.
PROMPT_ECHO_OFF = 1
ERROR_MSG = 3
TEXT_INFO = 4
_MESSAGES_MAX: Final = 32  # PAM_MAX_NUM_MSG

#: Answers a message of a module by its style; None = it cannot, and the module gets an error.
ModuleAnswer = Callable[[int], bytes | None]


class PamError(Exception):
    """A call failed; the text names the service, the call and the reason. `code`: libpam's."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class _Message(ctypes.Structure):
    _fields_ = (("style", ctypes.c_int), ("text", ctypes.c_char_p))


class _Response(ctypes.Structure):
    _fields_ = (("text", ctypes.c_void_p), ("unused", ctypes.c_int))


_CONVERSATION = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.POINTER(_Message)),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
_DELAY = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


class _Conv(ctypes.Structure):
    _fields_ = (("conv", _CONVERSATION), ("appdata", ctypes.c_void_p))


def refuse(style: int) -> bytes | None:
    """Refuses a module's questions: there is no user to answer them."""
    return None


class Pam:
    """One transaction with a service. It ends with `end`, or with its process."""

    def __init__(self, service: str, user: str, answer: ModuleAnswer = refuse) -> None:
        """Raises PamError."""
        self._service = service
        self._library = _load()
        self._libc = _libc()
        self._answer = answer
        self._conv = _Conv(_CONVERSATION(self._converse), None)
        self._no_delay = _DELAY(lambda code, delay_us, data: None)
        self._handle = ctypes.c_void_p()
        start = self._library.pam_start(
            service.encode(), user.encode(), ctypes.byref(self._conv), ctypes.byref(self._handle)
        )
        self.check(start, "start")

    def set_item(self, item: int, text: str, what: str) -> None:
        """Tells modules something of the caller. Raises PamError."""
        self.check(self._library.pam_set_item(self._handle, item, text.encode()), what)

    def wait_for_nothing(self) -> None:
        """Switches off the pause that modules ask for after a failure: the caller has its own. Raises PamError."""
        self.check(self._library.pam_set_item(self._handle, _FAIL_DELAY, self._no_delay), "switch its delay off")

    def item(self, item: int) -> str:
        """Returns what modules know of the caller; "" = nothing. Raises PamError."""
        found = ctypes.c_char_p()
        self.check(self._library.pam_get_item(self._handle, item, ctypes.byref(found)), "read an item")
        return (found.value or b"").decode("utf-8", "replace")

    def call(self, function: str, flags: int = SILENT) -> int:
        """Calls pam_authenticate and the like; returns the code."""
        code: int = getattr(self._library, function)(self._handle, flags)
        return code

    def check(self, code: int, what: str) -> None:
        """Raises PamError unless the code is SUCCESS."""
        if code != SUCCESS:
            raise PamError(f"PAM service {self._service}: {what}: {self.text(code)}", code)

    def text(self, code: int) -> str:
        """The library's words for a code."""
        said: bytes | None = self._library.pam_strerror(self._handle, code)
        return (said or b"unknown error").decode("utf-8", "replace")

    def end(self, code: int) -> None:
        """Ends the transaction; `code`: what the last call returned."""
        self._library.pam_end(self._handle, code)

    def _converse(
        self, count: int, messages: "ctypes._Pointer[ctypes._Pointer[_Message]]",
        responses: "ctypes._Pointer[ctypes.c_void_p]", data: object,
    ) -> int:  # fmt: skip
        """Answers all messages, or none. What it allocates the module frees."""
        if not 0 < count <= _MESSAGES_MAX:
            return CONV_ERR
        answers = [self._answer(messages[i].contents.style) for i in range(count)]
        if None in answers:
            return CONV_ERR
        block = self._libc.calloc(count, ctypes.sizeof(_Response))
        if not block:
            return CONV_ERR
        slots = ctypes.cast(block, ctypes.POINTER(_Response))
        for i, answer in enumerate(answers):
            slots[i].text = self._libc.strdup(answer) if answer else None
        responses[0] = ctypes.c_void_p(block)
        return SUCCESS


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libpam.so.0")
    except OSError:
        raise PamError("this machine has no libpam.so.0: install PAM, or switch off what asks it") from None
    library.pam_strerror.restype = ctypes.c_char_p
    return library


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.calloc.restype = ctypes.c_void_p
    libc.calloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
    libc.strdup.restype = ctypes.c_void_p
    libc.strdup.argtypes = (ctypes.c_char_p,)
    return libc
