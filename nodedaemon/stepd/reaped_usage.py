"""The usage of the processes that a stepd has reaped, as the kernel counted it for each (wait4)."""

import resource

#: The kernel includes memory that the task's process shared with stepd before its exec. At or below that plus this, the
#: usage is unknown.
FORK_RSS_KB = 4096
_BLOCK_BYTES = 512  # getrusage counts blocks of this size


class ReapedUsage:
    """The sum over the reaped processes of a step."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self._user_s = 0.0
        self._system_s = 0.0
        self._rss_kb = 0
        self.blocks_read = 0
        self.blocks_written = 0

    def add(self, used: resource.struct_rusage) -> None:
        """Adds the usage of a reaped process and its own reaped children."""
        self._user_s += used.ru_utime
        self._system_s += used.ru_stime
        self.cpu_s = self._user_s + self._system_s
        self._rss_kb = max(self._rss_kb, used.ru_maxrss)
        self.blocks_read += used.ru_inblock
        self.blocks_written += used.ru_oublock

    def recorded(self) -> tuple[int, ...]:
        """Returns user and system CPU in us, largest RSS in kB, bytes read and written: the usage of an exit record."""
        floor_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + FORK_RSS_KB
        return (
            int(self._user_s * 1_000_000),
            int(self._system_s * 1_000_000),
            self._rss_kb if self._rss_kb > floor_kb else 0,
            self.blocks_read * _BLOCK_BYTES,
            self.blocks_written * _BLOCK_BYTES,
        )
