"""A job's own /tmp and /dev/shm: a mount namespace that the job's extern step creates, and its tasks enter.

The extern step makes a namespace of its own, mounts a fresh folder of the base folder over each private folder there (a
fresh tmpfs over /dev/shm); the namespace exists as long as the step's process. A task finds it by the extern step's
claim in the spool, verified by pid and start time, and enters while it is still root. Later mounts of the node
propagate into the namespace; mounts of the job do not propagate out.

On disk: BASE/NODE/JOB.ATTEMPT/0, 1, ...: the upper folders are root's and closed to all, the last is the user's. At
the job's end they are removed by descriptors, never through a link and never on another device.

Needs root. Deliberately absent: other namespaces, and sharing between jobs.
"""

import ctypes
import os
import stat
import time

from nodedaemon.base import proctree
from nodedaemon.base.folders import open_folder
from nodedaemon.spool.steprecord import STEPD, read_record

SHM = "/dev/shm"  # noqa: S108 (the mount point)
_CLONE_NEWNS = 0x00020000
_MS_NOSUID = 2
_MS_NODEV = 4
_MS_BIND = 4096
_MS_REC = 16384
_MS_SLAVE = 1 << 19
#: Deeper folders are moved up before they are removed, to bound the number of descriptors.
DEPTH_MAX = 64
#: Time after which no further round begins. A round takes as long as there is something to remove.
SWEEP_S = 60.0
_EXTERN = -4

_libc = ctypes.CDLL(None, use_errno=True)


class NamespaceError(Exception):
    """The namespace cannot be made or entered; the text says what and why."""


def _call(what: str, result: int) -> None:
    if result != 0:
        raise NamespaceError(f"private /tmp: {what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    result = _libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data))
    _call(f"cannot mount {target}", result)


def folder_of(base: str, node_name: str, key: str) -> str:
    """The folder of a job's private folders. `key`: of any step of the job."""
    return f"{base}/{node_name.replace('/', '_')}/{key.rpartition('.')[0]}"


def make(base: str, folder: str, private: list[str], user_id: int, group_id: int, spool: str) -> int:
    """Moves the calling process into a new namespace with the private folders. Returns a descriptor of the old one."""
    if os.geteuid() != 0:
        raise NamespaceError("private /tmp needs a node daemon that runs as root: unset PenstockPrivateTmp")
    for path in private:
        if f"{os.path.realpath(spool)}/".startswith(f"{os.path.realpath(path)}/"):
            raise NamespaceError(f"private {path} would hide the spool folder {spool}: give the daemon another --spool")
    _make_folders(base, folder, len(private), user_id, group_id)
    outside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    _call("unshare", _libc.unshare(_CLONE_NEWNS))
    _mount("none", "/", "none", _MS_REC | _MS_SLAVE)
    # by descriptor: the base folder may itself be below one of the private ones
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
                _check_roots(path)
        for index in range(count):
            path = f"{folder}/{index}"
            os.mkdir(path, 0o700)
            os.chown(path, user_id, group_id, follow_symlinks=False)
    except OSError as error:
        raise NamespaceError(f"private /tmp: {error.filename}: {error.strerror}") from None


def _check_roots(path: str) -> None:
    """Raises NamespaceError for a folder whose entries another user could exchange for their own."""
    found = os.lstat(path)
    is_open = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or is_open:
        raise NamespaceError(f"private /tmp: {path} is not a folder of root's that nobody else can change")


def leftovers(base: str, node_name: str) -> list[str]:
    """Jobs (JOB.ATTEMPT) that have folders there."""
    try:
        return os.listdir(f"{base}/{node_name.replace('/', '_')}")
    except OSError:  # no job has had any yet
        return []


def enter(fd: int) -> None:
    """Moves the calling, single-threaded process into the namespace of that descriptor."""
    _call("cannot enter the namespace", _libc.setns(fd, _CLONE_NEWNS))


def _exists(name: str, dir_fd: int) -> bool:
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def join(key: str, steps_fd: int) -> None:
    """Enters the namespace of the job's extern step. `key`: of any step of the job; still as root."""
    fd = find(key, steps_fd)
    if fd < 0:
        return
    try:
        enter(fd)
    finally:
        os.close(fd)


def find(key: str, steps_fd: int) -> int:
    """Opens the namespace of the job's extern step; -1 = the job has none. `key`: of any step of the job."""
    extern_step = f"{key.rpartition('.')[0]}.{_EXTERN}"
    if not _exists(extern_step, steps_fd):
        return -1  # the job is older than the setting: it has no extern step
    claim, end = read_record(steps_fd, f"{extern_step}/record", extern_step)
    if claim is None or claim.by != STEPD or end is not None:
        raise NamespaceError("private /tmp: the job's extern step is not there")
    try:
        fd = os.open(f"/proc/{claim.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        raise NamespaceError("private /tmp: the job's extern step is gone") from None
    if proctree.start_time(claim.pid) != claim.pid_start:  # checked after it is open, so it is of that process
        os.close(fd)
        raise NamespaceError("private /tmp: the job's extern step is gone")
    return fd


def remove(folder: str) -> None:
    """Removes a job's folders with their content. Raises OSError for entries that cannot be removed."""
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
    """Empties a folder. Folders deeper than DEPTH_MAX are first moved to its top."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._device = os.fstat(fd).st_dev
        self._moved = 0

    def run(self) -> None:
        """Runs until nothing is left, or files are created as fast as they are removed."""
        end_s = time.monotonic() + SWEEP_S
        while os.listdir(self._fd):
            if time.monotonic() > end_s:
                raise OSError("it is being filled while it is emptied")
            moved = self._moved
            left = self._empty(self._fd, 0)
            if left and moved == self._moved:
                raise OSError(f"{left} entries could not be removed")

    def _empty(self, fd: int, depth: int) -> int:
        """Empties one folder; returns how many entries are left in it."""
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
