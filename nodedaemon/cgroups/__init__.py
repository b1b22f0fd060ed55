"""Control groups: found, created, limited, emptied. Never decides which job gets what."""
