"""Metrics over HTTP, for the controller and the node daemons: the text formats, access, and the endpoint.

What is measured is the daemons' own: they hand over families of samples. Never reads a daemon's state.
"""
