"""Item 10: no name that somebody sends ends the controller, whatever the system's databases do with it.

glibc's nss-systemd aborts the process that asks for a name of megabytes, and a name server may hang.
"""

import asyncio
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc.aio
import psutil
import pytest
from google.protobuf.descriptor import FieldDescriptor as F
from google.protobuf.message_factory import GetMessageClass
from openway import open_way
from patience import ANSWER_S, END_S

from cli.base import users
from ctld.rpc.gate import bounds
from ctld.rpc.gate.incoming import OutOfBounds, Reader
from ctld.rpc.server import FILES
from ctld.runtime import lookuphelper
from ctld.runtime.lookups import LookupFailed, Lookups
from nodedaemon import adopt
from penstock.v1 import controller_pb2
from penstock.values.names import ENTITY_BYTES_MAX, why_no_host, why_no_login
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, code_of

ROOT = Path(lookuphelper.__file__).parents[2]
SOMEBODY, OTHER = 54_321, 54_322
#: Fields that name a user, an account, a partition, ..., in all messages.
NAMING = frozenset(
    (
        *("user", "users", "actors", "for_user", "account", "accounts", "parents", "node_name", "submit_host"),
        *("partitions", "qos", "reservation", "reservations", "wckey", "wckeys"),
    )
)
#: As the helper, but with modules that abort, or never answer, and tell that they were asked.
BAD_MODULES = """
import os, pwd, sys, time
sys.path.insert(0, {root!r})
from ctld.runtime import lookuphelper
known = pwd.getpwnam
def getpwnam(name):
    if name == "poison":
        os.abort()
    while name == "slow":
        open({told!r}, "w").close()
        time.sleep(1)
    return known(name)
pwd.getpwnam = getpwnam
lookuphelper.main(int(sys.argv[1]))
"""
#: Starts its helpers, and names them.
CONTROLLER = """
import psutil, time
from ctld.runtime.lookups import Lookups
lookups = Lookups()
lookups.start()
print(*(one.pid for one in psutil.Process().children()), flush=True)
while True:
    time.sleep(60)
"""


def own_children() -> list[psutil.Process]:
    """The children of the tests' process, without those that another test has left to be reaped."""
    return [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]


#: Last words of the names of fields that name somebody or something, and the ones of these that are no names.
NAMING_WORDS = frozenset(
    (
        *(
            "user",
            "users",
            "group",
            "groups",
            "host",
            "hostname",
            "account",
            "accounts",
            "partition",
            "partitions",
            "qos",
        ),
        *(
            "wckey",
            "wckeys",
            "reservation",
            "reservations",
            "cluster",
            "clusters",
            "actor",
            "actors",
            "parent",
            "parents",
        ),
    )
)
NO_NAMES = {
    "JobRequest.mail_user": "an address, by a grammar of its own (test_01)",
    "JobRequest.trace_parent": "ids of a trace, by a grammar of its own; what is none is ignored (tests/values/test_tracecontext.py)",
    "StepSpec.het_groups": "numbers",
    "Inventory.hostname": "shown; a node's messages are cut to 4096 characters and never looked up",
}


def text_fields() -> Iterator[F]:
    """Every text field that a caller or a node can set, at any depth."""
    known: set[str] = set()
    ahead = list(bounds.requests(FILES).values())
    while ahead:
        descriptor = ahead.pop()
        if descriptor.full_name in known:
            continue
        known.add(descriptor.full_name)
        for field in descriptor.fields:
            if field.message_type is not None:
                ahead.append(field.message_type)
            elif field.type == F.TYPE_STRING and not descriptor.GetOptions().map_entry:
                yield field


def test_every_field_that_names_somebody_has_the_bound_of_a_name() -> None:
    """Also one that is added: by the last word of its name."""
    fields = {field.full_name.removeprefix("penstock.v1."): field for field in text_fields()}
    no_names = {}
    for name, field in fields.items():
        bound = bounds.bound_of(field)
        one = bound.one if isinstance(bound, bounds.Each) else bound
        if field.name.rpartition("_")[2] in NAMING_WORDS and not isinstance(one, bounds.EntityName):
            no_names[name] = NO_NAMES.get(name, "")
        assert not isinstance(one, bounds.Text) or one.limit <= 256 * 1024, name
    assert no_names == NO_NAMES
    assert len(fields) > 150


def naming() -> Iterator[tuple[str, str]]:
    """(method, field) of all requests, with one message inside others at most."""
    for method, descriptor in bounds.requests(FILES).items():
        if method in bounds.NODE_METHODS:
            continue
        for field in descriptor.fields:
            if field.name in NAMING and field.type == F.TYPE_STRING:
                yield method, field.name
            inner = field.message_type
            if inner is not None and not inner.GetOptions().map_entry:
                yield from (
                    (method, f"{field.name}.{one.name}")
                    for one in inner.fields
                    if one.name in NAMING and one.type == F.TYPE_STRING
                )


def request(method: str, path: str, name: str) -> bytes:
    message = top = GetMessageClass(bounds.requests(FILES)[method])()
    *above, last = path.split(".")
    for step in above:
        inner = getattr(message, step)
        message = inner.add() if hasattr(inner, "add") else inner
    field = message.DESCRIPTOR.fields_by_name[last]
    if field.is_repeated:
        getattr(message, last).append(name)
    else:
        setattr(message, last, name)
    return top.SerializeToString()


@pytest.mark.parametrize(("method", "path"), list(naming()), ids=str)
def test_a_name_is_short_before_anything_searches_for_it(method: str, path: str) -> None:
    reader = Reader(method)
    asyncio.run(reader.read(request(method, path, "n" * 253)))
    for name in ("x" * (ENTITY_BYTES_MAX + 1), "\u00e9" * 200, "x" * 4_300_000):
        with pytest.raises(OutOfBounds, match=r"the limit of a name is 256|the limit is"):
            asyncio.run(reader.read(request(method, path, name)))


def test_the_grammar() -> None:
    for name in ("ann", "DOMAIN\\ann", "ann.lee@example.org", "host$", "Ann Lee", "\u00e9ric", "x" * ENTITY_BYTES_MAX):
        assert why_no_login(name) == ""
    for name in ("root:x", "a,b", "a\nb", "a\0b", "a\u202eb", "x" * (ENTITY_BYTES_MAX + 1), "\u00e9" * 129):
        assert why_no_login(name)
    assert not why_no_host("n-1.example.org")
    assert all(map(why_no_host, ("a b", "$(id)", "../n1", "x" * 300)))


def test_a_user_cannot_have_a_long_name_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("it was looked up")

    monkeypatch.setattr(Lookups, "uid_of", never)

    async def story() -> None:
        site = Site(tmp_path, extra="ScronParameters=enable\n")
        async with site.controller():
            for method, message in (
                ("ListJobs", controller_pb2.ListJobsRequest(filter=controller_pb2.JobFilter(users=["x" * 60_000]))),
                ("CancelJobs", controller_pb2.CancelJobsRequest(filter=controller_pb2.JobFilter(users=["x" * 60_000]))),
                ("UpdateJobs", controller_pb2.UpdateJobsRequest(user="x" * 4_000)),
            ):
                with pytest.raises(grpc.aio.AioRpcError, match="the limit of a name is 256 bytes") as refused:
                    await site.call_as(SOMEBODY, method, message)
                assert code_of(refused.value) is Code.INVALID_USER

    asyncio.run(story())


def test_commands_of_root_ask_for_no_long_name_either(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp

    asked: list[str] = []
    monkeypatch.setattr(pwd, "getpwnam", asked.append)
    monkeypatch.setattr(grp, "getgrnam", asked.append)
    assert users.named("x" * 5_000) is users.find_uid("x" * 5_000) is users.named_group("x" * 5_000) is None
    assert asked == []

    def unknown(name: str) -> None:
        asked.append(name)
        raise KeyError

    monkeypatch.setattr(pwd, "getpwnam", unknown)
    monkeypatch.setenv("PAM_USER", "x" * 5_000)
    assert adopt.main([]) == 1
    assert asked == [""]


# ---- modules that abort, hang, and are killed


@contextmanager
def lookups(folder: Path, answer_s: float = ANSWER_S) -> Iterator[Lookups]:
    open_way(folder)
    program = folder / "helper.py"
    program.write_text(BAD_MODULES.format(root=str(ROOT), told=str(folder / "told")))
    folder.chmod(0o777)  # the helper is nobody there
    made = Lookups(str(program), answer_s)
    try:
        yield made
    finally:
        made.stop()


def run(story: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(story, END_S))


def test_a_module_that_aborts_ends_its_helper_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> None:
        with lookups(tmp_path) as made:
            poison = [asyncio.create_task(made.uid_of("poison", SOMEBODY)) for _ in range(4)]
            assert await made.uid_of("root", OTHER) == 0
            for task in poison:
                with pytest.raises(LookupFailed, match="the system's user database has not answered"):
                    await task
            assert await made.uid_of("root", SOMEBODY) == 0

    run(story())


def test_a_module_that_hangs_is_waited_for_by_who_asked(tmp_path: Path) -> None:
    """And by nobody who is authenticated, or asks for another name."""

    async def story() -> None:
        with lookups(tmp_path) as made:
            slow = asyncio.create_task(made.uid_of("slow", SOMEBODY))
            while not (tmp_path / "told").exists():
                await asyncio.sleep(0.01)
            more = [asyncio.create_task(made.uid_of("slow", SOMEBODY)) for _ in range(5)]
            me = await made.account(os.geteuid())
            assert me is not None
            assert me.name == pwd.getpwuid(os.geteuid()).pw_name
            assert await made.uid_of("root", OTHER) == 0
            assert not any(task.done() for task in (slow, *more))
            for task in (slow, *more):
                task.cancel()

    run(story())


def test_an_answer_has_a_deadline(tmp_path: Path) -> None:
    async def story() -> None:
        with lookups(tmp_path, 0.5) as made, pytest.raises(LookupFailed, match=r"no answer within 0\.5 s"):
            await made.uid_of("slow", SOMEBODY)

    run(story())


def test_a_helper_that_was_killed_is_replaced(tmp_path: Path) -> None:
    async def story() -> None:
        with lookups(tmp_path) as made:
            made.start()
            for _ in range(3):
                helpers = [one for one in own_children() if "helper.py" in " ".join(one.cmdline())]
                assert helpers
                for one in helpers:
                    os.kill(one.pid, signal.SIGKILL)
                assert await made.uid_of("root", SOMEBODY) == 0
                assert await made.account(0) is not None

    run(story())


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_helpers_have_no_rights(tmp_path: Path) -> None:
    async def story() -> None:
        made = Lookups()
        try:
            assert await made.uid_of("root", SOMEBODY) == 0
            (helper,) = [one for one in own_children() if lookuphelper.__file__ in one.cmdline()]
            assert helper.uids() == helper.gids() == (lookuphelper.NOBODY,) * 3
            status = Path(f"/proc/{helper.pid}/status").read_text()
            assert "\nGroups:\t \n" in status and "\nCapEff:\t0000000000000000\n" in status
        finally:
            made.stop()

    run(story())


def test_a_helper_ends_with_the_controller() -> None:
    """Also with one that is killed: its socket is closed."""
    with subprocess.Popen([sys.executable, "-c", CONTROLLER], stdout=subprocess.PIPE, cwd=ROOT) as controller:
        assert controller.stdout is not None
        helpers = [psutil.Process(int(word)) for word in controller.stdout.readline().split()]
        assert len(helpers) == 2
        controller.kill()
    for one in helpers:
        one.wait(ANSWER_S)
