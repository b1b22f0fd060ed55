"""The compiled placement of parts of GPUs, in modules; _fastsched/fragment.pyx is what Python calls.

Everything is inline, in `.pxd` files: scores are computed once for each node and GPU.

- cluster: nodes, shapes and the tables of the distribution as C structs; taking and releasing GPUs.
- published: scores of the study's policies that depend on one node and one shape alone.
- worth: the worth of a node for the expected pods: fragmentation (FGD), and steering.
"""
