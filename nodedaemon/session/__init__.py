"""The programs of a session, run in its job as its user: the server's supervisor, and a terminal. Never imports a daemon."""
