"""Controllers of tests share what SQLAlchemy has compiled: each compiles the same forty statements when it starts, which is
a third of the processor time of a start, and the tests start some thousand.

SQLAlchemy keeps compiled statements by dialect object, and `create_engine` makes a new one for each engine. Here all engines
that write to SQLite have one dialect and one cache: the first controller of a process compiles as any does. Those that a warm
process forks (warmprocess.py) find what `compile_start` has left.
"""

import functools
from collections.abc import Callable

# Any: as create_engine takes them
from typing import Any

from sqlalchemy import Engine

from ctld.store import dialect
from ctld.store.committer import Store


@functools.cache
def share() -> None:
    """Makes the writing engines of this process share it; a second call does nothing."""
    create: Callable[..., Engine] = vars(dialect)["create_engine"]
    first = create("sqlite://")
    first.connect().close()  # the dialect learns from its first connection what the library can do
    first.dispose()
    compiled: dict[Any, Any] = {}

    def create_engine(*args: Any, **options: Any) -> Engine:
        made = create(*args, **options)
        made.dialect = first.dialect
        made.update_execution_options(compiled_cache=compiled)
        return made

    vars(dialect)["create_engine"] = create_engine


def compile_start() -> None:
    """Compiles what a controller executes when it starts. It leaves no connection and no thread."""
    share()
    store = Store.open(":memory:", "warm")
    store.load(0, 0, 0)
    store.close()
