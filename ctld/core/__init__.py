"""The core: the controller's state and every rule about it, deterministic and free of I/O.

Theory of operation `Core.step(now_us, event)` takes one event, changes the state and appends outputs; `Core.seal()`
    hands out what has gathered since the last seal as one `Batch`: rows to commit, and effects that may leave only
    after that commit. The same calls give the same batches and the same digest. Time, ids, names and sizes come in
    with the event; nothing here reads a clock, a file, the environment or a random source, and nothing iterates a
    `set`.

    Each handler has two halves. The first only reads and may raise `Refused`; below the line `# -- apply` nothing may
    fail. An unexpected exception above the line refuses that event; below it the process ends, and the database, which
    has seen nothing of it, is the truth.

Reading order model (records; plain: requests kept small), events (what comes in), effects (what goes out), state (the
    only mutator), controller (the funnel), job_life, step_life and node_life (life cycles as tables), then one policy a
    file: submit, arrays, depends, priority (with factors, and fairshare over decay and resets), assocs and accounts, qos,
    update, cancel, reserve (with reserve_*), schedule (with columns, pending, planning, shapes, devices), explain; sharing,
    suspend, preempt (who for whom), victims (done), gang; timers, recover (entering: a long queue after a start),
    invariants.
"""
