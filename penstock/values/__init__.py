"""Words shared by every layer: ids, states, sizes, times, hostlists.

Pure standard library, no I/O, no clock (dates.py apart).
"""
