"""Answers about nodes, partitions, reservations and GPUs from the read snapshot. Never decides."""
