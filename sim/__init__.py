"""The simulator: the controller's own core and planner in virtual time.

It drives `ctld.core`, `_fastsched` and `nodedaemon.core` as they are; nothing of scheduling is written a second time
here. Nothing imports the simulator.
"""
