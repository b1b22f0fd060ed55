"""DebugFlags of a node daemon: lines of its log by subsystem, as the controller's (ctld/runtime/debuglog.py) are of its own.

What the flags show passes the daemon's loop anyway: events before the core handles them, and the effects of a batch when its
records are on disk. So the core stays free of logging, and without flags the loop compares one set with nothing.

Rules
    - A flag's lines are of the level info, as Slurm's.
    - Of an event or effect only the fields of `_SHOWN` are logged: no script, environment, command line or message of a user.
    - One turn makes at most LINES_MAX lines, then says how many more there are.
    - penstock/values/debugflags.py names the flags (NODE_EFFECTS); here is what each follows, as a table.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from nodedaemon.core import messages as core
from nodedaemon.core.steps import StepKey
from penstock.values.debugflags import NODE_EFFECTS

log = logging.getLogger("penstock.noded")

#: Of one turn of the loop.
LINES_MAX: Final = 1_000
_VALUE_CHARS_MAX: Final = 200
EventOrEffect = core.NodeCoreEvent | core.NodeEffect

#: Flag -> the events and effects that it shows.
_FOLLOWED: Final[dict[str, tuple[type[EventOrEffect], ...]]] = {
    "Agent": (
        core.Launch, core.Signal, core.Terminate, core.SuspendSteps, core.Notify, core.Forget, core.Reboot, core.Order,
        core.AckCommand,
    ),
    "Gres": (core.StartStep, core.DoOrder),
    "Network": (core.LinkUp, core.LinkDown, core.DropLink),
    "Power": (core.RebootMachine,),
    "Protocol": (core.SendReport, core.ReportsAcked),
    "Steps": (
        core.StartStep, core.StepBegan, core.StepEnded, core.DeliverSignal, core.SweepStep, core.ReportUnkillable, core.Notice,
    ),
}  # fmt: skip
#: The fields that a line may have.
_SHOWN: Final = (
    "link", "sequence", "epoch", "signal", "signals", "scope", "grace_us", "suspended", "pid", "exit_code", "exit_signal",
    "failure", "out_of_memory", "untried", "rebooted", "refused", "through", "reason", "drain", "fail", "clear", "why",
)  # fmt: skip


class NodeDebugLog:
    """The flags in force. Belongs to the loop's thread."""

    def __init__(self) -> None:
        self.flags: tuple[str, ...] = ()
        self._flags_of: dict[type[EventOrEffect], list[str]] = {}

    def use(self, flags: Sequence[str]) -> None:
        """Sets the flags; those that show nothing here are left out."""
        chosen = tuple(flag for flag in NODE_EFFECTS if flag in flags)
        if chosen == self.flags:
            return
        self.flags = chosen
        self._flags_of = {}
        for flag in chosen:
            for kind in _FOLLOWED.get(flag, ()):
                self._flags_of.setdefault(kind, []).append(flag)
        log.info("DebugFlags: %s", ",".join(chosen) or "none")

    def see(self, seen: Iterable[EventOrEffect]) -> None:
        """Logs what the flags show of a turn's events, or of its effects."""
        if not self._flags_of:
            return
        lines = [(flag, one) for one in seen for flag in self._flags_of.get(type(one), ())]
        for flag, one in lines[:LINES_MAX]:
            if flag == "Gres" and isinstance(one, core.StartStep):
                if one.order.gpus:
                    _say(flag, one.key, f"has {','.join(one.order.gpus)}")
            else:
                _say(flag, getattr(one, "key", None), _described(one))
        if len(lines) > LINES_MAX:
            _say(lines[-1][0], None, f"and {len(lines) - LINES_MAX} more of this turn")


def _say(flag: str, key: StepKey | None, text: str) -> None:
    if key is not None and key.job_id:
        log.info("DebugFlags=%s: step %s: %s", flag, key, text)
    else:
        log.info("DebugFlags=%s: %s", flag, text)


def _described(seen: EventOrEffect) -> str:
    """The kind of an event or effect, and its fields that may be shown and say something."""
    words = [type(seen).__name__]
    if isinstance(seen, core.SendReport):
        words.append(type(seen.report).__name__)
    for name in _SHOWN:
        value = getattr(seen, name, None)
        if value is None or value in ("", ()) or value is False:
            continue
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words.append(f"{name}={text[:_VALUE_CHARS_MAX]}")
    return " ".join(words)
