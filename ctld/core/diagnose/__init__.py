"""Explains why a job waits, what would start it and when: by the same rules and the same planner. Never changes
anything.
"""
