"""GPUs on a node: whatever asks NVML or changes a card. What it means is judged in nodedaemon.core.

Reading order
    nvml (calls, each announced; the only module that imports pynvml), finding, links, signals, probe (the child that polls),
    xidevents (the child that waits for events), kmsg, xidmerge, child (a child as its parent sees it), watch (all of them, for the daemon).

NVML is only ever called in the children: a driver that hangs takes only them with it.
"""
