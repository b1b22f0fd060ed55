"""Filters of the site and the user at the options of sbatch, salloc and srun. Never sends a request."""
