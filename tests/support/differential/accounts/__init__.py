"""The same comparison for accounting: sacctmgr, sacct, sreport and sshare, on a Slurm with slurmdbd and MariaDB.

    make differential
    PYTHONPATH=tests/support python -m differential.accounts record     Slurm only: writes recorded.json
    pytest tests/clients/test_differential.py                           Penstock against recorded.json; needs no Slurm

Both sides get the same tree of accounts and the same jobs (shape.py). The lines of commands/*.txt run in their order and change
the tree on the way: a line is judged with what the lines before it have left.
"""
