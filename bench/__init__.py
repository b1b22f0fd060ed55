"""Measurements of a whole cluster on one machine: `make bench` (`python -m bench`).

Each part starts what it needs in a folder of its own under the system's temporary directory, measures, and stops it.
Figures go to a table on the screen and to bench/out/main.json; how they are taken is in docs/performance.md.
Nothing here is installed with the package, and no test depends on how fast something is.
"""
