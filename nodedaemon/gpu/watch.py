"""Supervises the children that use NVML, and passes their messages to the daemon.

    watch = Watch(on_message)          # on_message(Polled | Xid | Hung | Answering), called from the daemon's loop
    watch.start(poll_s=10)
    polled = await watch.poll()   # now; None when no answer comes in time
    await watch.stop()

Three children at most: `main` polls all GPUs, `events` waits for XIDs, and `trial` polls one GPU that has hung.

    - A GPU in whose call a child hangs is reported as Hung, and the next main leaves it out, so that the others stay
      watched. A trial child polls it alone; after three answered polls, Answering is reported and main includes it
      again. Where the call concerns no GPU (`gpu` "": the library's start, a count), main itself is tried again, ever
      more rarely.
    - A child that SIGKILL does not end (it is inside the driver) is left behind and counted. While there is one, only
      main is started again; with three of them nothing is, until one has ended.
    - Where NVML does not work no child runs. It is tried again from time to time: soon where it worked before (a driver
      that is being replaced), every three minutes where there was a library but no driver, and without a library only
      once the driver's device file exists, which costs one stat.
    - A driver newer than the loaded library (error 18) only needs a fresh child.

It never blocks the loop, and stop() leaves only children that cannot be killed. It does not interpret the messages.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping

import msgspec

from nodedaemon.core import gpumessages
from nodedaemon.gpu.child import Child, ChildLimits, limits_of
from nodedaemon.gpu.frames import Answered, AskLifetimes, ChildMessage, DriverEvent, PollNow, Settle, Setup
from nodedaemon.gpu.kmsg import KMSG, Kmsg, collapse
from nodedaemon.gpu.nvml import LIBRARY_NOT_FOUND, VERSION_MISMATCH
from nodedaemon.gpu.xidmerge import XidMerge

log = logging.getLogger("penstock.noded")

#: Device file of the driver.
SIGN = "/dev/nvidiactl"
#: Another file instead of the kernel's log, for tests.
KMSG_VARIABLE = "PENSTOCK_KMSG"
#: Polls in a row after which a GPU that hung counts as answering again.
TRIAL_POLLS = 3
#: XIDs cause polls, but no more than one in this time.
POKE_S = 1.0
#: Time from the failure of a program until its XID is received and merged.
XID_S = 0.25
MAIN = "poll"
TRIAL = "trial"
EVENTS = "xids"
WHOLE_DRIVER = ""


class GpuWatch:
    """The watcher. Made before the loop runs; the constructor starts no child."""

    def __init__(
        self,
        on_message: Callable[[gpumessages.WatchMessage], None],
        limits: ChildLimits | None = None,
        setup: Setup | None = None,
    ) -> None:
        self.found = gpumessages.Found()  # the newest inventory
        self.last: gpumessages.Polled | None = None  # the newest poll
        self._listener = on_message
        self._limits = limits or limits_of(os.environ)
        self._setup = setup or Setup()
        self._children: dict[str, Child] = {}
        self._dying: dict[Child, asyncio.TimerHandle] = {}  # killed, not ended
        self._given_up: set[Child] = set()  # those of them that hung
        self._left: set[Child] = set()  # those that should have ended
        self._said: gpumessages.Found | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._restart_delay_s: dict[str, float] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._hung: dict[str, int] = {}  # hung GPUs (a UUID, "#INDEX", WHOLE_DRIVER) -> NVML's index
        self._requests: dict[int, asyncio.Future[bool]] = {}
        self._request = 0
        self._lifetimes: tuple[gpumessages.Lifetime, ...] = ()
        self._poked_at = 0.0
        self._kmsg: Kmsg | None = None
        self._is_on = False

    # -- interface for the daemon

    def start(self, poll_s: float, found: gpumessages.Found | None = None) -> None:
        """Starts the children. `found`: the inventory of the daemon's start, if there is one."""
        if self._is_on:
            return
        self._is_on = True
        self._loop = asyncio.get_running_loop()
        self._xids = XidMerge(self._loop, self._limits, self._deliver_xid)
        self._setup = msgspec.structs.replace(self._setup, poll_s=poll_s)
        if found is not None:
            self._take_found(found)
            self._said = found
        if found is not None and not found.devices and found.code:
            self._sleep(found)
        else:
            self._start(MAIN)

    def settle(self, *, poll_s: float, accounting: bool = False, per_process: tuple[str, ...] = ()) -> None:
        """Applies settings. accounting: enable NVML's own; per_process: GPUs of which each process's utilisation is
        queried."""
        new = msgspec.structs.replace(
            self._setup, poll_s=poll_s, accounting=accounting, per_process=tuple(sorted(per_process))
        )
        if new != self._setup:
            self._setup = new
            for role in (MAIN, TRIAL):
                if role in self._children:
                    self._children[role].settle(poll_s)
                    self._children[role].send(Settle(poll_s, accounting, new.per_process))

    def catch_up(self, after: int | None) -> list[gpumessages.Xid]:
        """Returns the XIDs that the kernel has logged after that record, while no daemon ran; called before `start`."""
        self._kmsg = Kmsg(os.environ.get(KMSG_VARIABLE, KMSG))
        return collapse(self._kmsg.catch_up(after), int(self._limits.twice_s * 1_000_000))

    @property
    def log_read(self) -> int | None:
        """The number of the last record of the kernel's log that was read; None: the log cannot be read."""
        return self._kmsg.last if self._kmsg is not None and self._kmsg.is_open else None

    async def poll(self, limit_s: float = 5.0) -> gpumessages.Polled | None:
        """Polls now; `on_message` gets the result, too. None when NVML is unavailable or does not answer within the
        limit."""
        self._request += 1
        return self.last if await self._answer(PollNow(self._request), limit_s) else None

    async def lifetimes(
        self, pids: Mapping[str, tuple[int, ...]], limit_s: float = 5.0
    ) -> tuple[gpumessages.Lifetime, ...]:
        """NVML's accounting of these processes, by GPU, where it has any."""
        self._request += 1
        answered = await self._answer(AskLifetimes(self._request, dict(pids)), limit_s)
        return self._lifetimes if answered else ()

    async def stop(self) -> None:
        """Ends the children; those that cannot be killed stay."""
        self._is_on = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for role in list(self._children):
            self._end(role)
        self._forget_requests()
        if self._kmsg is not None:
            self._kmsg.close()
        for timer in self._dying.values():
            timer.cancel()
        dying = [asyncio.ensure_future(child.ended.wait()) for child in self._dying]
        waiting = [*dying, *self._starting]
        if waiting:
            await asyncio.wait(waiting, timeout=self._limits.kill_s)
        for future in dying:
            future.cancel()

    @property
    def left(self) -> int:
        """Number of children that were killed and have not ended."""
        return len(self._left)

    @property
    def late_s(self) -> float:
        """Delay of an XID, from the driver to `on_message`, at most."""
        return XID_S + self._limits.merge_s

    @property
    def pids(self) -> dict[str, int]:
        """Pids of the running children, by role."""
        return {role: child.pid for role, child in self._children.items() if child.pid}

    # -- children

    def _start(self, role: str) -> None:
        """Starts it now, unless it runs or must not."""
        self._cancel(role)
        if not self._is_on or role in self._children or (role == TRIAL and not self._hung.keys() - {WHOLE_DRIVER}):
            return
        if self._given_up and (role != MAIN or self._could_be_left() >= self._limits.left_max):
            if role == MAIN:
                log.error(
                    "%d GPU children cannot be killed; no more are started until one has ended", len(self._given_up)
                )
            self._later(role, self._limits.restart_most_s)
            return
        child = Child(EVENTS if role == EVENTS else MAIN, self._limits, self._on_message, self._on_hung, self._on_ended)
        self._children[role] = child
        task = self._loop.create_task(self._begin(role, child))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _could_be_left(self) -> int:
        """Counts children that do not die, and those that may not."""
        return len(self._given_up) + len(self._children)

    async def _begin(self, role: str, child: Child) -> None:
        indexes = tuple(index for name, index in self._hung.items() if name != WHOLE_DRIVER)
        setup = msgspec.structs.replace(self._setup, known=self.found.devices, slow_s=self._limits.slow_s)
        if role == TRIAL:
            setup = msgspec.structs.replace(setup, only=indexes[0])
        else:
            setup = msgspec.structs.replace(setup, skip=tuple(sorted(indexes)))
        try:
            await child.start(setup)
        except OSError as error:
            log.error("cannot start the GPU child %s: %s", role, error.strerror or error)
            child.ended.set()
            self._on_ended(child)

    def _end(self, role: str) -> None:
        """Kills it; its messages are ignored from now on."""
        child = self._children.pop(role, None)
        if child is not None:
            self._dying[child] = self._loop.call_later(self._limits.kill_s, self._leave, child)
            child.kill()

    def _leave(self, child: Child) -> None:
        if child in self._dying:
            self._left.add(child)
            log.error("the GPU child %d does not die; it is in the driver", child.pid)

    def _restart_later(self, role: str) -> None:
        """Starts it later, with a growing delay."""
        wait_s = self._restart_delay_s.get(role, self._limits.restart_first_s)
        self._restart_delay_s[role] = min(wait_s * 2, self._limits.restart_most_s)
        self._later(role, wait_s)

    def _later(self, role: str, wait_s: float) -> None:
        self._cancel(role)
        if self._is_on:
            self._timers[role] = self._loop.call_later(wait_s, self._start, role)

    def _cancel(self, role: str) -> None:
        timer = self._timers.pop(role, None)
        if timer is not None:
            timer.cancel()

    def _role(self, child: Child) -> str | None:
        return next((role for role, other in self._children.items() if other is child), None)

    def _on_ended(self, child: Child) -> None:
        """Handles the end of a child, whatever the cause."""
        timer = self._dying.pop(child, None)
        if timer is not None:
            timer.cancel()
        self._left.discard(child)
        if child in self._given_up:
            self._given_up.discard(child)
            for waiting in list(self._timers):
                self._later(waiting, self._limits.restart_first_s)
        role = self._role(child)
        if role is not None:
            del self._children[role]
            log.warning("the GPU child %s has ended", role)
            if role == MAIN:
                self._forget_requests()
            self._restart_later(role)

    # -- hangs

    def _on_hung(self, child: Child) -> None:
        role, asking = self._role(child), child.asking or gpumessages.Asking("")
        if role is None:
            return
        log.error("NVML hangs in %s of %s; the child is abandoned", asking.function, asking.gpu or "the driver")
        self._end(role)
        self._given_up.add(child)
        if role == MAIN:
            self._forget_requests()
        if role == MAIN or (role == TRIAL and asking.gpu != WHOLE_DRIVER):
            self._has_hung(asking)  # a trial that cannot even start is not reported
        if role == MAIN and asking.gpu != WHOLE_DRIVER:
            self._end(EVENTS)  # it waits for that GPU too
            self._later(MAIN, self._limits.restart_first_s)
            self._restart_later(TRIAL)
        else:
            self._restart_later(role)

    def _has_hung(self, asking: gpumessages.Asking) -> None:
        is_first = asking.gpu not in self._hung
        self._hung.pop(asking.gpu, None)  # another one is tried first
        self._hung[asking.gpu] = self._nvml_index(asking.gpu)
        if is_first:
            self._deliver(gpumessages.Hung(_now_us(), asking.function, asking.gpu, self.left))

    def _nvml_index(self, name: str) -> int:
        if name.startswith("#"):
            return int(name[1:])
        gpu = next((device for device in self.found.devices if device.uuid == name), None)
        if gpu is not None and gpu.parent:
            return self._nvml_index(gpu.parent)
        return gpu.nvml_index if gpu is not None else -1

    def _has_answered(self, role: str, child: Child) -> None:
        """Three polls in a row: the GPU that had hung has answered."""
        if role == MAIN:
            self._restart_delay_s.pop(MAIN, None)
            names = [name for name in self._hung if name == WHOLE_DRIVER]
        else:
            self._restart_delay_s.pop(TRIAL, None)
            names = [name for name in self._hung if name != WHOLE_DRIVER][:1]
        for name in names:
            del self._hung[name]
            log.info("NVML answers again for %s", name or "the driver")
            self._deliver(gpumessages.Answering(_now_us(), name))
        if role == TRIAL:
            for other in (TRIAL, MAIN, EVENTS):
                self._end(other)
            self._forget_requests()
            self._start(MAIN)
            if any(name != WHOLE_DRIVER for name in self._hung):
                self._restart_later(TRIAL)

    # -- messages

    def _on_message(self, child: Child, word: ChildMessage) -> None:
        role = self._role(child)
        if role is None:
            return
        if isinstance(word, gpumessages.Polled):
            self._polled(role, child, word)
        elif isinstance(word, gpumessages.Xid):
            self._xids.from_nvml(word, self._kmsg is not None and self._kmsg.is_open)
        elif isinstance(word, DriverEvent):
            self._request_poll()
        elif isinstance(word, gpumessages.Lifetimes):
            self._lifetimes = word.records
        elif isinstance(word, Answered):
            future = self._requests.pop(word.request, None)
            if future is not None and not future.done():
                future.set_result(True)

    def _polled(self, role: str, child: Child, word: gpumessages.Polled) -> None:
        if word.found is not None and word.found.code:
            if role == MAIN:
                self._sleep(word.found)
            else:
                self._end(role)
                self._restart_later(role)
            return
        child.polls = 0 if any(sample.slow for sample in word.samples) else child.polls + 1
        if role == MAIN:
            self._main_polled(word)
        if child.polls == TRIAL_POLLS:
            self._has_answered(role, child)

    def _main_polled(self, word: gpumessages.Polled) -> None:
        found = word.found if word.found != self._said else None
        if found is not None:
            self._take_found(found)
            self._said = found
        word = gpumessages.Polled(word.at_us, word.samples, found)
        self.last = word
        self._deliver(word)
        if not self.found.devices and not self.found.nameless:
            self._sleep(self.found)
        elif EVENTS not in self._children and EVENTS not in self._timers:
            self._listen()

    def _take_found(self, found: gpumessages.Found) -> None:
        """Applies a new inventory, which the child that waits for events needs, too."""
        gpus = {device.uuid: device.nvml_index for device in found.devices if not device.parent}
        if gpus != {device.uuid: device.nvml_index for device in self.found.devices if not device.parent}:
            self._end(EVENTS)
        if found.devices or not found.code:
            self.found = found
        self._xids.know(found)

    def _listen(self) -> None:
        self._start(EVENTS)
        if self._kmsg is None or not self._kmsg.is_open:
            self._kmsg = Kmsg(os.environ.get(KMSG_VARIABLE, KMSG))
            self._kmsg.listen(self._loop, self._xids.from_log, from_end=True)
        else:
            self._kmsg.listen(self._loop, self._xids.from_log, from_end=False)

    def _sleep(self, found: gpumessages.Found) -> None:
        """Ends all children, since NVML does not work or there is nothing to watch; tries again later."""
        had = bool(self.found.devices)
        if found.code:
            log.log(logging.WARNING if had else logging.INFO, "NVML does not answer: %s", found.why)
            self._said = found
            self._deliver(gpumessages.Polled(_now_us(), (), found))
        for role in (EVENTS, TRIAL, MAIN):
            self._end(role)
            self._cancel(role)
        self._forget_requests()
        if found.code == VERSION_MISMATCH:
            self._restart_later(MAIN)
        else:
            wait_s = self._limits.return_s if had else self._limits.retry_s
            self._timers[MAIN] = self._loop.call_later(wait_s, self._retry, found.code == LIBRARY_NOT_FOUND, wait_s)

    def _retry(self, needs_sign: bool, wait_s: float) -> None:
        if needs_sign and not os.path.exists(SIGN):
            self._timers[MAIN] = self._loop.call_later(wait_s, self._retry, needs_sign, wait_s)
        else:
            self._start(MAIN)

    # -- helpers

    def _deliver(self, message: gpumessages.WatchMessage) -> None:
        if self._is_on:
            self._listener(message)

    def _deliver_xid(self, xid: gpumessages.Xid) -> None:
        self._deliver(xid)
        self._request_poll()

    def _request_poll(self) -> None:
        """Causes a poll, which shows the details of an event."""
        now = self._loop.time()
        if now - self._poked_at >= POKE_S and MAIN in self._children:
            self._poked_at = now
            self._children[MAIN].send(PollNow(0))

    async def _answer(self, command: PollNow | AskLifetimes, limit_s: float) -> bool:
        """Whether the command was executed within the limit."""
        main = self._children.get(MAIN)
        if main is None or not main.send(command):
            return False
        future = self._requests[command.request] = self._loop.create_future()
        try:
            async with asyncio.timeout(limit_s):
                await future
                return bool(future.result())
        except TimeoutError:
            return False
        finally:
            self._requests.pop(command.request, None)

    def _forget_requests(self) -> None:
        for future in self._requests.values():
            if not future.done():
                future.set_result(False)


def _now_us() -> int:
    return time.time_ns() // 1000
