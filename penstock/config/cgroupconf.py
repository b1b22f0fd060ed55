"""Reads `cgroup.conf`, which lies beside `slurm.conf`: what jobs are held to on their nodes.

Without the file nothing is constrained (cgroup.conf(5) has the same defaults) but the devices of GPUs, where a node can.
The controller reads it and sends it to the nodes, so the copy beside the controller's slurm.conf is the one that counts.
A line may hold several `Key=value`; of a key given twice the last one counts, with a warning.
"""

import os

from penstock.config.keys import CGROUP
from penstock.config.lines import LineReader
from penstock.config.problem import Findings
from penstock.config.syntax import read_statements
from penstock.values.config import CgroupConfig

#: Of cgroup.conf, in the order of the manual, as `scontrol show config` lists them.
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
    """What the file says, and the files read; the defaults when there is none."""
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
    """Pairs for `scontrol show config`."""
    pairs = {}
    for name in SHOWN_CGROUP:
        key = CGROUP.find(name)
        assert key is not None and key.kind is not None
        pairs[name] = key.kind.shown(getattr(config, key.field))
    return pairs
