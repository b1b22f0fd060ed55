"""The Python interface; its names are imported from `penstock`, and docs/python.md describes it.

Every request is the one that a command makes: a submission is sbatch's, with its options by their long names. `questions`
has the requests and what is made of the answers, once; `cluster` asks and blocks, `aio` asks from asyncio, `functioncall` and
`executor` run Python functions as jobs, `testing` is a plug-in of pytest.
"""
