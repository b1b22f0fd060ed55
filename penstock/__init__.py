"""The only public import of Penstock.

Nothing is imported eagerly: the cores use `penstock.values` and must not drag in gRPC.
"""

__version__ = "0.1.0"
