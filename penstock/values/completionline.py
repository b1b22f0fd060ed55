"""The words of a line of jobcomp/filetxt, for who writes it (the controller) and who reads it (`sacct -f`).

Values may contain blanks and `=`, so one ends where the next known word begins. A text of a user's in a line that we write
contains none of them.
"""

import re
from typing import Final

WORDS: Final = (
    "JobId", "ArrayJobId", "ArrayTaskId", "HetJobId", "HetJobOffset", "UserId", "GroupId", "Name", "JobState", "Partition",
    "TimeLimit", "StartTime", "EndTime", "NodeList", "NodeCnt", "ProcCnt", "WorkDir", "ReservationName", "Gres", "Tres",
    "Account", "QOS", "WcKey", "Cluster", "SubmitTime", "EligibleTime", "DerivedExitCode", "ExitCode",
)  # fmt: skip
NEXT_WORD: Final = re.compile(rf"(?:^|\s)({'|'.join(sorted(WORDS, key=len, reverse=True))})=")


def without_words(text: str) -> str:
    """Returns a text in which no word begins a value: ` UserId=root(0)` is ` UserId\\x3droot(0)`."""
    return NEXT_WORD.sub(lambda found: f"{found[0][:-1]}\\x3d", text)
