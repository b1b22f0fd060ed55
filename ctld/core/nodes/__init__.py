"""Nodes: registration, loss, reboot, health, administration, and the layout that a configuration gives them. Never
schedules.
"""
