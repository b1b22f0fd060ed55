"""Shared by all commands: options, environment, output, listings, refusals as exit codes. Never imports a command."""
