"""`penstock restd`: Slurm's REST interface over HTTP.

Just another client of the controller: no state, no privilege, no secret. It passes each caller's own proof on, and the
controller decides. Any number may run side by side. It imports nothing of the controller: documents come from the
functions that build those of `--json`, requests from the option table of sbatch.
"""
