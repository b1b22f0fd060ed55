"""The only public import of Penstock.

Nothing is imported eagerly: the cores use `penstock.values` and must not import gRPC.
"""

__version__ = "0.1.0"
#: The release of Slurm whose interface Penstock follows; programs enable features by it.
SLURM_VERSION = "25.05.0"
