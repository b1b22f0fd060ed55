"""The compiled sharing: class and effects of sharing_reference.PlainSharing."""

from collections.abc import Callable, Sequence

class Sharing:
    def __init__(
        self,
        known: dict[object, object],
        shared: Sequence[str],
        repeated: Sequence[str],
        usual: object,
        set_field: Callable[..., None],
    ) -> None: ...
    def __call__(self, record: object) -> None: ...
