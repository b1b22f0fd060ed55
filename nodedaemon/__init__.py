"""The node daemon: it joins a node to the cluster, starts what the controller orders and reports how it ended.

Three kinds of process
    noded     one asyncio loop. It owns the decisions (`core`), the journal (`spool`) and the stream to the controller
              (`link`). It may be killed at any moment: nothing that runs depends on it.
    launcher  one warm, single-threaded child, forked before gRPC is imported. It forks a stepd per step, nothing else.
    stepd     one small process per step, in a session of its own. It becomes the sub-reaper of all that the step
    starts, runs
              the task as the user (`task`), and leaves the exit record on disk.

Reading order
    core (messages, steps, machine, environment), journal, spool, orders, launcher, stepd, task, proctree, cgroup,
    supervisors, wire, link, daemon, main.

What decides whether a step was started is one file: the claim in its step folder. stepd makes it before it forks the
task; a restarted noded makes it in stepd's place to say "never". link(2) lets exactly one of them win.
"""
