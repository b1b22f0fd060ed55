"""`penstock pamd`: the helper of root that checks passwords by PAM for the REST daemon, and has the controller make tokens.

Reading order: `service` (what becomes of a question; no I/O), `budgets`, `attempt` (the child that asks PAM), `child` (starts it,
and ends it at its deadline), `listener` (the socket), `main`.
"""
