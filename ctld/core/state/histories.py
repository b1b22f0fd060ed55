"""Durations of each user's last jobs: the input of run-time prediction (queue/prediction.py).

For each user, and for each kind of job of a user (jobs with equal requests are one kind), the last two run times are
kept. More of them predicted worse, and a mean over months would not follow changes of work (docs/scheduling.md has the
experiments).

Memory is bounded: beyond ROOM entries the least recently updated one is dropped. Nothing of it is in the database: a
start begins with the jobs that ended less than MinJobAge ago.
"""

from collections import OrderedDict

#: Users and kinds of jobs that are kept, some 300 bytes each.
ROOM = 100_000

#: uid; or uid and the request.
HistoryKind = tuple[object, ...]
#: For a kind of which only one job has ended.
UNKNOWN_S = -1


class Histories:
    """HistoryKind -> its last two run times, in the order of their last ends."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._last_s: OrderedDict[HistoryKind, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last_s)

    def learn(self, kind: HistoryKind, run_s: int) -> None:
        """Adds the run time of a job of this kind that has ended."""
        last_s, _ = self._last_s.pop(kind, (UNKNOWN_S, UNKNOWN_S))
        self._last_s[kind] = (run_s, last_s)
        if len(self._last_s) > self._room:
            self._last_s.popitem(last=False)

    def mean_s(self, kind: HistoryKind) -> int | None:
        """Returns the mean of the last two, in whole seconds, rounded down; None when fewer have ended."""
        last_s, before_s = self._last_s.get(kind, (UNKNOWN_S, UNKNOWN_S))
        return None if before_s == UNKNOWN_S else (last_s + before_s) // 2
