"""Cluster-wide state of GPUs: counts, and work in progress. A node's own GPUs are in its record."""

from ctld.core.records.gpu import Extra
from ctld.core.state.gpu_mix import Mix


class GpuTables:
    """Kinds are found by nodes/layout.py; the rest belongs to the gpus room and to MIG division."""

    __slots__ = (
        "care_timer", "divisible", "extras", "mig_due_us", "mig_waits", "mix", "pairs", "relearn_due", "share_units",
        "sizes", "works",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sizes: tuple[int, ...] = ()  # memory that GPUs of the cluster have, in MB (gpus/kinds.py)
        self.pairs: dict[tuple[str, int], None] = {}  # (type, memory) that some GPU has
        self.extras: dict[tuple[str, str], Extra] = {}  # kinds of GPUs that are counted apart
        self.share_units: dict[str, int] = {}  # GRES name -> maximum shares of one GPU
        self.mix: Mix | None = None  # queue/gpu_sharing.py
        self.relearn_due: dict[str, None] = {}  # nodes whose GPUs require another layout (layout.relearn)
        self.care_timer = False  # the timer is set (gpus/care.py)
        self.works: dict[str, None] = {}  # nodes with work in progress on a GPU
        self.divisible: tuple[str, ...] = ()  # nodes with GPUs that may be divided (passes/mig_division.py)
        self.mig_waits: dict[int, str] = {}  # job id -> the division that it waits for, as text
        self.mig_due_us = 0  # the time of the timer
