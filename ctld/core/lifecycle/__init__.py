"""Life cycles of jobs and reservations: start, wait, end, requeue; the only room that assigns a job's state. Never
chooses nodes.
"""
