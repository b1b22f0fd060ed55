"""The list of issued certificates: issued.json beside the CA's key, append-only, one JSON object per line.

It is used for display (`penstock ca list`), for warnings, and for the deny list: a renewed certificate refers to its
predecessor, so that denying a stolen one denies all its renewals. An entry is on disk before the certificate is
delivered. Certificates issued by an older version are not in the list.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from penstock.boundedfile import read_bounded
from penstock.errors import BadSetup

FILE: Final = "issued.json"
#: A cluster of 10,000 nodes writes 12 MB per year, and a controller that could not read all would not know what is denied.
BYTES_MAX: Final = 1024 * 1024 * 1024


class Issued(msgspec.Struct, frozen=True):
    """One issued certificate."""

    serial: str  # hex, in the form of openssl
    role: str
    name: str
    start_s: int
    end_s: int
    renews: str = ""  # serial of its predecessor; "" = issued at a join or manually

    @property
    def number(self) -> int:
        """The serial as a number."""
        return int(self.serial, 16)


def serial_text(serial: int) -> str:
    """Formats a serial as openssl does: in whole bytes."""
    text = f"{serial:X}"
    return text if len(text) % 2 == 0 else f"0{text}"


def note(folder: Path, entry: Issued) -> None:
    """Appends an entry, and returns when it is on disk. Raises BadSetup."""
    try:
        fd = os.open(folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.geteuid() == 0:  # certificates are issued manually as root, while the controller may be another user
                owner = folder.stat()
                os.fchown(fd, owner.st_uid, owner.st_gid)
            line = b"\n" + msgspec.json.encode(entry)  # ends a line that a crash has truncated
            if os.write(fd, line) != len(line):  # the rest could end up behind another process's line
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise BadSetup(f"{folder / FILE}: cannot be written: {error.strerror}") from error


def read(folder: Path) -> list[Issued]:
    """Reads all entries, in the order of issue. Raises BadSetup."""
    path = folder / FILE
    try:
        lines = read_bounded(path, BYTES_MAX).splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadSetup(f"{path}: cannot be read: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"}"):  # truncated by a crash: that certificate was not delivered
            continue
        try:
            found.append(msgspec.json.decode(line, type=Issued))
        except msgspec.MsgspecError as error:
            raise BadSetup(f"{path}:{number}: is damaged: {error}") from error
    return found


def with_renewals(denied: Iterable[int], issued: Iterable[Issued]) -> frozenset[int]:
    """Returns these serials, and those of all certificates that were renewed from them."""
    found = set(denied)
    for entry in issued:  # a renewal follows its predecessor
        if entry.renews and int(entry.renews, 16) in found:
            found.add(entry.number)
    return frozenset(found)


def newest(issued: Iterable[Issued]) -> list[Issued]:
    """Returns the latest entry of each holder."""
    return list({(entry.role, entry.name): entry for entry in issued}.values())
