"""Sessions: notebooks and terminals that are batch jobs, reached through the REST daemon (docs/sessions.md).

The kind is in the job's `extra`, where everybody who sees the job reads it; PENSTOCK_SESSION in the environment has stepd
make the control socket. Both are the user's own: whoever writes them by hand has a job with a socket that nobody uses.
"""

#: In the environment of the job: the kind. stepd adds the other two for the program that runs in the job.
SESSION_VARIABLE = b"PENSTOCK_SESSION"
FD_VARIABLE = b"PENSTOCK_SESSION_FD"
PYTHON_VARIABLE = b"PENSTOCK_SESSION_PYTHON"
#: In the environment of the server: where it listens, and the path at which browsers have it.
SOCKET_VARIABLE = "PENSTOCK_SESSION_SOCKET"
BASE_VARIABLE = "PENSTOCK_SESSION_BASE"
#: Words of the control socket.
OPEN = b"open"
IS_READY = b"ready"
#: The question whether the session is ready, and for how long nobody has used it.
SESSION_WORD = "session"
#: Exit statuses of the program that runs the server.
EXIT_IDLE = 124  # as timeout(1)
EXIT_CANNOT_RUN = 126  # as of a shell, as the next one
EXIT_NOT_FOUND = 127
EXIT_NO_NODE_SUPPORT = 69  # EX_UNAVAILABLE
EXIT_NOT_READY = 70  # EX_SOFTWARE
#: What they mean to the user.
END_TEXTS = {
    EXIT_IDLE: "nobody has used it for its idle time",
    EXIT_CANNOT_RUN: "its program cannot be run on this node",
    EXIT_NOT_FOUND: "its program is not installed on this node",
    EXIT_NO_NODE_SUPPORT: "this node's daemon knows no sessions",
    EXIT_NOT_READY: "its program did not listen in time",
}
EXTRA_PREFIX = "penstock-session="
_KIND_CHARS_MAX = 32
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_KIND_CHARS = _LETTERS | frozenset("0123456789-")


def is_kind(text: str) -> bool:
    """Whether it may be the name of a kind."""
    return 0 < len(text) <= _KIND_CHARS_MAX and text[0] in _LETTERS and _KIND_CHARS.issuperset(text)


def kind_of_extra(extra: str) -> str:
    """The kind of the session that a job with this `extra` is; "" = it is none."""
    kind = extra.removeprefix(EXTRA_PREFIX) if extra.startswith(EXTRA_PREFIX) else ""
    return kind if is_kind(kind) else ""


def base_path(job_id: int) -> str:
    """The path at which browsers have a session."""
    return f"/session/{job_id}/"
