"""What jobs and steps get, on a real Slurm and on Penstock: requests drawn from a grammar, and their answers compared.

    make differential                                    both kinds of comparison, live; here with a new seed
    python -m differential.grants record                 Slurm alone (root, slurm-wlm, munge): writes recorded.json
    python -m differential.grants ours [PATTERN]         Penstock against recorded.json; prints what differs
    pytest tests/clients/test_grants.py                  the same, in the suite; needs no Slurm

A request is a line of sbatch's resource options (grammar.py). Its job tells what it was given: nodes, cpus, memory and GPUs of
each node, the SLURM_* numbers, and of an srun in it the ranks by node (probe.py). A step is a line of srun's options inside a
job of a stated shape. Both sides have the same nodes and partitions (cluster.py), and nothing else runs.

On our side a request goes through the real code without processes (ours.py): sbatch's parser, the controller's core, the
message to the node, the node's environment; srun's parser, the core's plan. answers.py has what is compared, judge.py compares it.
known.toml has the differences that are meant, each with a reason, by family.
"""
