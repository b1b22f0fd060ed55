"""Folders of the spool, as launcher, stepd and noded all open them: by descriptor, and never through a link."""

import os

SCRIPT_NAME = "slurm_script"


def folder_mode() -> int:
    """Users must be able to pass through to their scripts, when there are other users."""
    return 0o711 if os.geteuid() == 0 else 0o700


def open_folder(path: str, dir_fd: int | None = None) -> int:
    """A descriptor of a folder; a link in its place is refused."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
