"""Who may call what: the table is complete, and every method is tried with every kind of caller."""

import asyncio
import logging
import os
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from google.protobuf.message_factory import GetMessageClass
from patience import ANSWER_S

from ctld.core.records.events import Role
from ctld.rpc.gate import rights
from ctld.rpc.gate.auth import Authenticator, Roles, UserDirectory
from ctld.rpc.gate.rights import RIGHTS, check_complete
from ctld.rpc.server import FILES
from ctld.runtime.answercache import AnswerCache
from ctld.runtime.lookups import Lookups
from penstock.calls import TOKEN_KEY, find_rpc
from penstock.grpclib import CHANNEL_OPTIONS
from penstock.security import tls
from penstock.security.ca import create_ca, issue_to_folder, load_credentials
from penstock.security.tokens import TokenIssuer, TokenVerifier
from penstock.v1 import node_pb2
from penstock.values.config import Config
from tests.auth.tiny_controller import ADMINISTRATOR_UID, CLUSTER, OPERATOR_UID, USER_UID, clock_us

EOF: object = grpc.aio.EOF  # type: ignore[attr-defined]  # the stubs lack it
METHODS = {
    m.name: m for file in FILES for service in file.services_by_name.values() for m in service.methods_by_name.values()
}
#: Written down here once more, on purpose: a change of the table has to be made twice.
ADMINISTRATORS_ONLY = {
    "UpdateNodes",  # and root on a node, for that node: tests/security/test_02_join_tokens.py
    "UpdatePartition", "Reconfigure", "Shutdown", "CreateNodeToken",
    "CreatePartition", "DeletePartition", "CreateNodes", "DeleteNodes", "SetController",
    "ListAudit", "Purge", "LoadArchive", "ShowController",
}  # fmt: skip
FROM_OPERATORS = {"ChangeQos", "CreateReservation", "ResetDiagnostics", "UpdateReservation", "ListTransactions",
                  "ListRunaway", "FixRunaway"}  # fmt: skip
NODES_ONLY = {"Connect"}
ANYBODY = {"JoinNode", "RenewCertificate"}
FOR_USERS = set(METHODS) - ADMINISTRATORS_ONLY - FROM_OPERATORS - NODES_ONLY - ANYBODY

OK, NOBODY, DENIED = grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED


def expected(method: str, caller: str) -> grpc.StatusCode:
    if method in ANYBODY:
        return DENIED  # by the handler, as there is no proof in the request
    if caller in ("no token", "login certificate"):
        return NOBODY
    if caller == "n1":
        return OK if method in NODES_ONLY else DENIED
    if method in NODES_ONLY:
        return DENIED
    if method in FROM_OPERATORS:
        return OK if caller in ("operator", "administrator") else DENIED
    return DENIED if method in ADMINISTRATORS_ONLY and caller != "administrator" else OK


def test_a_caller_that_hangs_up_while_it_is_refused_is_no_error_of_ours(tiny, caplog):
    """The refusal cannot be sent any more. A traceback for each would let any user fill the log."""

    async def action(open_channels):
        tiny.reached = asyncio.Event()
        tiny.refusals["Story"] = [(DENIED, 2002, "no")]
        request = GetMessageClass(METHODS["Story"].input_type)()
        rpc = find_rpc("Story", request)
        metadata = ((TOKEN_KEY, tiny.issuer.issue(USER_UID, USER_UID, clock_us())),)
        make = open_channels["unix"].unary_stream if rpc.is_stream else open_channels["unix"].unary_unary
        call = make(rpc.path, rpc.serialize, rpc.deserialize)(request, metadata=metadata)
        reading = asyncio.ensure_future(call.read() if rpc.is_stream else call)
        await tiny.reached.wait()
        call.cancel()
        await asyncio.wait([reading])
        await attempt(open_channels["unix"], "Ping", partial(tiny.issuer.issue, USER_UID, USER_UID, clock_us()))

    serve(tiny, action)
    assert tiny.refusals["Story"] == []  # it was refused
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_the_table_is_complete():
    check_complete(FILES)
    assert set(RIGHTS) == {f"/{m.containing_service.full_name}/{m.name}" for m in METHODS.values()}


def test_a_method_without_an_entry_stops_the_start(monkeypatch):
    monkeypatch.delitem(RIGHTS, "/penstock.v1.Controller/Story")
    with pytest.raises(RuntimeError, match=r"no right for /penstock\.v1\.Controller/Story"):
        check_complete(FILES)
    with pytest.raises(RuntimeError, match="Story"):
        check_complete(FILES[0].services_by_name.values())
    assert rights.judge("/penstock.v1.Controller/Story", cast(Any, SimpleNamespace()))[0] is DENIED


def test_an_entry_without_a_method_stops_the_start(monkeypatch):
    monkeypatch.setitem(RIGHTS, "/penstock.v1.Controller/Storry", rights.LeastRole.USER)
    with pytest.raises(RuntimeError, match=r"do not exist: /penstock\.v1\.Controller/Storry"):
        check_complete(FILES)


#: What gRPC's client says of a call that the server ended just before the request was written. It is not the server's
#: answer, which this client then loses (4 of 4,000 calls on a busy machine).
LOST_ANSWER = (grpc.StatusCode.INTERNAL, "Internal error from Core")


async def attempt(channel, method, token=None, node_name="n1") -> tuple[grpc.StatusCode, str, str]:
    """Call the method until the server's answer is heard; status, details and the refusal's number.

    `token`: one to use, or what makes a new one for each try.
    """
    for _ in range(10):
        answer = await attempt_once(channel, method, token() if callable(token) else token, node_name)
        if not METHODS[method].client_streaming or answer[:2] != LOST_ANSWER:
            break
    return answer


async def attempt_once(channel, method, token, node_name) -> tuple[grpc.StatusCode, str, str]:
    request = GetMessageClass(METHODS[method].input_type)()
    if method == "Connect":
        request = node_pb2.NodeMessage(register=node_pb2.Register(node_name=node_name))
    rpc = find_rpc(method, request)
    metadata = ((TOKEN_KEY, token),) if token else ()
    coders = (rpc.serialize, rpc.deserialize)
    if METHODS[method].client_streaming:
        call = channel.stream_stream(rpc.path, *coders)(iter([request]), metadata=metadata, timeout=ANSWER_S)
    elif rpc.is_stream:
        call = channel.unary_stream(rpc.path, *coders)(request, metadata=metadata, timeout=ANSWER_S)
    else:
        call = channel.unary_unary(rpc.path, *coders)(request, metadata=metadata, timeout=ANSWER_S)
    if METHODS[method].server_streaming:
        try:
            while await call.read() is not EOF:
                pass
        except grpc.RpcError:
            pass  # the status is looked at below
    trailing = dict(await call.trailing_metadata() or ())
    return await call.code(), await call.details(), trailing.get("penstock-code", "")


def channels(tiny):
    node, login = tiny.member("node", "n1"), tiny.member("login", "l1")
    command, node_port = (f"127.0.0.1:{tiny.ports[port]}" for port in ("command", "node"))

    def secure(address, credentials):
        return grpc.aio.secure_channel(address, credentials, options=CHANNEL_OPTIONS)

    return {
        "unix": grpc.aio.insecure_channel(f"unix:{tiny.folder}/ctld.sock", options=CHANNEL_OPTIONS),
        "tls": secure(command, tls.client_channel(tiny.credentials.ca_pem)),
        "n1": secure(node_port, tls.node_channel(node)),
        "login": secure(node_port, tls.node_channel(login)),
        "n1 on the command port": secure(command, tls.node_channel(node)),
    }


def serve(tiny, action):
    """Run the controller and the action in one loop."""

    async def go():
        await tiny.serve()
        open_channels = channels(tiny)
        try:
            return await action(open_channels)
        finally:
            for channel in open_channels.values():
                await channel.close()
            await tiny.leave()

    return asyncio.run(go())


CALLERS = {
    "no token": ("unix", None),
    "user": ("unix", USER_UID),
    "operator": ("tls", OPERATOR_UID),
    "administrator": ("tls", ADMINISTRATOR_UID),
    "n1": ("n1", None),
    "login certificate": ("login", None),
}


def test_every_method_with_every_caller(tiny, caplog):
    async def action(open_channels):
        found = {}
        for caller, (channel, uid) in CALLERS.items():
            for method in METHODS:
                token = None if uid is None else partial(tiny.issuer.issue, uid, uid, clock_us())
                found[method, caller] = await attempt(open_channels[channel], method, token)
        return found

    found = serve(tiny, action)
    assert {key: status for key, (status, _, _) in found.items()} == {key: expected(*key) for key in found}
    for key, (status, details, code) in found.items():
        if status is not OK:
            assert code == "2002" and details.startswith("Access/permission denied: "), key
    reached = [(method, peer.actor.uid if peer.actor else peer.node) for method, peer in tiny.calls]
    wanted = [(m, uid or ("n1" if c == "n1" else None)) for c, (_, uid) in CALLERS.items() for m in METHODS
              if m in ANYBODY or expected(m, c) is OK]  # fmt: skip
    assert reached == wanted  # and so no handler ran for anybody else


def test_a_node_is_only_itself(tiny):
    """n1 as n2; n1 with a user's token; n1's certificate on the port where none is asked for."""

    async def action(open_channels):
        token = tiny.issuer.issue(ADMINISTRATOR_UID, 0, clock_us())
        return [
            await attempt(open_channels["n1"], "Connect", node_name="n2"),
            await attempt(open_channels["n1"], "Connect", node_name=""),
            await attempt(open_channels["n1"], "SubmitJob", token),
            await attempt(open_channels["n1 on the command port"], "Connect"),
            await attempt(open_channels["n1"], "Connect"),
        ]

    statuses = [status for status, _, _ in serve(tiny, action)]
    assert statuses == [DENIED, DENIED, DENIED, NOBODY, OK]


def test_a_revoked_node(tiny):
    tiny.denied = frozenset({tiny.member("node", "n1").certificate.serial_number})

    async def action(open_channels):
        return await attempt(open_channels["n1"], "Connect")

    status, details, _ = serve(tiny, action)
    assert status is NOBODY and "revoked" in details and tiny.calls == []


def test_a_replayed_token_and_a_foreign_one(tiny, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    other = create_ca(tmp_path / "other", CLUSTER, clock_us())
    issue_to_folder(other, tmp_path / "o", "controller", "ctl", clock_us())
    foreign = TokenIssuer(load_credentials(tmp_path / "o", "controller", clock_us())).issue(0, 0, clock_us())

    async def action(open_channels):
        token = tiny.issuer.issue(USER_UID, 0, clock_us())
        tries = (token, token, foreign, b"junk")
        return token, [await attempt(open_channels["unix"], "Ping", t) for t in tries]

    token, answers = serve(tiny, action)
    assert [status for status, _, _ in answers] == [OK, NOBODY, NOBODY, NOBODY]
    assert "used before" in answers[1][1] and "signer is not trusted" in answers[2][1]
    assert len(tiny.calls) == 1
    assert [method for method, _ in tiny.denied_calls] == ["/penstock.v1.Controller/Ping"] * 3
    assert not any(token[100:140].hex() in text for _, text in tiny.denied_calls)
    assert repr(token[100:140])[2:-1] not in caplog.text and token[100:140].hex() not in caplog.text


def test_wrong_certificates_do_not_connect(tiny, tmp_path):
    """No certificate, one of another CA, an expired one at the node port; a server of another CA or name for a node."""
    other = create_ca(tmp_path / "other", CLUSTER, clock_us())
    issue_to_folder(other, tmp_path / "foreign", "node", "n1", clock_us())
    issue_to_folder(tiny.authority, tmp_path / "old", "node", "n1", clock_us() - 91 * 86_400_000_000)
    foreign = load_credentials(tmp_path / "foreign", "node", None)
    old = load_credentials(tmp_path / "old", "node", None)
    good = tiny.member("node", "n1")
    ours = tiny.credentials.ca_pem

    async def action(_):
        address = f"127.0.0.1:{tiny.ports['node']}"
        found = {}
        for name, credentials in {
            "none": tls.client_channel(ours),
            "another CA's": grpc.ssl_channel_credentials(ours, foreign.key_pem, foreign.certificate_pem),
            "expired": tls.node_channel(old),
            "distrusts us": grpc.ssl_channel_credentials(foreign.ca_pem, good.key_pem, good.certificate_pem),
        }.items():
            async with grpc.aio.secure_channel(address, credentials, options=CHANNEL_OPTIONS) as channel:
                found[name] = (await attempt(channel, "Connect"))[0]
        return found

    assert set(serve(tiny, action).values()) == {grpc.StatusCode.UNAVAILABLE}
    assert tiny.calls == []


def test_a_node_cannot_pose_as_the_controller(tiny):
    """A server with a node's certificate of the right CA is not believed: it has no host name and may not serve."""
    rogue = tiny.member("node", "n1")

    async def go():
        server = grpc.aio.server()
        port = server.add_secure_port("127.0.0.1:0", tls.command_port(lambda: rogue))
        await server.start()
        async with grpc.aio.secure_channel(
            f"127.0.0.1:{port}", tls.client_channel(tiny.credentials.ca_pem), options=CHANNEL_OPTIONS
        ) as channel:
            result = await attempt(channel, "Ping", b"secret token")
        await server.stop(0)
        return result

    assert asyncio.run(go())[0] is grpc.StatusCode.UNAVAILABLE


def test_no_request_has_a_field_for_the_callers_identity():
    """T1: nothing could be forged, because nothing is there to be filled in."""
    forbidden = {"uid", "gid", "user_id", "group_id", "user_name", "group_name", "role", "actor"}
    seen = set()

    def walk(kind):
        if kind.full_name in seen:
            return
        seen.add(kind.full_name)
        for field in kind.fields:
            assert field.name not in forbidden, f"{kind.full_name}.{field.name}"
            if field.message_type is not None:
                walk(field.message_type)

    for name, method in METHODS.items():
        if name not in NODES_ONLY:
            walk(method.input_type)
    assert "penstock.v1.JobRequest" in seen


#: Nobody's on any machine.
UNKNOWN_UID = 771_009


def authenticator(tmp_path, roles):
    ca = create_ca(tmp_path / "ca", "c", clock_us())
    return Authenticator(TokenVerifier(ca.certificate, "c", 0), ca.certificate, "c", roles, clock_us, Lookups())


def test_an_actor_has_the_names_of_this_machine(tmp_path):
    import grp
    import pwd

    found = authenticator(tmp_path, Roles())
    actor = asyncio.run(found.actor(os.geteuid(), 4_000_000))  # a group that the user is not in
    entry = pwd.getpwuid(os.geteuid())
    assert (actor.user_name, actor.gid) == (entry.pw_name, entry.pw_gid)
    assert actor.group_name == grp.getgrgid(entry.pw_gid).gr_name and actor.group_name in actor.groups


def test_an_unknown_user_has_numbers_for_names(tmp_path):
    actor = asyncio.run(authenticator(tmp_path, Roles()).actor(USER_UID, 771_009))
    assert (actor.user_name, actor.group_name, actor.groups) == (str(USER_UID), "771009", ("771009",))


def test_roles():
    config = Config(slurm_user="slurm", penstock_operators=("op", "both"), penstock_administrators=("adm", "both"))
    roles = Roles.of(config, {})
    found = {name: roles.role(uid, name) for uid, name in [(0, "root"), (os.geteuid(), "me"), (USER_UID, "slurm"),
             (USER_UID, "adm"), (USER_UID, "both"), (USER_UID, "op"), (USER_UID, "eve"), (USER_UID, "")]}  # fmt: skip
    assert found == {"root": Role.ADMINISTRATOR, "me": Role.ADMINISTRATOR, "slurm": Role.ADMINISTRATOR,
                     "adm": Role.ADMINISTRATOR, "both": Role.ADMINISTRATOR, "op": Role.OPERATOR,
                     "eve": Role.USER, "": Role.USER}  # fmt: skip


class Counted(Lookups):
    """Notes whom it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def account(self, uid):
        self.asked.append(uid)
        return await super().account(uid)


def test_the_directory_remembers_for_a_minute():
    lookups, now = Counted(), [0]
    directory = UserDirectory(lambda: now[0], lookups)

    async def go():
        for at_us in (0, 59_000_000, 61_000_000):
            now[0] = at_us
            await directory.find(USER_UID, 1)

    asyncio.run(go())
    assert lookups.asked == [USER_UID, USER_UID]


def test_the_directory_is_bounded(monkeypatch):
    monkeypatch.setattr(AnswerCache.__init__, "__defaults__", (3,))
    lookups = Counted()
    directory = UserDirectory(lambda: 0, lookups)
    uids = range(USER_UID, USER_UID + 10)

    async def go():
        for uid in (*uids, *uids[:-4:-1], uids[-4]):
            await directory.find(uid, 1)

    asyncio.run(go())
    assert lookups.asked == [*uids, uids[-4]]  # the last three are remembered, no more


def test_the_group_of_an_unknown_user_is_that_of_the_call():
    """A token's gid is not kept for the next token of that uid."""
    directory = UserDirectory(lambda: 0, Lookups())

    async def go():
        return [(await directory.find(UNKNOWN_UID, gid)).group_names for gid in (4_000_001, 4_000_002)]

    assert asyncio.run(go()) == [{4_000_001: "4000001"}, {4_000_002: "4000002"}]
