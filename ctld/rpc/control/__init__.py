"""The Controller service: configuration, administration, certificates of nodes. Never touches a job."""
