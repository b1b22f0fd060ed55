"""Jobs as such: arrays, heterogeneous jobs, selection by id or filter, ports, mail, prologs, holds. Never moves a job
to another state.
"""
