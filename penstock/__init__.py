"""The only public import of Penstock: `from penstock import Cluster` (docs/python.md).

Nothing is imported eagerly: the cores use `penstock.values` and must not import gRPC, and the Python interface is a package
above the commands, whose request for a job it makes. So its names are looked up when they are asked for.
"""

__version__ = "0.1.0"
#: The release of Slurm whose interface Penstock follows; programs enable features by it.
SLURM_VERSION = "25.05.0"

#: Public names by the module that has them. packaging/stubs/penstock-stubs repeats them for users' type checkers: beside this
#: file it would make a circle of the whole package for ours.
PUBLIC = {
    "AsyncCluster": "sdk.aio",
    "AsyncJobHandle": "sdk.aio",
    "ChangeRecord": "sdk.records",
    "Cluster": "sdk.cluster",
    "ClusterExecutor": "sdk.executor",
    "FunctionFailed": "sdk.functioncall",
    "InvalidRequest": "sdk.errors",
    "JobHandle": "sdk.cluster",
    "JobFailed": "sdk.errors",
    "JobNotFound": "sdk.errors",
    "JobOptions": "sdk.options",
    "JobRecord": "sdk.records",
    "NodeRecord": "sdk.records",
    "UsageRecord": "sdk.records",
    "NotPermitted": "sdk.errors",
    "NotProven": "penstock.errors",
    "OutputNotHere": "sdk.output",
    "PenstockError": "penstock.errors",
    "ExpectedStart": "sdk.records",
    "RequestRefused": "sdk.errors",
    "Unreachable": "penstock.errors",
    "WaitTimeout": "sdk.errors",
    "WaitReasons": "sdk.records",
    "WillNotRun": "sdk.errors",
}


def __getattr__(name: str) -> object:
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})
