"""GPUs on a node: whatever asks NVML or changes a card. What it means is judged in nodedaemon.core.

Reading order
    in the children   nvml (calls, each announced; it alone imports pynvml), finding, links, signals, probe (which polls),
                      xidevents (which waits for events)
    in the daemon     frames (what goes between them), child, once, kmsg, xidmerge, watch (all of it, for the agent), agent

NVML is only ever called in the children: a driver that hangs takes only them with it.
"""
