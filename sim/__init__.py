"""The simulator: the controller's own core and planner in virtual time.

It runs `ctld.core`, `_fastsched` and `nodedaemon.core` unchanged; no scheduling code is duplicated here. Nothing
imports the simulator.
"""
