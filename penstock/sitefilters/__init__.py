"""Runs a site's filters in Lua and in Python: of jobs, in the controller's workers, and of options, beside a command. Never
reads a file, and decides nothing.
"""
