"""The command server: a process of one user whose workers run commands without a new Python start. Never serves another
user.
"""
