"""Limits of associations, QOS, budgets and nodes: the books, the rules, the checks. Never wakes a job: that is in
lifecycle.
"""
