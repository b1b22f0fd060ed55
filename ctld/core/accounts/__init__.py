"""Accounting's entities: all-or-nothing changes, and the audit trail. Never touches a running job's allocation."""
