"""Penstock's own commands, one module each. Never imported by Slurm's commands."""
