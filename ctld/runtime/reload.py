"""Reloads the configuration: its conflicts, its changes, the jobs that it affects.

A reload is all or nothing. `preview` computes all of that without changing anything; a dry run returns it, and a reload
continues only without conflicts.
"""

import asyncio
from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from ctld.core.diagnose.reload_effects import reload_effects
from ctld.core.nodes.layout import config_conflicts
from ctld.core.state.state import ClusterState
from ctld.runtime.errors import BadRequest
from penstock.config import ConfigChange, ConfigError, Loaded, changes, differences, load, reload_problems
from penstock.values.config import Config
from penstock.values.gres import Gres
from penstock.values.refusals import TEXT, Code

#: Differences that are listed as records.
DIFFERENCES_MAX: Final = 1_000


class Preview(NamedTuple):
    """The effects of a reload. `problems`: why it would be refused; `differences`: the changes as records."""

    warnings: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    differences: tuple[ConfigChange, ...] = ()


def missing_qos(config: Config, known: Mapping[str, object]) -> tuple[str, ...]:
    """Returns partitions whose own QOS does not exist: as in Slurm they are used without it, with a warning."""
    return tuple(
        f"PartitionName={one.name}: there is no QOS {one.qos}: its jobs have no limits of it (sacctmgr add qos {one.qos})"
        for one in config.partitions
        if one.qos and one.qos not in known
    )


async def read(path: str) -> Loaded:
    """Reads the file and those that it includes. Raises BadRequest with every problem."""
    try:
        return await asyncio.to_thread(load, path)
    except ConfigError as error:
        raise BadRequest(Code.CONFIG_INVALID, f"{TEXT[Code.CONFIG_INVALID]}:\n{error}") from None


def problems_of(state: ClusterState, loaded: Loaded) -> list[str]:
    """Returns why the configuration may not be applied now, as far as it follows from the configurations; the core
    decides in the end."""
    busy = [node.name for node in state.node_list if node.jobs]
    return reload_problems(state.config, loaded.config, busy, _gres_in_use(state))


def preview(state: ClusterState, loaded: Loaded) -> Preview:
    """Computes the effects of a reload."""
    found = problems_of(state, loaded)
    found += [text for text in config_conflicts(state, loaded.config) if text not in found]
    return Preview(
        loaded.warnings,
        tuple(changes(state.config, loaded.config)),
        tuple(found),
        tuple(reload_effects(state, loaded.config)),
        tuple(islice(differences(state.config, loaded.config), DIFFERENCES_MAX)),
    )


def _gres_in_use(state: ClusterState) -> dict[str, tuple[Gres, ...]]:
    """Returns what jobs hold on each node, by kind."""
    return {
        node.name: tuple(Gres(name, type_, mask.bit_count()) for (name, type_), mask in node.gres_used.items() if mask)
        for node in state.node_list
        if any(node.gres_used.values())
    }
