"""A pending job's place in the queue: its association and rights, its rows for the planner, its priority, what it may
preempt. Never starts a job.
"""
