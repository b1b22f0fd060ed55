"""The protocol between the daemon (mig.py) and the child that divides a GPU (migchild.py): one JSON object a line."""

import msgspec


class DivisionOrder(msgspec.Struct):
    """The requested layout; () = whole. `fallback`: the layout to restore when that fails; None = the present one."""

    uuid: str
    layout: tuple[str, ...]
    fallback: tuple[str, ...] | None = None


class CallAnnounced(msgspec.Struct, tag=True):
    """The announcement of a call of NVML."""

    function: str


class DivisionOutcome(msgspec.Struct, tag=True):
    """The result. `layout`: the present layout; None = none that can be allocated to jobs."""

    ok: bool
    text: str = ""
    layout: tuple[str, ...] | None = None


DivisionMessage = CallAnnounced | DivisionOutcome
