"""The file of a batch script in its step's folder: the user's own, mode 0500.

A folder may contain the script of an earlier step (spool/spool.py). It serves again if it is this user's, is the same in
every byte and has one name; creating and removing files is expensive on some file systems, and the tasks of an array
have one script. Any other file is removed and never written to: its user may have it open, or linked.
"""

import os
import stat

from nodedaemon.base.folders import SCRIPT_NAME

MODE = 0o500


def provide(folder_fd: int, script: bytes, user_id: int, group_id: int, is_root: bool) -> None:
    """Makes sure that the folder contains the script. Raises OSError."""
    try:
        if _is_there(folder_fd, script, user_id, group_id):
            return
        is_other = True
    except FileNotFoundError:
        is_other = False
    except OSError:  # not a file that a stepd made, or one whose user keeps us from it, by a lease
        is_other = True
    if is_other:
        os.unlink(SCRIPT_NAME, dir_fd=folder_fd)
    _write(folder_fd, script, user_id, group_id, is_root)


def _is_there(folder_fd: int, script: bytes, user_id: int, group_id: int) -> bool:
    fd = os.open(SCRIPT_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        found = os.fstat(fd)
        wanted = (stat.S_IFREG | MODE, 1, user_id, group_id, len(script))
        is_alike = (found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_size) == wanted
        return is_alike and os.read(fd, len(script) + 1) == script
    finally:
        os.close(fd)


def _write(folder_fd: int, script: bytes, user_id: int, group_id: int, is_root: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(SCRIPT_NAME, flags, MODE, dir_fd=folder_fd)
    try:
        view = memoryview(script)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, MODE)
        if is_root:
            os.fchown(fd, user_id, group_id)  # last: what is the user's, root changes no more
    finally:
        os.close(fd)
