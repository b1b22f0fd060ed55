"""Reads, checks, compares and writes the cluster's configuration: files at the edge, `Config` records inside.

    load(path)         a complete, valid configuration and its warnings, or ConfigError with every problem
    reload_problems()  why a new configuration may not replace the one in force
    changes()          the differences in words
    render(config)     a short slurm.conf that load() reads back

Reading order: `syntax` (files to tokens), `kinds` and `keys` (the table of parameters), `lines` (tokens against the
table), `nodes`, `gresconf`, `topologyconf`, `partitions`, then `load`. `notused` and `words` say what of Slurm's has no meaning
here, and why.
"""

from penstock.config.diff import changes, reload_problems
from penstock.config.load import DEFAULT_PATH, Loaded, load
from penstock.config.problem import ConfigError, Problem
from penstock.config.write import render

__all__ = ["DEFAULT_PATH", "ConfigError", "Loaded", "Problem", "changes", "load", "reload_problems", "render"]
