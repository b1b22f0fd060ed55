"""Plays: what a real Slurm and Penstock do over time, on sites of several kinds.

    python -m differential.plays compare [SITE]     both sides, live (root, slurm-wlm, munge)
    python -m differential.plays record [SITE]      Slurm alone: adds new plays to recorded.json, and drops old ones
    python -m differential.plays ours [SITE]        Penstock alone, against recorded.json
    pytest tests/clients/test_plays.py              the same, in the suite; needs no Slurm

SITE.txt holds one site and its plays. Its first block is the site's part of slurm.conf. Each further block is a play: commands
that run one after the other in an empty cluster. Blank lines separate blocks; # begins a comment.

    NAME = sbatch ...    a submission; {NAME} is its job id in later lines
    wait {NAME} WORDS    polls until `squeue -o '%t %r'` of the job (`sacct` is not available) begins with WORDS;
                         {NAME}_4 is a task of an array
    COMMAND ~ REGEX      of its output only what the expression finds
    anything else        one command, whose exit status and both streams are compared
    sh ...               a shell line in the working directory, for what jobs have written

When a play is over, its jobs are cancelled. What a play creates (reservations, states of nodes), it removes itself.
"""
