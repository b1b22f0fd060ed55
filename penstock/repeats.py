"""Collapses repeated log lines of one cause: logged when it first occurs, and with its count when another cause takes
its place.

A daemon that retries for hours, or gets the same request, would fill its log with one line, which hides the important
ones.
"""


class Repeats:
    """The last cause for each subject. Bounded by the number of subjects: the nodes of a cluster, one controller."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, int]] = {}

    def new(self, who: str, cause: str) -> str:
        """Returns the line to log, "" when it was the same before. A new one says how often the one before has come
        again.
        """
        last, count = self._last.get(who, ("", 0))
        if last == cause:
            self._last[who] = (cause, count + 1)
            return ""
        self._last[who] = (cause, 0)
        return cause + _again(last, count)


def _again(cause: str, count: int) -> str:
    return f" (before that {count} more times: {cause})" if count else ""
