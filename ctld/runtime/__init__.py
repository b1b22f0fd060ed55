"""What surrounds the core: the loop that feeds it, the clock, the read snapshot, the flight recorder.

Reading order: `loop` (events in, batches to the database, effects out), `snapshot` (what has committed, for readers),
`clock`, `flightrec`, `points` (where tests may make the process die), `ports` (what the loop wants of a store).
"""
