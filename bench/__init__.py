"""Measurements of a whole cluster on one machine: `make bench` (`python -m bench`).

Each part starts its processes in its own folder under the system's temporary directory, measures, and stops them.
Figures go to a table on the screen and to bench/out/main.json; docs/performance.md describes the method.
Nothing here is installed with the package, and no test depends on timing.
"""
