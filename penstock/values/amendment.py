"""What an administrator has changed of the configuration by hand, beside the file.

`scontrol update partitionname=`, `create` and `delete` take force at once and are kept by the controller, so that a restart
changes nothing. An amendment holds keys of slurm.conf with their values as they would stand there; it is about one node
or one partition. What becomes of amendments when the file is read again stands in penstock/config/amend.py.
"""

from typing import NamedTuple

NODE, PARTITION = "node", "partition"


class Amendment(NamedTuple):
    """One node's or partition's. Primary key (kind, name)."""

    kind: str
    name: str
    pairs: tuple[tuple[str, str], ...] = ()  # key of slurm.conf, value
    made: bool = False  # it does not stand in the file
    gone: bool = False  # it stands in the file, and was deleted

    @property
    def key(self) -> tuple[str, str]:
        """What it is about."""
        return self.kind, self.name

    def with_pairs(self, pairs: tuple[tuple[str, str], ...]) -> "Amendment":
        """With more said; what is said of the same key replaces what was."""
        return self._replace(pairs=tuple((dict(self.pairs) | dict(pairs)).items()))
