"""The read-only questions why, when and what if, asked of the core between two events. Never changes anything."""
