"""Accounting: reading what jobs have used, for sacct. Reads the controller's database, never its memory.

Reading order schema (the tables), filter (what is asked and what is answered), query (which rows), records (the rows
    with their steps, in order), database (connections that cannot write).
"""
