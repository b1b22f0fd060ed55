"""What becomes of a question to `penstock pamd`: without PAM, a controller, or time."""

import asyncio
import json
import logging
import re
from collections.abc import Sequence

import pytest
from livecluster import ROOT

from pamd.attempt import KEPT
from pamd.budgets import ADDRESS_ATTEMPTS, NAME_ATTEMPTS, NAME_REFILL_S, AttemptBudget
from pamd.child import verdict_of
from pamd.commandline import command_line
from pamd.main import SERVICE
from pamd.service import BROKEN, BUSY, CHILDREN_MAX, EXPIRED, REFUSAL_S, TOO_OFTEN, WRONG, PamVerdict, PasswordService
from penstock.errors import PenstockError
from penstock.passwordlogin import LoginAnswer, LoginQuestion, encode, question_of
from penstock.values.refusals import Code

SECRET = "correct horse"


class World:
    """A service, and what it asked for. `words`: what PAM says of each name; `took_s`: the time that it takes for that."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.words: dict[str, str] = {}
        self.took_s = 0.7
        self.asked: list[str] = []
        self.pauses: list[float] = []
        self.refusal: PenstockError | None = None
        self.gate: asyncio.Event | None = None
        self.service = PasswordService(self._ask, self._issue, lambda: self.now_s, self._pause)

    async def _ask(self, question: LoginQuestion) -> PamVerdict:
        assert question.password == SECRET
        self.asked.append(question.name)
        if self.gate is not None:
            await self.gate.wait()
        self.now_s += self.took_s
        word = self.words.get(question.name, "no")
        return PamVerdict(word, f"PAM says {word}", question.name != "nosuch")

    async def _issue(self, name: str) -> str:
        if self.refusal is not None:
            raise self.refusal
        return f"token of {name}"

    async def _pause(self, pause_s: float) -> None:
        self.pauses.append(round(pause_s, 6))

    async def login(self, name: str, address: str = "192.0.2.1") -> LoginAnswer:
        return await self.service.answer(encode(LoginQuestion(name, SECRET, address)))

    def logins(self, *names: str, address: str = "192.0.2.1") -> list[LoginAnswer]:
        async def all_of_them() -> list[LoginAnswer]:
            return [await self.login(name, address) for name in names]

        return asyncio.run(all_of_them())


def test_every_refusal_leaves_at_the_same_time_and_in_the_same_words() -> None:
    world = World()
    for took_s, pause_s in ((0.0, 3.0), (0.7, 2.3), (2.9, 0.1), (3.5, 2.5), (10.0, 2.0)):
        world.took_s = took_s
        world.pauses.clear()
        answers = world.logins("ann", "nosuch")
        assert answers == [LoginAnswer("no", text=WRONG)] * 2
        assert world.pauses == [pause_s, pause_s] and (took_s + pause_s) % REFUSAL_S == 0


def test_what_else_pam_says(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.words = {"ann": "yes", "bob": "expired", "eve": "broken", "joe": "not here"}
    yes, expired, broken, closed, typed = world.logins("ann", "bob", "eve", "joe", "nosuch")
    assert yes == LoginAnswer("yes", "token of ann") and len(world.pauses) == 4
    assert (expired.status, expired.text) == ("closed", EXPIRED) and (broken.status, broken.text) == ("broken", BROKEN)
    assert (
        closed.status == "closed" and typed.status == "no" and not any(one.token for one in (expired, broken, closed))
    )
    assert SECRET not in caplog.text and "nosuch" not in caplog.text  # it may be a password in the wrong field
    assert "login of ann from 192.0.2.1" in caplog.text and "a name that is no user's" in caplog.text
    assert SECRET not in repr(LoginQuestion("ann", SECRET, ""))
    world.refusal = PenstockError(Code.NO_TOKEN, "no key", "")
    (refused,) = world.logins("ann")
    assert refused.status == "closed" and "no key" in refused.text


def test_a_thousand_attempts_are_ten_of_one_name() -> None:
    world = World()
    names = ["ann", "Ann", "ANN@example.org"] * 333 + ["ann"]  # ways to write one user's name
    answers = [one for i, name in enumerate(names) for one in world.logins(name, address=f"192.0.2.{i % 200}")]
    assert len(world.asked) <= NAME_ATTEMPTS + world.now_s / NAME_REFILL_S and len(world.asked) < 20
    assert [one.status for one in answers[:NAME_ATTEMPTS]] == ["no"] * NAME_ATTEMPTS
    assert answers[-1].status == "busy" and answers[-1].text == TOO_OFTEN and 0 < answers[-1].retry_after_s <= 300
    world.now_s += NAME_REFILL_S
    world.words["ann"] = "yes"
    assert world.logins("ann")[0].status == "yes"


def test_and_sixty_of_one_address() -> None:
    world = World()
    world.took_s = 0.0
    answers = world.logins(*(f"user{i}" for i in range(1000)), address="192.0.2.9")
    assert len(world.asked) == ADDRESS_ATTEMPTS and {one.status for one in answers[ADDRESS_ATTEMPTS:]} == {"busy"}
    world.words["ann"] = "yes"
    assert {one.status for one in world.logins(*["ann"] * 200, address="192.0.2.10")} == {"yes"}  # which are given back


def test_few_are_checked_at_a_time() -> None:
    world = World()

    async def crowd() -> Sequence[LoginAnswer]:
        world.gate = asyncio.Event()
        running = [asyncio.create_task(world.login(f"user{i}", f"192.0.2.{i}")) for i in range(200)]
        while sum(one.done() for one in running) < 200 - CHILDREN_MAX:
            await asyncio.sleep(0)
        assert len(world.asked) == CHILDREN_MAX
        world.gate.set()
        return await asyncio.gather(*running)

    answers = asyncio.run(crowd())
    assert sum(one.text == BUSY and one.retry_after_s > 0 for one in answers) == 200 - CHILDREN_MAX
    assert world.logins("ann")[0].status == "no"  # there is room again


def test_a_table_of_names_is_bounded() -> None:
    budget = AttemptBudget(2, 10.0, keys_max=3)
    for key in "abc":
        budget.take(key, 0.0)
    assert budget.wait_s("d", 5.0) == 10 and budget.wait_s("a", 5.0) == 0
    assert budget.wait_s("d", 10.0) == 0  # those that are full again are forgotten
    budget.take("d", 10.0)
    budget.give_back("d", 10.0)
    assert budget.wait_s("d", 10.0) == 0


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\n", b"[]", b"\xff\xfe", b"{}", b'{"name": "ann"}', b"[" * 8000,
        json.dumps({"name": "ann", "password": SECRET, "address": "", "more": 1}).encode(),
        json.dumps({"name": 7, "password": SECRET, "address": ""}).encode(),
        json.dumps({"name": "ann", "password": SECRET, "address": "x" * 65}).encode(),
        json.dumps({"name": "ann", "password": SECRET, "address": "a\nb"}).encode(),
        *(json.dumps({"name": name, "password": SECRET, "address": ""}).encode() for name in (
            "", "1000", "-rf", "../x", "a b", "a:b", "a\0b", "a\n", "\u00e4nn", "x" * 65, "$(id)", ".", "@x", "a,b",
        )),
        *(json.dumps({"name": "ann", "password": password, "address": ""}).encode() for password in (
            "", "a\0b", "x" * 513, "\u00e4" * 257,
        )),
        b'{"name": "ann", "password": "\\ud800", "address": ""}',
    ],
)  # fmt: skip
def test_what_is_no_question_reaches_nobody(line: bytes) -> None:
    world = World()
    answer = asyncio.run(world.service.answer(line))
    assert answer.status == "broken" and not world.asked and not world.pauses
    assert SECRET not in answer.text


def test_questions_at_the_limits() -> None:
    for name, password in (("x" * 64, "\u00e4" * 256), ("ann@example.org", "\x01 \\"), ("_a-b.C9", "x" * 512)):
        question = LoginQuestion(name, password, "2001:db8::/64")
        assert question_of(encode(question)) == question and len(encode(question)) < 8192


@pytest.mark.parametrize(
    "said", [b"", b"{}", b"[1, 2, 3]", b'["yes"]', b'["root", "", true]', b"\xff", b'["yes", "", 1]']
)
def test_a_child_that_says_something_else_has_accepted_nobody(said: bytes) -> None:
    assert verdict_of(said, -9).word == "broken"
    assert verdict_of(b'["yes", "", true]', 0) == PamVerdict("yes", "", True)


def test_the_unit_starts_it_with_options_that_it_has() -> None:
    """And with the capabilities that its child keeps, which a bounding set must have."""
    unit = (ROOT / "packaging" / "penstock-pamd.service").read_text()
    (line,) = re.findall(r"^ExecStart=/opt/penstock/bin/penstock pamd (.*)$", unit, re.MULTILINE)
    assert command_line().parser().parse_args(line.split()).config == "/etc/penstock/slurm.conf"
    (names,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    assert len(names.split()) == len(KEPT) + 2 and {"CAP_SETPCAP", "CAP_SYS_ADMIN"} < set(names.split())
    stack = (ROOT / "packaging" / "pam" / SERVICE).read_text()
    assert "common-auth" in stack and "common-account" in stack and "session" not in stack.replace("no session", "")
