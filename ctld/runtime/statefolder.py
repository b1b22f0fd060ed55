"""The state folder: its permissions, and its lock for one process at a time.

StateSaveLocation is mode 0711: all users may connect to the sockets in it, but only the owner may list it or write to
it. A lock on `ctld.pid` excludes a second controller on this machine (the lease in the database excludes those of other
machines, but allows this machine's to take over its own, as is necessary after a crash).
"""

import contextlib
import fcntl
import os
import secrets
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.errors import BadSetup
from penstock.storagefaults import naming

#: Size of the secret for the keys of steps' streams.
SECRET_BYTES = 32


class StateFolder:
    """The folder, locked while in the `with` block."""

    def __init__(self, path: str) -> None:
        self.path = Path(path).absolute()
        self._lock = -1

    @property
    def database(self) -> Path:
        """The SQLite file, unless a URL is configured."""
        return self.path / "penstock.db"

    @property
    def witness(self) -> Path:
        """The witness file, unless PenstockWitnessFile is configured."""
        return self.path / "witness"

    @property
    def certificates(self) -> Path:
        """The folder of the CA and the controller's own key and certificate."""
        return self.path / "ca"

    @property
    def public_ca(self) -> Path:
        """A copy of the CA's certificate for this machine's users, to whom `certificates` is closed."""
        return self.path / "ca.pem"

    @property
    def socket(self) -> Path:
        """The socket for commands of this machine."""
        return self.path / "ctld.sock"

    @property
    def call_socket(self) -> Path:
        """The socket for unary calls of this machine, without tokens."""
        return self.path / "calls.sock"

    @property
    def auth_socket(self) -> Path:
        """The socket for tokens of this machine's users."""
        return self.path / "auth.sock"

    def stream_secret(self) -> bytes:
        """The secret from which the keys of steps' streams are derived (agents/stepmessages.py): created once, for this
        cluster alone."""
        path = self.path / "stream.key"
        try:
            secret = path.read_bytes()
        except FileNotFoundError:
            secret = secrets.token_bytes(SECRET_BYTES)
            fresh = path.with_suffix(".new")
            fresh.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with naming(path), open(os.open(fresh, flags, 0o600), "wb") as file:
                file.write(secret)
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(path)
        if len(secret) != SECRET_BYTES:
            raise BadSetup(
                f"{path}: has {len(secret)} bytes, not {SECRET_BYTES}; remove it, and steps that run lose their clients"
            )
        return secret

    @property
    def lease_name(self) -> str:
        """This controller's name for the lease."""
        return f"{socket.gethostname()}:{self.path}"

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(mode=0o711, parents=True, exist_ok=True)
            status = self.path.stat()
            if status.st_uid != os.geteuid():
                raise BadSetup(f"{self.path}: belongs to uid {status.st_uid}; run the controller as that user")
            self.path.chmod(0o711)
            pid_file = self.path / "ctld.pid"
            self._lock = os.open(pid_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(self._lock, 32).decode("ascii", "replace").strip()
            os.close(self._lock)
            raise BadSetup(f"{self.path}: another controller (pid {pid}) uses it") from None
        except OSError as error:
            raise BadSetup(f"{self.path}: cannot be used: {error.strerror}") from error
        try:
            os.truncate(self._lock, 0)
            os.write(self._lock, b"%d\n" % os.getpid())
        except OSError as error:
            os.close(self._lock)
            raise BadSetup(f"{pid_file}: cannot be written: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # storage takes no writes: that is not why it ends
            os.truncate(self._lock, 0)
        os.close(self._lock)
