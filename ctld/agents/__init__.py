"""The controller's side of the nodes' streams: one ordered link per node, and the messages sent over it.

Reading order: `registry` (the links by node), `link` (one stream), `launch` (effects as messages), `specs` (scripts and
environments by hash).
"""
