"""The node daemon: it joins a node to the cluster, starts what the controller orders and reports how it ended.

Three kinds of process
    noded     one asyncio loop. It owns the decisions (`core`), the journal (`spool`) and the stream to the controller
              (`link`). It may be killed at any moment: nothing that runs depends on it.
    launcher  one warm, small, single-threaded child of its own program. It hands each order to a stepd, forking as many
              as are needed, and reaps them.
    stepd     supervises one step at a time, in a session of its own and as sub-reaper of all that the step starts. It
              runs the tasks as the user (`tasks`, `task`), carries their output to the step's clients (`streams`,
              `stream_server`) and leaves the record of the end on disk.

What the launcher and its stepds import (framing, folders, crash, context, loop, orders, proctree, cgroup, steprecord,
launcher, stepd, supervisor, plugs, tasks, task, taskhooks, kept, streams, stream_server) is kept light on purpose: each
fork pays for it.

Reading order
    core (messages, steps, machine, environment, stepenv), journal, steprecord, spool, orders, launching, launcher, stepd,
    supervisor, plugs, tasks, task, kept, streams, stream_server, stream_port, proctree, cgroup, supervisors, wire,
    wire_steps, link, inventory, gpu, daemon, main.

What decides whether a step was started is one file: the claim in its step folder. stepd makes it before it forks the
task; a restarted noded makes it in stepd's place to say "never". link(2) lets exactly one of them win.
"""
