"""Value types shared by every layer: ids, states, sizes, times, hostlists.

Pure standard library, without I/O. Only dates.py reads the machine's time zone rules.
"""
