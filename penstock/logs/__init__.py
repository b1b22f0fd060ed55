"""The logs of daemons: where they go, their three forms (text, JSON lines, fields of the journal), and the names of events.

Reading order: events (the table of names), structured (a record as fields, and as a line of JSON), journal (systemd's socket),
daemonlog (what a daemon holds: its file, its form, its level).
"""
