"""The core of the node daemon: what a node knows about its steps and does about them, without I/O.

Theory of operation
    `NodeMachine.step(now_us, event)` takes one event; `seal()` hands out what has gathered as one `Batch`: records
    for the journal and effects. No effect leaves before the records sealed with it are on disk, so the journal
    replayed is always at least as far as the world has been told. The same calls give the same batches; time comes in
    with the call.

    A step's life is the table in `steps`. Commands may come twice, late or in the wrong order: they are keyed by
    (job, attempt, step), a key is started at most once, and every key that was accepted, or ended before it was
    launched, ends in exactly one StepExited. A command of a lower epoch than the highest seen is refused.

Deliberately absent: processes, files, clocks, logging, protobuf. Leases (the stop of jobs in a long partition) are
not here yet.
"""
