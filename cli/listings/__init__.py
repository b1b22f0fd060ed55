"""Tables and JSON of jobs, nodes, partitions and accounting. Never changes anything."""
