"""Record of a hierarchy of control groups: its path, its controllers, and its version."""


class CgroupTree:
    """One hierarchy that groups are made in. `controllers`: those it can limit and account for."""

    __slots__ = ("controllers", "path", "unified")

    def __init__(self, path: str, controllers: tuple[str, ...], unified: bool) -> None:
        self.path = path
        self.controllers = controllers
        self.unified = unified

    @property
    def is_complete(self) -> bool:
        """Whether it can list, stop and kill a step's processes."""
        return self.unified or "freezer" in self.controllers
