"""An SQLite database that has this program's tables, as left by a controller that was never leader. For each database
the migrations take a tenth of a second of a core, and the library that runs them as long again. So they run once per
test process, and the kits (`LiveCluster`, `Site`, `any_store`) copy the result to their controller's path. That a
controller makes its tables itself is shown by tests that begin without a file: tests/store/test_store_schema.py, those
of `any_database`, and every `penstock up`.
"""

import functools
import os
import tempfile
from pathlib import Path


@functools.cache
def _image() -> bytes:
    from ctld.store.committer import Store

    with tempfile.TemporaryDirectory(prefix="pstk-db-") as folder:
        path = Path(folder, "penstock.db")
        Store.open(path, "image").close()
        return path.read_bytes()


def lay_database(path: Path) -> None:
    """Put a database with all tables and no rows there, readable by its owner only."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(_image())
