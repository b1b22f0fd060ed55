"""Writes lines of the JSON form to systemd's journal with their fields: PENSTOCK_EVENT, PENSTOCK_JOB, PRIORITY, ...

    journalctl PENSTOCK_EVENT=node_registered PENSTOCK_NODE=n1

systemd says in JOURNAL_STREAM which device and inode standard error has if it is the journal's; only then are lines sent
there (systemd.exec(5)). A field's value with line breaks has its length before it in the protocol, so no text of a user
makes a field of its own (systemd.journal-fields(7), "Native Journal Protocol"). No library is needed, and none is used.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping
from typing import Final

SOCKET: Final = "/run/systemd/journal/socket"
#: syslog's priorities.
_PRIORITIES: Final = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
#: The journal has these itself.
_OMITTED: Final = ("time", "level", "daemon", "message", "exception")


def is_journal(stream: int = 2) -> bool:
    """Whether that descriptor leads to the journal, as systemd says."""
    try:
        found = os.fstat(stream)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"


class JournalSink:
    """What a log handler takes for a stream: each line of JSON becomes an entry of the journal. A line that the journal does not
    take goes to standard error, which is the journal's too."""

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def write(self, text: str) -> int:
        """Sends the lines. Raises OSError if they cannot be written at all."""
        for line in text.splitlines():
            fields = json.loads(line)
            try:
                self._socket.sendto(entry(fields), self._path)
            except OSError:  # the journal is being started again, or the daemon is in another root folder
                sys.stderr.write(f"<{_PRIORITIES[fields['level']]}>{fields['message']}\n")
        return len(text)

    def flush(self) -> None:
        """Sends nothing: a datagram is sent at once."""

    def close(self) -> None:
        """Ends it."""
        self._socket.close()


def entry(fields: Mapping[str, object]) -> bytes:
    """Returns the datagram of these fields."""
    message = str(fields["message"])
    if trace := fields.get("exception"):
        message = f"{message}\n{trace}"
    found = {
        "MESSAGE": message,
        "PRIORITY": _PRIORITIES[str(fields["level"])],
        "SYSLOG_IDENTIFIER": f"penstock-{fields['daemon']}",
        **{f"PENSTOCK_{name.upper()}": value for name, value in fields.items() if name not in _OMITTED},
    }
    return b"".join(_field(name, str(value).encode()) for name, value in found.items())


def _field(name: str, value: bytes) -> bytes:
    if b"\n" not in value:
        return b"%s=%s\n" % (name.encode(), value)
    return b"%s\n%s%s\n" % (name.encode(), len(value).to_bytes(8, "little"), value)
