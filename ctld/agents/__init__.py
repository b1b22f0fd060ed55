"""The controller's side of the nodes' streams: one ordered link per node, and what is sent over it.

Reading order: `registry` (which link is whose), `link` (one stream), `launch` (effects as messages), `specs` (scripts
and environments by hash).
"""
