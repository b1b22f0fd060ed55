"""The versions of Slurm's REST interface: their paths and types; answers and requests by these. Pure functions. Never calls the
controller.
"""
