"""A node's GPUs: places, kinds, counts, work done to idle ones. Never ends or starts a job."""
