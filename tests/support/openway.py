"""Access for other users to a test's folder: pytest creates the folders above it for their owner only.

Each start of pytest takes others' rights to the folder that all runs of a user share away again. One that a test starts
therefore gets a folder of its own: the jobs of tests that run at the same time would find their working directory closed.
"""

import stat
from pathlib import Path


def open_way(folder: Path) -> None:
    """Lets all users enter the folder and all folders above it."""
    for one in (folder, *folder.parents):
        mode = one.stat().st_mode
        if not mode & stat.S_IXOTH:
            one.chmod(mode | stat.S_IXOTH)


def own_temporary_folder(folder: Path) -> dict[str, str]:
    """The environment of a pytest that makes its temporary folders in this one."""
    return {"PYTEST_DEBUG_TEMPROOT": str(folder)}
