"""A controller on SQLite imports no other database's code: each module costs memory and time at every start."""

import subprocess
import sys
from typing import Final

from patience import ANSWER_S

#: Heavy modules that only other databases, or rare commands, need.
ABSENT: Final = ("sqlalchemy.dialects.postgresql", "sqlalchemy.orm", "sqlalchemy.ext", "psycopg", "asyncpg", "alembic")


def test_a_controller_on_sqlite_imports_no_other_database() -> None:
    program = "import sys, ctld.main; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=ANSWER_S
    )
    loaded = result.stdout.split()
    assert "ctld.store.loader" in loaded
    assert [name for name in loaded if name.startswith(ABSENT)] == []
