"""A PAM session of the user, opened in the task's own process before it gives up root (UsePAM=1).

pam_limits then sets the process's resource limits, and so on for other modules. The service is `slurm`
(/etc/pam.d/slurm), as in Slurm. The session is not closed: the process that opened it becomes the user's program. So
modules do not run their cleanup at the session's end; use the extern step's epilog for that.

Called through ctypes, only where it is configured; no package is needed.
"""

import ctypes

SERVICE = b"slurm"
_PAM_SUCCESS, _PAM_CONV_ERR = 0, 19
_PAM_RUSER = 8
_PAM_SILENT, _PAM_ESTABLISH_CRED = 0x8000, 0x0002


class PamError(Exception):
    """The session cannot be opened; the text names the call and the reason."""


_CONVERSATION = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)


class _Conv(ctypes.Structure):
    _fields_ = (("conv", _CONVERSATION), ("appdata", ctypes.c_void_p))


def _refuse(count: int, messages: object, responses: object, data: object) -> int:
    """Refuses a module's questions, since no user can answer them."""
    return _PAM_CONV_ERR


_REFUSE = _CONVERSATION(_refuse)


def open_session(user_name: str) -> None:
    """Opens a session for the rest of the calling process's life. Raises PamError."""
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
