"""Deliveries of committed events to the site's receivers: job completion (JobCompType) and webhooks.

    a batch -> outbox.py: rows of the same transaction -> deliverer.py: one task a receiver -> receivers.py, poster.py

At least once, in the order of the commits, across restarts. The loop only appends rows and wakes tasks: it never waits.
"""
