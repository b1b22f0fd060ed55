"""Data that survives the daemon: fences, exit records, unacknowledged reports. Never decides."""
