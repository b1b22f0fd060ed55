"""PMI and PMIx of a step's tasks. Never leaves the step's network."""
