"""The site's own policy for the simulations that `penstock restd` starts: its configuration, as the controller shows it to users.

It comes as a text, which the configuration's reader wants as a file: one in memory, made before this process gives itself limits
that forbid files.
"""

import os
from dataclasses import replace
from typing import Final

from penstock.config import ConfigError, load
from penstock.values.config import Config
from penstock.values.errors import BadValue
from sim.onnodes import default_partition

#: Problems of a configuration that are said.
_PROBLEMS_MAX: Final = 3


def read(text: str, partition: str) -> Config:
    """Returns the configuration of a text in which jobs go to this partition; "" = to the default one. Raises BadValue."""
    handle = os.memfd_create("slurm.conf")
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(text.encode("utf-8", "surrogatepass"))
        config = load(f"/proc/self/fd/{handle}").config
    except ConfigError as error:
        problems = "; ".join(problem.text for problem in error.problems[:_PROBLEMS_MAX])
        raise BadValue(f"policy site: the cluster's configuration cannot be used here: {problems}") from None
    finally:
        os.close(handle)
    if partition:
        partitions = tuple(replace(one, is_default=one.name == partition) for one in config.partitions)
        config = replace(config, partitions=partitions)
    if default_partition(config) is None:
        raise BadValue("policy site: the cluster has no default partition: choose one")
    return config


def notes(config: Config, nodes: int) -> tuple[str, ...]:
    """What a reader must know of a machine that has `nodes` nodes for the other policies."""
    partition = default_partition(config)
    if partition is None or len(partition.nodes) == nodes:
        return ()
    return (f"all jobs run in partition {partition.name}, which has {len(partition.nodes):,} of {nodes:,} nodes",)
