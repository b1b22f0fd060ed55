"""Steps of jobs: their layout of nodes, tasks and devices, and their life cycle. Never ends a job but through
lifecycle.
"""
