"""Reading the configuration again: what stands against it, what it changes, which jobs it touches.

A reload is all or nothing. `look` finds all of that without changing anything; a dry run answers with it, and a reload
goes on only when nothing stands against it.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from ctld.core.layout import misfits
from ctld.core.touched import touched
from ctld.rpc.refusals import BadRequest
from penstock.config import ConfigError, Loaded, changes, load, reload_problems
from penstock.values.config import Config
from penstock.values.gres import Gres
from penstock.values.refusals import TEXT, Code


class Preview(NamedTuple):
    """What a reload would do. `problems`: why it would be refused."""

    warnings: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()


def missing_qos(config: Config, known: Mapping[str, object]) -> tuple[str, ...]:
    """Partitions whose own QOS is in no table: as in Slurm they are used without it, which somebody should know."""
    return tuple(
        f"PartitionName={one.name}: there is no QOS {one.qos}: its jobs have no limits of it (sacctmgr add qos {one.qos})"
        for one in config.partitions
        if one.qos and one.qos not in known
    )


async def read(path: str) -> Loaded:
    """The file and those that belong to it. Raises BadRequest with every problem."""
    try:
        return await asyncio.to_thread(load, path)
    except ConfigError as error:
        raise BadRequest(Code.CONFIG_INVALID, f"{TEXT[Code.CONFIG_INVALID]}:\n{error}") from None


def problems_of(state: Any, loaded: Loaded) -> list[str]:
    """Why it may not take force now, as far as the configurations say; the core has the last word."""
    busy = [node.name for node in state.node_list if node.jobs]
    return reload_problems(state.config, loaded.config, busy, _gres_in_use(state))


def look(state: Any, loaded: Loaded) -> Preview:
    """What a reload of that would do."""
    found = problems_of(state, loaded)
    found += [text for text in misfits(state, loaded.config) if text not in found]
    lines = changes(state.config, loaded.config)
    return Preview(loaded.warnings, tuple(lines), tuple(found), tuple(touched(state, loaded.config)))


def _gres_in_use(state: Any) -> dict[str, tuple[Gres, ...]]:
    """What jobs hold on each node, by kind."""
    return {
        node.name: tuple(Gres(name, type_, mask.bit_count()) for (name, type_), mask in node.gres_used.items() if mask)
        for node in state.node_list
        if any(node.gres_used.values())
    }
