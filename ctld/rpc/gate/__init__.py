"""The gate that every call passes: authentication, rights, size and rate limits. Never interprets a request."""
