"""The runtime around the core: the loop that feeds it, the clock, the read snapshot, the flight recorder.

Reading order: `loop` (events in, batches to the database, effects out), `snapshot` (the committed state, for readers),
`clock`, `flightrec`, `ports` (the interface of a store).
"""
