"""Translates accounting's requests and reports to events and queries. Never decides."""
