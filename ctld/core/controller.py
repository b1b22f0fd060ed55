"""The single entry point of the core: `step` takes every event, `seal` returns the resulting batch.

    core = Core(config, loaded, now_us)
    core.step(now_us, event)      # as often as there are events
    batch = core.seal()           # when the last batch has committed; None = nothing to do

The handlers are listed in dispatch.py, their follow-up work in settle.py, the scheduling pass in quick_pass.py, and the
rows in batch.py. `seal` runs the quick scheduling pass first, once for all events since the last seal: under load
batches grow and passes do not. Time never goes backwards in the core: a `now_us` below the last one is replaced by the
last one.
"""

from ctld.core import quick_pass, settle
from ctld.core.batch import build
from ctld.core.digest import digest
from ctld.core.dispatch import HANDLERS, TIMERS
from ctld.core.invariants import check
from ctld.core.lifecycle import depends, unexpected_errors
from ctld.core.limits import budgets
from ctld.core.passes import wait_reasons
from ctld.core.records.effects import Batch, Refusal, Refused
from ctld.core.records.events import Event, Quarantine
from ctld.core.recover import LoadedState, recover
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer, TimerKey
from penstock.values.config import Config

#: Timers handled in one step, to bound its duration; the rest is handled at the next tick.
TIMERS_PER_STEP_MAX = 10_000


class Core:
    """The controller without I/O. One thread calls it.

    `is_stored` False is for a core whose state ends with its process (the simulator): its batches have no rows, no
    history and no acknowledgements. Its decisions are the same.
    """

    def __init__(
        self, config: Config, loaded: LoadedState, now_us: int, consume: bool = False, is_stored: bool = True
    ) -> None:
        """`consume`: may empty `loaded.jobs` (recover.py)."""
        self.state = ClusterState()
        self.state.outputs.is_stored = is_stored
        self._sequence = 0
        self._now_us = now_us
        self._scheduled = False  # nothing has happened since the last pass
        self._event: Event | None = None  # the event that is being handled
        self._timer: tuple[Timer, TimerKey, int] | None = None  # the timer that is being handled
        recover(self.state, config, loaded, now_us, consume)

    def step(self, now_us: int, event: Event) -> None:
        """Handles one event.

        A refusal becomes its reply, and so does any other error while nothing is applied (lifecycle/unexpected_errors.py);
        afterwards it leaves the state unusable.
        """
        self.begin(now_us, event)
        while self._event is not None:
            self.resume()

    @property
    def in_hand(self) -> tuple[Event | None, tuple[Timer, TimerKey, int] | None]:
        """The event and the timer that are being handled, for the log when the core fails."""
        return (None, self._timer) if self._timer is not None else (self._event, None)

    @property
    def in_progress(self) -> bool:
        """Whether an event is handled only in part. Until it is done only `resume` may be called, and the state must
        not be read."""
        return self._event is not None

    def begin(self, now_us: int, event: Event) -> None:
        """Handles one event, or its first slice; `resume` handles the remaining slices of a long one."""
        state = self.state
        self._scheduled = False
        if now_us < self._now_us:
            now_us = self._now_us
        self._now_us = state.now_us = now_us
        if state.timers.is_due(now_us) and type(event) is not Quarantine:
            self._run_timers(now_us)
        self._event = event
        state.handling.begin()
        try:
            HANDLERS[type(event)](state, now_us, event)
        except Refused as refused:
            self._refuse(refused)
        except Exception as error:  # noqa: BLE001 (refuse_unexpected decides)
            self._refuse_for(error)
        if state.handling.unfinished is None:
            self._end_step(now_us)

    def resume(self) -> None:
        """Handles the next slice of an event, which takes some milliseconds."""
        state = self.state
        assert state.handling.unfinished is not None
        try:
            next(state.handling.unfinished)
            return
        except StopIteration:
            pass
        except Refused as refused:
            self._refuse(refused)
        except Exception as error:  # noqa: BLE001 (refuse_unexpected decides)
            self._refuse_for(error)
        state.handling.unfinished = None
        self._end_step(state.now_us)

    def _refuse(self, refused: Refused) -> None:
        self.state.reply(getattr(self._event, "reply_to", 0), Refusal(int(refused.code), refused.text))

    def _refuse_for(self, error: Exception) -> None:
        """Refuses the request whose handler failed before it changed anything; an event that is no request cannot be
        refused."""
        if not hasattr(self._event, "reply_to"):
            raise error
        self._refuse(unexpected_errors.refuse_unexpected(self.state, error))

    def _end_step(self, now_us: int) -> None:
        """Does the follow-up work of every event."""
        settle.after_event(self.state, now_us)
        self._event = None

    def _run_timers(self, now_us: int) -> None:
        pop_due = self.state.timers.pop_due
        for _ in range(TIMERS_PER_STEP_MAX):
            due = pop_due(now_us)
            if due is None:
                self._timer = None
                return
            kind, key, check_value = self._timer = due
            if self.state.handling.quarantined and (kind.name, key) in self.state.handling.quarantined:
                continue
            TIMERS[kind](self.state, now_us, key, check_value)
            if self.state.dependencies.due:  # before a later timer purges the job
                depends.settle(self.state, now_us)
        self._timer = None

    def next_deadline(self) -> int | None:
        """Time of the next `Tick` at the latest, in microseconds; None = no timer is set."""
        return self.state.timers.next_us()

    def schedule(self) -> int:
        """Runs the scheduling pass of the next `seal`, to measure its cost. Returns the number of rows examined."""
        state, now_us = self.state, self._now_us
        rows_seen = quick_pass.run(state, now_us)
        settle.drain_queues(state, now_us)
        self._scheduled = True
        return rows_seen

    def seal(self) -> Batch | None:
        """Returns the batch of everything since the last seal, after one scheduling pass. None = nothing."""
        state = self.state
        if not self._scheduled:
            self.schedule()
        self._scheduled = False
        if state.scheduling.reason_backlog is not None:
            wait_reasons.write_more_reasons(state, self._now_us)
        if state.limits.budgets.books:
            budgets.settle(state, self._now_us)
        batch = build(state, self._sequence + 1)
        if batch is not None:
            self._sequence += 1
        state.jobs.rest()
        return batch

    def check(self) -> None:
        """Raises Violation when an invariant does not hold."""
        check(self.state)

    def digest(self) -> str:
        """Returns a digest of all state that decides: equal histories have equal digests."""
        return digest(self.state)


__all__ = ["Core"]
