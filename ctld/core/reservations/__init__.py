"""Reservations: which nodes they take, when they recur and who may use them. Never starts or ends one: that is
lifecycle's.
"""
