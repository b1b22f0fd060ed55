"""The options of a job, and the request built from them. Never sends it."""
