"""Reads, checks, compares and writes the cluster's configuration: files outside, `Config` records inside.

    load(path)         returns a complete, valid configuration and its warnings, or raises ConfigError with all problems
    reload_problems()  returns why a new configuration may not replace the one in force
    changes()          describes the differences
    differences()      the same as records
    render(config)     writes a short slurm.conf that load() reads back

Reading order: `syntax` (files to tokens), `kinds` and `keys` (the table of parameters), `lines` (tokens against the
table; `unknown`), `nodes`, `gresconf`, `topologyconf`, `partitions`, then `load`. `notused` and `words` list the parameters of
Slurm that have no effect, and why.
"""

from penstock.config.diff import ConfigChange, changes, differences, reload_problems
from penstock.config.load import DEFAULT_PATH, Loaded, load
from penstock.config.problem import ConfigError, Problem
from penstock.config.write import render

__all__ = [
    "DEFAULT_PATH",
    "ConfigChange",
    "ConfigError",
    "Loaded",
    "Problem",
    "changes",
    "differences",
    "load",
    "reload_problems",
    "render",
]
