"""Scheduling passes: which jobs start now, which are preempted, whose time slice it is, and why the others wait. Never
talks to a caller.
"""
