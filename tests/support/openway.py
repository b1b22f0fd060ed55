"""Access for other users to a test's folder: pytest creates the folders above it for their owner only."""

import stat
from pathlib import Path


def open_way(folder: Path) -> None:
    """Lets all users enter the folder and all folders above it."""
    for one in (folder, *folder.parents):
        mode = one.stat().st_mode
        if not mode & stat.S_IXOTH:
            one.chmod(mode | stat.S_IXOTH)
