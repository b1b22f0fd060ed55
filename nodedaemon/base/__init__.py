"""Shared by the daemon, stepd and their helpers: configuration, framing, folders, site programs, the loop. Never knows
a step.
"""
