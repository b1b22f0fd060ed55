"""The gate: runs the tests and decides whether they passed.

    python -m tools.testgate [--out FOLDER] [--workers N] [-- PYTEST_ARGUMENT...]
    python -m tools.testgate.closing NAME=FOLDER...     # the closing lines of several runs as those of one

Of thousands of tests that start processes and wait in real time, one or two fail by chance in a whole run. A few failed
tests therefore run again, alone; those that fail again, once more. Only a test that fails each time fails the run. One that
failed and then passed is unsteady: it is named in the closing lines and in `build/unsteady.jsonl`.

There is no other retry, and nothing else is forgiven: errors of the collection, of pytest itself, tests that were collected and
never ran, more failures than chance explains, and failures of tests that are deterministic by rule.

- `recorder`: a pytest plugin, writes what happened as a file
- `runs`: starts pytest and reads that file
- `compiled`: compiles the tests once, before several workers need them
- `verdict`: what the runs together mean; no I/O
- `steady`: runs tests many times on a busy machine; no part of the gate
- `costs`: what the tests took, by folder, and the dearest ones; also in FOLDER/costs.txt
- `closing`: prints a verdict, and joins those of several runs
"""
