"""The node daemon: it joins a node to the cluster, starts what the controller orders and reports how it ended.

Three kinds of process
    noded     one asyncio loop. It owns the decisions (`core`), the journal (`spool`) and the stream to the controller
              (`link`). It may be killed at any moment: nothing that runs depends on it.
    launcher  one warm, small, single-threaded child of its own program. It hands each order to a stepd, forking as many
              as are needed, and reaps them.
    stepd     supervises one step at a time, in a session of its own and as sub-reaper of all that the step starts. It
              runs the tasks as the user (`tasks`, `task`), carries their output to the step's clients (`streams`,
              `stream_server`) and leaves the record of the end on disk.

The modules that the launcher and its stepds import (base.framing, folders, orders, proctree; spool.steprecord;
cgroups.cgroup; penstock.crash, eventloop, oom; daemon.launcher; most of stepd) import little on purpose: each import
makes every fork slower.

Packages, each importing only those below it (contracts in pyproject.toml)
    main, adopt   the programs
    daemon        noded: its loop, the link to the controller, the launcher, ports for streams and for ssh sessions
    launch        from a launch message to the order that a stepd gets: containment, binding, environment
    gpu           GPU inventory and health, read in child processes; MIG, MPS, health checks
    mpi           PMI-1, PMI-2 and PMIx for the tasks of a step
    stepd         one step: tasks, streams, end; plugs and clients see it through protocols (plugs, stream_server, own)
    spool         persistent files: journal, claims, records
    cgroups       control groups and device access control
    core          decisions: pure, deterministic. base: framing, processes, kernel files

Reading order
    core (messages, steps, machine, environment, stepenv), spool, base.orders, daemon.launching, daemon.launcher, stepd
    (stepd, own, supervisor, plugs, taskrecord, tasks, task, streams, stream_server), daemon.stream_port, cgroups,
    daemon.supervisors, launch, daemon.link, daemon.inventory, gpu, daemon.daemon, main.

One file decides whether a step was started: the claim in its step folder. stepd makes it before it forks the
task; a restarted noded makes it in stepd's place to keep the step from starting. link(2) lets exactly one of them win.
"""
