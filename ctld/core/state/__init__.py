"""The tables, their indexes and columns, the due-queues and the dirty sets; the mutators that keep them consistent.
Never decides when a job may start, end or be seen.
"""
