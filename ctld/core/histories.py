"""How long each user's last jobs took: what run times are predicted from (predict.py).

For each user, and for each kind of job of a user (what is asked for alike is one kind), the last two run times are kept.
More of them predicted worse, and a mean over months would follow no change of work (docs/scheduling.md has what was tried).

Memory is bounded: beyond ROOM entries, who ended no job for the longest time is forgotten. Nothing of it is in the database:
a start begins with the jobs that ended less than MinJobAge ago.
"""

#: Users and kinds of jobs that are remembered, some 200 bytes each.
ROOM = 100_000

#: uid; or uid and what was asked for.
Kind = tuple[object, ...]
#: Of a kind of which only one job has ended.
UNKNOWN_S = -1


class Histories:
    """Kind -> its last two run times, in the order of their last ends."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._last_s: dict[Kind, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._last_s)

    def learn(self, kind: Kind, run_s: int) -> None:
        """A job of this kind has ended."""
        last_s, _ = self._last_s.pop(kind, (UNKNOWN_S, UNKNOWN_S))
        self._last_s[kind] = (run_s, last_s)
        if len(self._last_s) > self._room:
            del self._last_s[next(iter(self._last_s))]

    def mean_s(self, kind: Kind) -> int | None:
        """Mean of the last two, in whole seconds, rounded down; None when fewer have ended."""
        last_s, before_s = self._last_s.get(kind, (UNKNOWN_S, UNKNOWN_S))
        return None if before_s == UNKNOWN_S else (last_s + before_s) // 2
