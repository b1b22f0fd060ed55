"""The core: the controller's state and every rule about it, deterministic and free of I/O.

Theory of operation
    `Core.step(now_us, event)` takes one event, changes the state and appends outputs; `Core.seal()` returns what has
    accumulated since the last seal as one `Batch`: rows to commit, and effects that may leave only after that commit.
    The same calls give the same batches and the same digest. Time, ids, names and sizes come in with the event; nothing
    here reads a clock, a file, the environment or a random source, and nothing iterates a `set`.

    The handler of a request has two halves. The first only reads and may raise `Refused`; below `state.applying()`
    nothing may fail. An unexpected exception above that line refuses that request (lifecycle/unexpected_errors.py); below it the
    process ends, and the next one starts from the database, which has nothing of it.

Reading order
    A room imports from the rooms above it in this list alone (pyproject.toml; those in one line do not import each
    other). What a room owns and never does is the first line of its `__init__.py`; who writes which attribute of the
    state is a table in tests/tidy/test_owners.py.

    records         input (events), output (effects, rows) and the stored records; no rules
    demand          a request's demand in numbers
    state           all tables, what is due, what has changed, and the mutators
    gpus            a node's GPUs
    reservations    what is reserved, when, for whom
    jobs            arrays, heterogeneous jobs, selection, ports, mail, prologs
    queue           a pending job: association, rights, rows for the planner, priority, preemption
    limits          the books of associations, QOS and budgets, and what may start under them
    lifecycle       how jobs and reservations begin, wait, end and come back
    steps           what runs inside of an allocation
    passes          who starts now, and why the others wait
    nodes           registration, loss, health, administration, layout
    accounts        accounting's entities, and the audit trail
    requests        users' requests, checked and applied
    diagnose        why, when, what if
    clock, invariants
                    the wall clock was set forward; every count of the state, recomputed
    dispatch, settle, quick_pass, batch, digest, recover
                    handlers and timers as tables; the due-queues; a seal's pass; its rows; a hash; filling an empty state
    controller      the entry point: `step` and `seal`
"""
