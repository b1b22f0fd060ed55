"""The log of a daemon: a file or standard error, in its form, with its level. A thread writes it (penstock/logfile.py).

The file is opened to append, so `copytruncate` of logrotate works; `hang_up` (SIGHUP) opens it again by its name after it was
moved. A change that cannot be made is logged, and the log stays as it is: a daemon works without a log rather than not at all.
"""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Final, NamedTuple

from penstock.logfile import BackgroundHandler, LogSink
from penstock.logs.journal import JournalSink, is_journal
from penstock.logs.structured import JsonFormatter, SpanOf, no_span
from penstock.logtext import CleanFormatter
from penstock.values.loglevels import level_of

#: LogTimeFormat: the format of `asctime`, and whether milliseconds follow. Others are as iso8601_ms, without the "T".
_TIMES: Final = {
    "iso8601": ("%Y-%m-%dT%H:%M:%S", False),
    "iso8601_ms": ("%Y-%m-%dT%H:%M:%S", True),
    "rfc5424": ("%Y-%m-%dT%H:%M:%S%z", False),
    "rfc5424_ms": ("%Y-%m-%dT%H:%M:%S%z", False),
    "rfc3339": ("%Y-%m-%dT%H:%M:%S%z", False),
    "short": ("%b %d %H:%M:%S", False),
}
#: Libraries that say at the level info what nobody asked.
_QUIETED: Final = ("alembic",)

log = logging.getLogger("penstock.log")


class LogSettings(NamedTuple):
    """What the configuration says of a log."""

    path: str = ""  # "" = standard error
    format: str = "text"
    level: str = "info"
    time_format: str = ""


class DaemonLog:
    """The one log of this process. `pattern`: the text form of a line, with %(asctime)s; `logger`: whose level it sets.

    `span_of` gives lines with fields their place in a trace; the daemon sets it.
    """

    def __init__(self, daemon: str, pattern: str, settings: LogSettings, node: str = "", logger: str = "") -> None:
        """Raises OSError for a file that cannot be opened."""
        self.span_of: SpanOf = no_span
        self._daemon = daemon
        self._pattern = pattern
        self._node = node
        self._logger = logger
        self._level_before = logging.getLogger(logger).level
        self._handler: BackgroundHandler | None = None
        self._settings = self._asked = settings
        self._open(settings)

    @property
    def settings(self) -> LogSettings:
        """What is in force."""
        return self._settings

    def set(self, settings: LogSettings) -> None:
        """Changes them, if they differ."""
        if settings in (self._settings, self._asked):
            return
        self._asked = settings
        if self._try(settings) or self._try(settings._replace(path=self._settings.path)):
            path, form, level, _ = self._settings
            log.info("the log: %s, form %s, level %s", path or "standard error", form, level)

    def hang_up(self) -> None:
        """Opens the file again by its name."""
        self._try(self._settings)

    def toggle_debug(self) -> None:
        """Logs at the level debug, or again at the level of the settings."""
        logger, usual = logging.getLogger(self._logger), level_of(self._settings.level)
        logger.setLevel(usual if logger.level == logging.DEBUG else logging.DEBUG)

    def handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """SIGHUP opens the file again, SIGUSR2 switches the level debug on and off."""
        loop.add_signal_handler(signal.SIGHUP, self.hang_up)
        loop.add_signal_handler(signal.SIGUSR2, self.toggle_debug)

    def flush(self) -> None:
        """Waits until what was logged is written, for a short time at most."""
        if self._handler is not None:
            self._handler.flush()

    def close(self) -> None:
        """Writes what was logged, for a short time at most, and ends the log. The level is again what it was."""
        if self._handler is not None:
            logging.getLogger(self._logger).setLevel(self._level_before)
            logging.getLogger().removeHandler(self._handler)
            self._handler.close()
            self._handler = None

    def _try(self, settings: LogSettings) -> bool:
        try:
            self._open(settings)
        except OSError as error:
            log.error("log file %s: %s; the log stays where it is", settings.path, error.strerror or error)
            return False
        return True

    def _open(self, settings: LogSettings) -> None:
        to_journal = not settings.path and settings.format == "text" and is_journal()
        if settings.path:
            Path(settings.path).parent.mkdir(parents=True, exist_ok=True)
            stream: LogSink = open(settings.path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 (kept open)
        else:
            stream = JournalSink() if to_journal else sys.stderr
        handler = BackgroundHandler(stream, owns=bool(settings.path) or to_journal, after=self._handler)
        is_structured = to_journal or settings.format == "json"
        handler.setFormatter(self._structured() if is_structured else self._text(settings))
        logging.getLogger(self._logger).setLevel(level_of(settings.level))
        for name in _QUIETED:
            logging.getLogger(name).setLevel(logging.WARNING)
        root = logging.getLogger()
        root.addHandler(handler)
        if self._handler is not None:
            root.removeHandler(self._handler)
            self._handler.finish()
        self._handler = handler
        self._settings = settings

    def _structured(self) -> JsonFormatter:
        return JsonFormatter(self._daemon, self._node, lambda fields: self.span_of(fields))

    def _text(self, settings: LogSettings) -> CleanFormatter:
        pattern, has_ms = _TIMES.get(settings.time_format, ("", False))
        stamp = "%(asctime)s.%(msecs)03d" if has_ms else "%(asctime)s"
        return CleanFormatter(self._pattern.replace("%(asctime)s", stamp), pattern or None)
