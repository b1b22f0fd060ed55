"""The same command lines on a real Slurm and on Penstock, and what they answer compared.

    make differential                 a developer with root, slurm-wlm and munge: both sides, prints what differs
    PYTHONPATH=tests/support python -m differential record     Slurm only: writes recorded.json
    pytest tests/clients/test_differential.py                  Penstock against recorded.json; needs no Slurm

Both sides get the same nodes and partitions and the same jobs (shape.py), and run the same lines (commands/*.txt, one command a
line). Exit status, stdout and stderr are normalised (normal.py) and compared. What differs on purpose is in known.toml, each entry
with a reason. Only facts are kept of the reference: what a command printed about our own jobs.
"""
