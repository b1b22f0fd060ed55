"""The core of the node daemon: the state of a node's steps and every rule about it, without I/O.

Theory of operation
    `NodeMachine.step(now_us, event)` takes one event; `seal()` returns what has accumulated as one `Batch`: records
    for the journal and effects. No effect leaves before the records sealed with it are on disk, so a replay of the
    journal never lags behind what was sent. The same calls give the same batches; time comes in with the call.

    A step's life is the table in `steps`. Commands may come twice, late or in the wrong order: they are keyed by
    (job, attempt, step), a key is started at most once, and every key that was accepted, or ended before it was
    launched, ends in exactly one `Exited` report. A command of a lower epoch than the highest seen is refused.

Deliberately absent: processes, files, clocks, logging, protobuf. Leases are enforced by stepd (base/lease.py).
"""
