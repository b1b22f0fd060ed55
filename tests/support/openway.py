"""A way for other users to a test's folder: pytest makes the folders above it for their owner only."""

import stat
from pathlib import Path


def open_way(folder: Path) -> None:
    """Let everybody pass through it and all that is above it; one that is open may well stand in one that is not."""
    for one in (folder, *folder.parents):
        mode = one.stat().st_mode
        if not mode & stat.S_IXOTH:
            one.chmod(mode | stat.S_IXOTH)
