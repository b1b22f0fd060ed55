"""Watch: committed changes in their order, to their watchers. Never decides."""
