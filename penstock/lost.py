"""The consequence of a lost answer: one rule for every method that changes something.

A request that was sent and not answered may have been carried out: the controller makes a change durable before it
answers, and may die in between. So from the first attempt that was lost in this way

- a request whose method is idempotent (REPEATED) is sent again. A refusal of a later attempt may then be caused by the
  first, and says so; a request with an idempotency key (KEYED) is recognised by the controller;
- a request that would do more the second time (ONCE: it adds, assigns a name, or is an order) is not;
- giving up raises `NotKnown`, since the outcome is unknown, and never an error that means failure.

Methods that only read are not in the table: for them a lost answer is no answer. A test compares it with proto/.
"""

from typing import Final

from penstock.errors import NotKnown, PenstockError, Unreachable
from penstock.values.refusals import Code

KEYED = "keyed"
REPEATED = "repeated"
ONCE = "once"
CHANGES: Final = {
    "SubmitJob": KEYED,
    "CreateStep": KEYED,
    # the final state is the same, however often it is done; names can be assigned only once
    "CancelJobs": REPEATED,
    "ChangeAccounts": REPEATED,
    "ChangeMany": REPEATED,
    "ChangeQos": REPEATED,
    "ClearTriggers": REPEATED,
    "CreateNodes": REPEATED,
    "CreateNodeToken": REPEATED,  # a lost token was never used, and expires
    "CreatePartition": REPEATED,
    "DeleteNodes": REPEATED,
    "DeletePartition": REPEATED,
    "DeleteReservation": REPEATED,
    "EndAllocation": REPEATED,
    "FixRunaway": REPEATED,
    "IssueToken": REPEATED,
    "JoinNode": REPEATED,
    "ModifyRecords": REPEATED,
    "Purge": REPEATED,
    "Reconfigure": REPEATED,
    "RenewCertificate": REPEATED,  # a lost certificate is for the same key and name
    "ResetDiagnostics": REPEATED,
    "RevokePersonalToken": REPEATED,
    "RevokeTokens": REPEATED,
    "SetController": REPEATED,
    "UpdateCrontab": REPEATED,
    "UpdateNodes": REPEATED,
    "UpdatePartition": REPEATED,
    "ControlJobs": ONCE,  # would requeue a job that runs again already
    "CreatePersonalToken": ONCE,  # it exists, and its token was lost: revoke it and make another one
    "CreateReservation": ONCE,  # without a name it gets a generated one
    "LoadArchive": ONCE,
    "NotifyJob": ONCE,
    "SetTrigger": ONCE,
    "Shutdown": ONCE,  # might stop the successor that a supervisor has started
    "UpdateJobs": ONCE,  # TimeLimit=+30
    "UpdateReservation": ONCE,  # Duration+=30
}

#: Statuses without a refusal's number after which a sent request may have been executed.
UNDECIDED_STATUSES: Final = frozenset(
    {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN", "INTERNAL", "ABORTED", "DATA_LOSS"}
)
#: Refusals that precede the check of the key.
_UNREAD: Final = frozenset(
    {Code.BUSY, Code.STORAGE_AWAY, Code.STORAGE_FULL, Code.RATE_LIMITED, Code.STALE_REQUEST, Code.ACCESS_DENIED,
     Code.INTERNAL}
)  # fmt: skip

NOT_KNOWN: Final = "it was sent and not answered: whether it was executed is not known; check before you repeat it"
MAY_BE_REPEATED: Final = "it was sent and not answered: whether it was executed is not known; it may be repeated"
SENT_BEFORE: Final = "it was sent before and not answered: that attempt may have been executed"


class CallOutcome:
    """The outcome of one request over all its attempts."""

    __slots__ = ("_rule", "is_lost")

    def __init__(self, method: str) -> None:
        self._rule = CHANGES.get(method, "")
        self.is_lost = False

    def sent(self, status: str, number: str) -> None:
        """Records an attempt that was sent whole and ended with this status; `number`: the refusal's, if the controller
        gave one.
        """
        self.is_lost = self.is_lost or (not number and status in UNDECIDED_STATUSES)

    def is_over(self) -> bool:
        """Whether the request must not be sent again."""
        return self.is_lost and self._rule == ONCE

    def final_error(self, error: PenstockError) -> PenstockError:
        """Returns the error for the caller when the last attempt ended with this one."""
        if not self.is_lost or not self._rule:
            return error
        if isinstance(error, Unreachable) or (self._rule == KEYED and error.code in _UNREAD):
            return NotKnown(error.text, NOT_KNOWN if self._rule == ONCE else MAY_BE_REPEATED, error.code)
        if self._rule != KEYED:
            error.detail = f"{error.detail}\n{SENT_BEFORE}" if error.detail else SENT_BEFORE
        return error
