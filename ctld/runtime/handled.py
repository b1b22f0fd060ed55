"""The events of a batch, so that one whose rows cannot be written is known when the commit fails.

A commit that fails over a value (a number that no column holds, a text that cannot be encoded) would fail again at each
start: nodes repeat their reports, clients their requests. The event is recorded in the last words (fatalcauses.py) as one
in which the core failed. Of a batch of several events any may be the cause: then the next process writes each event in a
batch of its own, until it knows which.

Deliberately absent: failures of the database itself, which are no event's fault.
"""

from typing import Final

from ctld.core.records.events import Event
from ctld.runtime.fatalcauses import COMMIT_FAILED, NEVER_BARRED, FatalCauses
from ctld.store.errors import ValueRefused

#: Errors over a value.
_OF_VALUES: Final = (ArithmeticError, LookupError, TypeError, ValueError, ValueRefused)


class HandledEvents:
    """The events since the last seal, and those of the batch that is being committed."""

    def __init__(self, fatal_causes: FatalCauses) -> None:
        self._fatal_causes = fatal_causes
        self._singly = fatal_causes.is_cause_unknown()
        self._unsealed: list[Event] = []
        self._sealed: list[Event] = []

    def add(self, event: Event) -> None:
        """Notes an event that the core gets."""
        self._unsealed.append(event)

    def is_enough(self) -> bool:
        """Whether the batch must be sealed before the core gets another event."""
        return self._singly and bool(self._unsealed)

    def sealed(self) -> None:
        """The events since the last seal have become a batch."""
        self._sealed, self._unsealed = self._unsealed, []

    def commit_failed(self, error: BaseException | None, now_us: int) -> None:
        """Records the event whose batch cannot be written."""
        if not isinstance(error, _OF_VALUES):
            return
        suspects = [event for event in self._sealed if not isinstance(event, NEVER_BARRED)]
        self._fatal_causes.write(COMMIT_FAILED, error, suspects[0] if len(suspects) == 1 else None, None, now_us)
