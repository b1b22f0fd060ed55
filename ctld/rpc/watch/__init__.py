"""Watch: committed changes in their order, to whoever listens. Never decides."""
