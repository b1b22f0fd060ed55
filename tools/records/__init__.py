"""The field tables of the stored records, and the generator that writes code from them.

    declare.py                             the elements of a field table
    jobs.py, cluster.py, accounts.py       the tables: the only declaration of each stored record
    code.py, regions.py                    the generators, and their targets

From a table come the attributes of the record's classes in ctld/core, the columns of its SQL table, and ctld/store/rows.py,
which turns rows into SQL parameters and back. All of it is straight-line Python and is committed: the controller looks
nothing up by name at run time.
"""
