"""Records, events, effects and rows: data classes without rules. Never imports the state."""
