"""A PAM session of the user, opened in the task's own process before it gives up root (UsePAM=1).

pam_limits then sets the process's resource limits, pam_env and the like do their work. The service is `slurm`
(/etc/pam.d/slurm), as on Slurm. The session is not closed: the process that opened it becomes the user's program. So
modules that undo something at a session's end do not get to it; the extern step's epilog is the place for that.

Reached through ctypes, only where it is asked for; no package is needed.
"""

import ctypes

SERVICE = b"slurm"
_PAM_SUCCESS, _PAM_CONV_ERR = 0, 19
_PAM_RUSER = 8
_PAM_SILENT, _PAM_ESTABLISH_CRED = 0x8000, 0x0002


class PamError(Exception):
    """The session cannot be opened; the text says at what and why."""


_CONVERSATION = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)


class _Conv(ctypes.Structure):
    _fields_ = (("conv", _CONVERSATION), ("appdata", ctypes.c_void_p))


def _refuse(count: int, messages: object, responses: object, data: object) -> int:
    """Nobody is there to answer a module's question."""
    return _PAM_CONV_ERR


_REFUSE = _CONVERSATION(_refuse)


def open_session(user_name: str) -> None:
    """For the rest of the calling process's life. Raises PamError."""
    pam = _library()
    handle = ctypes.c_void_p()
    conv = _Conv(_REFUSE, None)
    _check(pam, None, pam.pam_start(SERVICE, user_name.encode(), ctypes.byref(conv), ctypes.byref(handle)), "start")
    _check(pam, handle, pam.pam_set_item(handle, _PAM_RUSER, user_name.encode()), "set the user")
    _check(pam, handle, pam.pam_setcred(handle, _PAM_SILENT | _PAM_ESTABLISH_CRED), "set credentials")
    _check(pam, handle, pam.pam_open_session(handle, _PAM_SILENT), "open the session")


def _library() -> ctypes.CDLL:
    try:
        pam = ctypes.CDLL("libpam.so.0")
    except OSError:
        raise PamError("UsePAM=1, but this node has no libpam.so.0: install PAM or set UsePAM=0") from None
    pam.pam_strerror.restype = ctypes.c_char_p
    return pam


def _check(pam: ctypes.CDLL, handle: ctypes.c_void_p | None, code: int, what: str) -> None:
    if code != _PAM_SUCCESS:
        text = pam.pam_strerror(handle, code) or b"unknown error"
        raise PamError(f"PAM service {SERVICE.decode()}: {what}: {text.decode('utf-8', 'replace')}")
