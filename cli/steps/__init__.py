"""A running step on srun's side: creation, streams, signals, exit status. Never reads the options of a command."""
