"""GPUs on a node: all code that asks NVML or changes a card. The results are judged in nodedaemon.core.

Reading order
    in the children   nvml (announced calls; it alone imports pynvml), finding, links, signals, probe (which polls),
                      xidevents (which waits for events)
    in the daemon     frames (the protocol between them), child, once, kmsg, xidmerge, watch (the whole, for the agent),
                      agent

NVML is only ever called in the children: a driver that hangs takes only them with it.
"""
