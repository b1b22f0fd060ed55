"""Amendments: changes that an administrator makes to the configuration with scontrol, without editing the file.

`scontrol update partitionname=`, `create` and `delete` take effect at once, and the controller stores them, so that
they survive a restart. An amendment holds keys of slurm.conf and their values, in the syntax of the file, for one node
or one partition. penstock/config/amend.py defines how amendments and a file that is read again are reconciled.
"""

from typing import NamedTuple

NODE, PARTITION = "node", "partition"


class Amendment(NamedTuple):
    """The amendment of one node or partition. Primary key (kind, name)."""

    kind: str
    name: str
    pairs: tuple[tuple[str, str], ...] = ()  # key of slurm.conf, value
    made: bool = False  # the file does not define it
    gone: bool = False  # the file defines it; it was deleted

    @property
    def key(self) -> tuple[str, str]:
        """The node or partition that the amendment changes."""
        return self.kind, self.name

    def with_pairs(self, pairs: tuple[tuple[str, str], ...]) -> "Amendment":
        """Returns the amendment with more settings; a later value of a key replaces an earlier one."""
        return self._replace(pairs=tuple((dict(self.pairs) | dict(pairs)).items()))
