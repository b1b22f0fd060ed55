"""The planner: which pending jobs start now, and when and where the others will.

`plan` is the compiled form (plan.pyx) where it was built, else its oracle (reference.py), which gives the same answers
slowly. `COMPILED` says which one it is, so that the controller can warn. Both are functions of their arguments and
nothing else: no clock, no randomness, no state between calls. The rules are written down once, in contract.py.
"""

from _fastsched.reference import plan

COMPILED = False

__all__ = ["COMPILED", "plan"]
