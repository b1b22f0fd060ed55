"""The store: the database as the controller sees it.

Theory of operation `Store.open` brings the schema up to date; `acquire_lease` makes this process the leader and fences
    off any other; `load` gives the live queue to the core; then one thread calls `commit` with each batch, in order.
    A batch is one transaction and carries its number and the leadership's: it is in the database completely or not at all,
    once, and only as long as this process leads. The batch's effects may leave after `commit` has returned.

Deliberately absent: rules about jobs (ctld.core), queries for users (accounting), retries of a batch (the runtime
    decides what to refuse meanwhile).

Reading order schema (accounting/schema.py first), dialect, migrate, rows, statements, committer, loader.
"""
