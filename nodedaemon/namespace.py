"""A job's own /tmp and /dev/shm: a mount namespace that the job's holder lives in, and its tasks enter.

The holder (extern step) makes a namespace of its own, mounts a fresh folder of the base folder over each private
folder there (a fresh tmpfs over /dev/shm), and keeps it by living. A task finds it by the holder's claim in the
spool, pinned by pid and start time, and enters while it is still root. What is mounted on the node later is seen in
the namespace too; what the job mounts is not seen outside.

On disk: BASE/NODE/JOB.ATTEMPT/0, 1, ...: the upper folders are root's and closed to all, the last is the user's. At
the job's end they are removed by descriptors, never through a link and never on another device.

Needs root. Deliberately absent: other namespaces, and sharing between jobs.
"""

import ctypes
import os
import stat
import time

from nodedaemon import proctree
from nodedaemon.folders import open_folder
from nodedaemon.steprecord import STEPD, read_record

SHM = "/dev/shm"  # noqa: S108 (the mount point)
_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 4096, 16384, 1 << 19
#: Deeper folders are moved up before they are removed, so that no user decides how many descriptors we hold.
DEPTH_MAX = 64
#: When no further round begins. A round takes as long as there is something to remove.
SWEEP_S = 60.0
_EXTERN = -4

_libc = ctypes.CDLL(None, use_errno=True)


class NamespaceError(Exception):
    """It cannot be made or entered; the text says what and why."""


def _call(what: str, result: int) -> None:
    if result != 0:
        raise NamespaceError(f"private /tmp: {what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    result = _libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data))
    _call(f"cannot mount {target}", result)


def folder_of(base: str, node_name: str, key: str) -> str:
    """Where a job's folders are. `key`: of any step of the job."""
    return f"{base}/{node_name.replace('/', '_')}/{key.rpartition('.')[0]}"


def make(base: str, folder: str, private: list[str], user_id: int, group_id: int, spool: str) -> int:
    """Put the calling process into a new namespace with the private folders. A descriptor of the old one."""
    if os.geteuid() != 0:
        raise NamespaceError("private /tmp needs a node daemon that runs as root: unset PenstockPrivateTmp")
    for path in private:
        if f"{os.path.realpath(spool)}/".startswith(f"{os.path.realpath(path)}/"):
            raise NamespaceError(f"private {path} would hide the spool folder {spool}: give the daemon another --spool")
    _make_folders(base, folder, len(private), user_id, group_id)
    outside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    _call("unshare", _libc.unshare(_CLONE_NEWNS))
    _mount("none", "/", "none", _MS_REC | _MS_SLAVE)
    # by descriptor: the base folder may itself lie below one of the private ones
    held = [
        os.open(f"{folder}/{i}", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC) for i in range(len(private))
    ]
    for fd, path in zip(held, private, strict=True):
        if os.path.realpath(path) == SHM:
            _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")
        else:
            _mount(f"/proc/self/fd/{fd}", path, "none", _MS_BIND)
        os.close(fd)
    return outside


def _make_folders(base: str, folder: str, count: int, user_id: int, group_id: int) -> None:
    try:
        for path in (base, os.path.dirname(folder), folder):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                found = os.lstat(path)
                if not stat.S_ISDIR(found.st_mode) or (path != base and found.st_uid != 0):
                    raise NamespaceError(f"private /tmp: {path} is not a folder of root's") from None
        for index in range(count):
            path = f"{folder}/{index}"
            os.mkdir(path, 0o700)
            os.chown(path, user_id, group_id, follow_symlinks=False)
    except OSError as error:
        raise NamespaceError(f"private /tmp: {error.filename}: {error.strerror}") from None


def leftovers(base: str, node_name: str) -> list[str]:
    """Jobs (JOB.ATTEMPT) that have folders there."""
    try:
        return os.listdir(f"{base}/{node_name.replace('/', '_')}")
    except OSError:  # no job has had any yet
        return []


def enter(fd: int) -> None:
    """Move the calling process, which has one thread, into the namespace of that descriptor."""
    _call("cannot enter the namespace", _libc.setns(fd, _CLONE_NEWNS))


def join(key: str, steps_fd: int) -> None:
    """Enter the namespace of the job's holder. `key`: of any step of the job; still as root."""
    holder = f"{key.rpartition('.')[0]}.{_EXTERN}"
    claim, end = read_record(steps_fd, f"{holder}/record")
    if claim is None and end is None:
        return  # the job is older than the setting: it has no holder
    if claim is None or claim.by != STEPD or end is not None:
        raise NamespaceError("private /tmp: the job's extern step is not there")
    try:
        fd = os.open(f"/proc/{claim.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        raise NamespaceError("private /tmp: the job's extern step is gone") from None
    try:
        if proctree.start_time(claim.pid) != claim.pid_start:  # after it is open, so it is of that process
            raise NamespaceError("private /tmp: the job's extern step is gone")
        enter(fd)
    finally:
        os.close(fd)


def remove(folder: str) -> None:
    """Remove a job's folders with all that is in them. Raises OSError for what cannot be removed."""
    parent_fd = open_folder(os.path.dirname(folder))
    try:
        name = os.path.basename(folder)
        try:
            fd = open_folder(name, parent_fd)
        except FileNotFoundError:
            return
        try:
            _Sweep(fd).run()
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=parent_fd)
    finally:
        os.close(parent_fd)


class _Sweep:
    """Empties a folder. What lies deeper than DEPTH_MAX is first moved to its top."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._device = os.fstat(fd).st_dev
        self._moved = 0

    def run(self) -> None:
        """Until nothing is left, or somebody makes files as fast as we remove them."""
        end_s = time.monotonic() + SWEEP_S
        while os.listdir(self._fd):
            if time.monotonic() > end_s:
                raise OSError("it is being filled while it is emptied")
            moved = self._moved
            left = self._empty(self._fd, 0)
            if left and moved == self._moved:
                raise OSError(f"{left} entries could not be removed")

    def _empty(self, fd: int, depth: int) -> int:
        """Empty one folder; how many entries are left in it."""
        left = 0
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        self._folder(fd, name, depth)
                    else:
                        os.unlink(name, dir_fd=fd)
                except FileNotFoundError:
                    continue
                except OSError:
                    left += 1
        return left

    def _folder(self, fd: int, name: str, depth: int) -> None:
        if depth >= DEPTH_MAX:
            self._moved += 1
            os.rename(name, f"deep-{self._moved}", src_dir_fd=fd, dst_dir_fd=self._fd)
            return
        below = open_folder(name, fd)
        try:
            if os.fstat(below).st_dev != self._device:
                raise OSError(f"{name} is on another device")
            self._empty(below, depth + 1)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=fd)
