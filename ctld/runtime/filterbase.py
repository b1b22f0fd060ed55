"""The interface of a submit filter, in Python or in Lua, in the process that runs it (filterworker.py)."""

from typing import Final, Protocol

#: The functions of a filter, each optional.
SUBMIT: Final = "job_submit"
MODIFY: Final = "job_modify"


class LoadedFilter(Protocol):
    """A loaded filter. Both functions change the dictionary, and raise FilterRefusal or FilterFailed."""

    has: tuple[str, ...]  # SUBMIT, MODIFY

    def submit(self, job: dict[str, object], call: dict[str, object]) -> None:
        """Handles a submission."""

    def modify(self, changes: dict[str, str], call: dict[str, object]) -> None:
        """Handles an update."""
