"""Opens folders of the spool for launcher, stepd and noded: by descriptor, and never through a link."""

import os

SCRIPT_NAME = "slurm_script"
#: Where noded listens for `penstock adopt`.
ADOPT_SOCKET_NAME = "adopt.sock"


def folder_mode() -> int:
    """The mode of a folder. Users must be able to pass through to their scripts, when there are other users."""
    return 0o711 if os.geteuid() == 0 else 0o700


def open_folder(path: str, dir_fd: int | None = None) -> int:
    """Opens a folder; a link in its place is refused."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
