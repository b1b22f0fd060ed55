"""Accounting: reads the usage of jobs, for sacct. Reads the controller's database, never its memory.

Reading order schema (the tables), filter (a query and its result), query (the SQL), records (the rows
    with their steps, in order), database (connections that cannot write).
"""
