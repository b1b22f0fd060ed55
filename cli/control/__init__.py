"""The keywords of scontrol and their requests. Never reads a configuration file."""
