"""Reads `cgroup.conf`, beside `slurm.conf`: the resource limits that nodes enforce on jobs.

Without the file nothing is constrained (the defaults of cgroup.conf(5)), except GPU devices on nodes that support it.
The controller reads the file and sends its settings to the nodes: copies elsewhere have no effect. A line may contain
several `Key=value`; of a repeated key the last one counts, with a warning.
"""

import os

from penstock.config.keys import CGROUP
from penstock.config.lines import LineReader
from penstock.config.problem import Findings
from penstock.config.syntax import read_statements
from penstock.values.config import CgroupConfig

#: The keys of cgroup.conf that `scontrol show config` lists, in the order of the manual.
SHOWN_CGROUP = (
    "AllowedRAMSpace",
    "AllowedSwapSpace",
    "CgroupPlugin",
    "ConstrainCores",
    "ConstrainDevices",
    "ConstrainRAMSpace",
    "ConstrainSwapSpace",
    "MaxRAMPercent",
    "MaxSwapPercent",
    "MinRAMSpace",
    "PenstockMaxPidsPerJob",
    "SignalChildrenProcesses",
)


def read_cgroup_conf(folder: str, findings: Findings) -> tuple[CgroupConfig, tuple[str, ...]]:
    """Reads the file if it exists; returns the settings, and the files read."""
    path = os.path.join(folder, "cgroup.conf")
    if not os.path.lexists(path):
        return CgroupConfig(), ()
    statements, files = read_statements(path, findings)
    reader = LineReader(CGROUP, findings)
    values = reader.read(token for statement in statements for token in statement.tokens)
    fields = {name: found.value for name, found in values.items()}
    config = CgroupConfig(**fields)
    if config.constrain_swap and not config.constrain_ram:
        where = values["constrain_swap"].where
        findings.warn(where, "ConstrainSwapSpace needs ConstrainRAMSpace=yes; swap is not limited")
    return config, files


def shown_cgroup(config: CgroupConfig) -> dict[str, str]:
    """Returns the pairs for `scontrol show config`."""
    pairs = {}
    for name in SHOWN_CGROUP:
        key = CGROUP.find(name)
        assert key is not None and key.kind is not None
        pairs[name] = key.kind.shown(getattr(config, key.field))
    return pairs
