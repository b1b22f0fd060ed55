"""Metrics of a node over HTTP: the machine, its GPUs, its steps, from samples that exist. Never asks NVML."""
