"""Item 15: programs that the controller runs for users (mails, triggers) are shared between them. A user whose programs take
long, or are very many, neither delays another user's for long nor has them dropped.
"""

import asyncio
import logging
from types import SimpleNamespace

# Any: stand-ins for parts of the runtime
from typing import Any, cast

import pytest

from ctld.core.records.effects import RunTrigger, SendMail
from ctld.runtime import mail, siteuser, triggers
from ctld.runtime.lookups import Lookups
from ctld.runtime.mail import MailRunner
from ctld.runtime.programs import UserIdentity
from ctld.runtime.programslots import ProgramSlots
from ctld.runtime.siteprograms import Ending, Program
from ctld.runtime.triggers import TriggerRunner
from penstock.values.config import Config
from tests.rpc.test_rpc_mail import effect

MALLORY, ANN, NOBODY = 1001, 1002, 65534
MAIL = effect()


class Programs:
    """Programs that run until they are ended, in the order of their starts."""

    def __init__(self) -> None:
        self.running: list[object] = []
        self.started: list[object] = []
        self._ends: dict[int, asyncio.Event] = {}

    async def run(self, effect: Any) -> str:
        self.started.append(effect)
        self.running.append(effect)
        end = self._ends[id(effect)] = asyncio.Event()
        try:
            await end.wait()
        finally:
            self.running.remove(effect)
        return ""

    async def work(self, effect: object) -> None:
        await self.run(effect)

    async def settled(self) -> None:
        """All tasks have come to where they wait."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def end(self, effect: object) -> None:
        self._ends[id(effect)].set()
        await self.settled()


def test_15_slots_are_left_to_others_and_owners_take_turns() -> None:
    async def story() -> None:
        programs, slots = Programs(), ProgramSlots(4, 2)
        many = [("mallory", number) for number in range(6)]
        for one in many:
            slots.start(programs.work, one, MALLORY)
        await programs.settled()
        assert programs.running == many[:2] and (len(slots), slots.count_of(MALLORY)) == (6, 6)
        hers = [("ann", number) for number in range(3)]
        for one in hers:
            slots.start(programs.work, one, ANN)
        await programs.settled()
        assert programs.running == [*many[:2], *hers[:2]], "at once, though four wait"
        await programs.end(many[0])
        assert programs.started[4:] == [many[2]], "Ann has her share"
        await programs.end(hers[0])
        assert programs.started[5:] == [hers[2]]
        for one in [many[1], many[2], *hers[1:], *many[3:]]:
            await programs.end(one)
        assert not programs.running and not len(slots) and not slots.count_of(MALLORY)

    asyncio.run(story())


def test_15_who_waits_longest_is_next_among_owners() -> None:
    async def story() -> None:
        programs, slots = Programs(), ProgramSlots(1)
        for owner in (MALLORY, MALLORY, MALLORY, ANN, ANN):
            slots.start(programs.work, (owner, len(slots)), owner)
        await programs.settled()
        for _ in range(5):
            await programs.end(programs.running[0])
        assert [cast(tuple[int, int], one)[0] for one in programs.started] == [MALLORY, MALLORY, ANN, MALLORY, ANN]

    asyncio.run(story())


def test_15_work_that_is_cancelled_leaves_its_slot() -> None:
    async def story() -> None:
        programs, slots = Programs(), ProgramSlots(1)
        for number in range(3):
            slots.start(programs.work, number, MALLORY)
        await programs.settled()
        slots.stop()
        await programs.settled()
        assert not len(slots) and not programs.running
        slots.start(programs.work, "later", ANN)
        await programs.settled()
        assert programs.running == ["later"]
        slots.stop()
        await programs.settled()

    asyncio.run(story())


def runtime_of() -> Any:
    """What the runners use of a runtime."""
    core = SimpleNamespace(state=SimpleNamespace(config=Config()))
    return SimpleNamespace(core=core, handlers={}, post=lambda event: None)


class Directory:
    """Stands in for the look-ups of a controller that is root: everybody is known."""

    async def identity(self, name: str, caller: int) -> UserIdentity:
        return UserIdentity(NOBODY, NOBODY, (NOBODY,))

    async def groups(self, name: str, gid: int, caller: int) -> tuple[int, ...]:
        return (gid,)


def held_up(monkeypatch: pytest.MonkeyPatch, module: Any, programs: Programs, chooser: Any) -> Lookups:
    """Lets the module's programs run until they are ended. `chooser`: the module that asks whether this is root."""

    async def run(program: Program) -> Ending:
        await programs.work(tuple(program.words))
        return Ending("")

    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(chooser, "os", SimpleNamespace(geteuid=lambda: 0))
    return cast(Lookups, Directory())


def mail_of(uid: int, number: int) -> SendMail:
    return SendMail(MAIL.job._replace(user_id=uid, user_name=f"u{uid}", job_id=number), MAIL.kind, MAIL.at_us)


def test_15_another_users_mails_are_not_dropped(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line in the log says that they are."""

    async def story() -> None:
        programs = Programs()

        runtime = runtime_of()
        runner = MailRunner(runtime, held_up(monkeypatch, mail, programs, siteuser))
        take = runtime.handlers[SendMail]
        for number in range(3 * mail.MAILS_OF_USER_MAX):
            take(mail_of(MALLORY, number))
        take(mail_of(ANN, 1))
        await programs.settled()
        to = [cast(tuple[str, ...], words)[-1] for words in programs.running]
        assert to == ["u1001"] * mail.MAILS_OF_USER_AT_ONCE + ["u1002"]
        runner.stop()
        await programs.settled()

    with caplog.at_level(logging.WARNING, "penstock.ctld"):
        asyncio.run(story())
    (line,) = [record.getMessage() for record in caplog.records]
    assert "mail END is dropped, as are further ones of u1001: 1000 of this user wait" in line


def test_15_triggers_of_one_user_leave_slots_to_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator's trigger of a node that is down does not wait for programs that sleep."""

    async def story() -> None:
        programs = Programs()

        runtime = runtime_of()
        runner = TriggerRunner(runtime, "c", held_up(monkeypatch, triggers, programs, triggers))
        take = runtime.handlers[RunTrigger]
        for number in range(50):
            take(RunTrigger(number, MALLORY, MALLORY, "mallory", "/bin/sleep", "300"))
        await programs.settled()
        assert len(programs.running) == triggers.PROGRAMS_OF_USER_MAX
        take(RunTrigger(99, 0, 0, "root", "/page", "n1"))
        await programs.settled()
        assert programs.running[-1] == ("/page", "n1")
        runner.stop()
        await programs.settled()

    asyncio.run(story())
