"""How long tests wait for what comes at once: LIMIT_S, for an event, an answer, the end of a process.

It is far more than a busy machine takes, as one whose disk stands still for half a minute is no fault of the program. A
passing test is not slowed by it. Shorter limits are only for what must not come, and for time-outs under test.
"""

LIMIT_S = 120.0
