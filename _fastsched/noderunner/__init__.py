"""Parts of noderun.pyx; each `.pxd` is compiled into it, so that nothing of them costs a call.

- records: what the node run keeps of jobs, requests and nodes.
- queues: the jobs of one request that wait, in the order of their keys.
- choose: what a node can take, and which nodes are chosen (rules 2 and 3 of noderun_contract.py).
- ends: the ends of running jobs, true and expected.
"""
