"""What is said between the daemon (mig.py) and the child that divides a GPU (migchild.py): one JSON object a line."""

import msgspec


class Order(msgspec.Struct):
    """Make the GPU so; () = whole. `fallback`: what it is put back to when that fails; None = what it is now."""

    uuid: str
    layout: tuple[str, ...]
    fallback: tuple[str, ...] | None = None


class Doing(msgspec.Struct, tag=True):
    """A call of NVML, before it is made."""

    function: str


class Outcome(msgspec.Struct, tag=True):
    """The end. `layout`: what the GPU is now; None = nothing that can be given to jobs."""

    ok: bool
    text: str = ""
    layout: tuple[str, ...] | None = None


Word = Doing | Outcome
