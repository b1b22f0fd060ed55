"""The protocol between the launcher, the command server and its workers: numbers, layouts, and the commands served."""

import os
import socket
import struct
from typing import Final

#: native/launcher.c has the same numbers and layouts.
MAGIC: Final = 0x50535403
READY = 0
STALE = 1
BUSY = 2
#: The kinds of report.
EXITED: Final = 1
SIGNALLED: Final = 2
DECLINED: Final = 3
GREETING: Final = struct.Struct("=IIi")
REPORT: Final = struct.Struct("=IIi")
SEND_FLAGS: Final = int(socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)

#: A worker's messages to the server: it is free again; its call may last.
IDLE: Final = b"i"
LASTS: Final = b"l"

#: Those that run until something else has ended.
LASTING: Final = ("srun", "salloc", "sattach")
#: The commands that are served; the server imports them before its first fork.
COMMANDS: Final = (
    "sbatch", "squeue", "sinfo", "sacct", "sacctmgr", "scancel", "scontrol", "sdiag", "sprio", "sshare", "sstat", "seff",
    "sreport", "srun", "salloc", "sattach",
)  # fmt: skip


def greet(connection: socket.socket, word: int) -> None:
    """Sends the first message to a caller, with the pid of the sender."""
    try:
        connection.send(GREETING.pack(MAGIC, word, os.getpid()), SEND_FLAGS)
    except OSError:
        return  # the caller has gone
