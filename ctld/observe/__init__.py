"""Metrics of the controller over HTTP: Slurm's families and Penstock's own, from counters and committed rows. Never
decides, and never changes what it shows.
"""
