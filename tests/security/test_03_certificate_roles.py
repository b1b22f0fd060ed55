"""Item 3: all daemons have certificates of one CA, and a node chooses its name. None but a controller passes for it.

Real servers with real certificates on the loopback address, and every kind of client that there is.
"""

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from patience import ANSWER_S

from cli.steps.trust import Trust, UntrustedPeer
from nodedaemon.daemon.link import make_target, open_channel
from nodedaemon.stepd.context import server_context
from penstock.aclient import AsyncClient
from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.errors import BadSetup, PenstockError
from penstock.security import ca as authority
from penstock.security.ca import Credentials, ensure_controller, issue_to_folder, load_ca
from penstock.security.join import JoinRefused, JoinTokens, admit, join
from penstock.security.keyfiles import write_public, write_secret
from penstock.security.names import CONTROLLER_HOST, is_controller, why_reserved
from penstock.v1 import node_pb2, node_pb2_grpc
from penstock.v1.controller_pb2 import CreateNodeTokenRequest, JoinNodeRequest, PingRequest
from penstock.values.refusals import Code
from tests.auth.tiny_controller import TinyController, clock_us
from tests.rpc.clusterkit import Site, now_us

#: Role and name of what is shown instead of the controller's.
ISSUED = {
    "a node": ("node", "n1"),
    "a login host": ("login", "n1"),
}
#: What the CA never makes: names that are the address that clients look for, host names in a node's certificate, none of
#: ours at all. An earlier release has made the first four.
CRAFTED = {
    "a node called by the address": ["penstock://tiny/node/127.0.0.1"],
    "a login host called by the address": ["penstock://tiny/login/127.0.0.1"],
    "a node called localhost": ["penstock://tiny/node/localhost"],
    "a login host called localhost": ["penstock://tiny/login/localhost"],
    "localhost with its host name": ["penstock://tiny/node/localhost", "localhost"],
    "host names": ["penstock://tiny/node/n1", "127.0.0.1", "localhost"],
    "two roles": ["penstock://tiny/node/n1", "penstock://tiny/controller/ctl", "127.0.0.1"],
    "no role": ["127.0.0.1", "localhost"],
    "a role in its name": ["penstock://tiny/node/controller", "127.0.0.1"],
}


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def host_name(name: str) -> x509.GeneralName:
    """As a certificate has it: an address by its number."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def names_of(certificate: x509.Certificate) -> list[x509.GeneralName]:
    """The names that the certificate is for."""
    return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def crafted(tiny: TinyController, names: list[str]) -> Credentials:
    """A certificate of the CA with these names."""
    key = authority.make_key()
    ours = [x509.UniformResourceIdentifier(name) if "://" in name else host_name(name) for name in names]
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_common_name(tiny.host))
        .issuer_name(tiny.authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=90))
        .add_extension(x509.SubjectAlternativeName(ours), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(tiny.authority.key, hashes.SHA256())
    )
    return Credentials(
        tiny.credentials.identity, key, certificate, tiny.authority.certificate, authority.key_to_pem(key),
        authority.to_pem(certificate), tiny.authority.pem,
    )  # fmt: skip


@pytest.fixture(params=[*ISSUED, *CRAFTED])
def impostor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TinyController]:
    """Where the controller should be listens somebody with another certificate of the same CA."""
    tiny = TinyController(tmp_path)
    if request.param in ISSUED:
        tiny.credentials = tiny.member(*ISSUED[request.param])
    else:
        names = CRAFTED[request.param]
        tiny.host = "localhost" if any("localhost" in name for name in names[:1]) else "127.0.0.1"
        tiny.credentials = crafted(tiny, names)
    tiny.start()
    yield tiny
    tiny.stop()


def test_a_command_tells_it_nothing(impostor: TinyController) -> None:
    with Client.open(cluster=impostor.remote_cluster) as client, pytest.raises(PenstockError) as caught:
        client.call("Ping", PingRequest())
    assert caught.value.code == Code.ACCESS_DENIED
    assert caught.value.text == "The controller's certificate is not one of this cluster's"
    assert (impostor.calls, impostor.tokens_seen) == ([], [])


def test_a_program_tells_it_nothing(impostor: TinyController) -> None:
    async def story() -> None:
        async with AsyncClient.open(2.0, cluster=impostor.remote_cluster) as client:
            with pytest.raises(PenstockError):
                await client.call("Ping", PingRequest())

    asyncio.run(story())
    assert (impostor.calls, impostor.tokens_seen) == ([], [])


def test_a_node_that_joins_tells_it_nothing(impostor: TinyController, tmp_path: Path) -> None:
    assert impostor.join_tokens is not None
    token, _ = impostor.join_tokens.create("n7", b"0123456789abcdef", clock_us())
    with pytest.raises(PenstockError):
        join(token, "n7", tmp_path / "joined", clock_us())
    assert impostor.calls == [] and not (tmp_path / "joined").exists()


def test_a_node_daemon_tells_it_nothing(impostor: TinyController) -> None:
    async def story() -> None:
        impostor.member("node", "n1")
        target = make_target(f"{impostor.host}:{impostor.ports['node']}", str(impostor.folder / "node-n1"))
        async with open_channel(target) as channel:
            call = node_pb2_grpc.NodeLinkStub(channel).Connect()
            with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError)):
                async with asyncio.timeout(ANSWER_S):
                    await call.write(node_pb2.NodeMessage(register=node_pb2.Register(node_name="n1")))
                    await call.read()

    asyncio.run(story())
    assert impostor.calls == []


def test_the_controller_itself_passes(tmp_path: Path) -> None:
    """Also under an address that its certificate does not name, for clients that know only the CA."""
    tiny = TinyController(tmp_path)
    tiny.start()
    try:
        with Client.open(cluster=tiny.remote_cluster) as client:
            assert client.call("Ping", PingRequest()).cluster_name == "tiny"
        token, _ = tiny.join_tokens.create("n7", b"0123456789abcdef", clock_us())
        assert join(token, "n7", tmp_path / "joined", clock_us()).identity.uri == "penstock://tiny/node/n7"
    finally:
        tiny.stop()


#: Names that no node and no login host gets, beside those of the controller's own configuration.
RESERVED = [
    "localhost", "LOCALHOST", "localhost.", "n1.localhost", "localhost.localdomain", "ip6-localhost", "127.0.0.1", "127.1",
    "0x7f000001", "10.0.0.7", CONTROLLER_HOST, CONTROLLER_HOST.upper() + ".",
]  # fmt: skip


@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_name_does_not_join(tmp_path: Path, name: str) -> None:
    """Neither with a token, also of an earlier release, nor by hand. One that has joined before keeps its certificate:
    its role decides."""
    tiny = TinyController(tmp_path)
    for role in ("node", "login"):
        with pytest.raises(BadSetup, match=f"a {role} cannot be called so"):
            issue_to_folder(tiny.authority, tmp_path / "by hand", role, name, clock_us())
        tokens = JoinTokens(tmp_path / f"{role}.json", "tiny", tiny.authority.certificate, "127.0.0.1:1")
        token, _ = tokens.create(name, b"0123456789abcdef", clock_us(), role)
        for _ in range(2):  # the refusal does not use it up
            with pytest.raises(JoinRefused) as caught:
                admit(tiny.authority, tokens, token, name, request_of(authority.make_key()), clock_us())
            assert caught.value.reason == "reserved"
    assert not list((tmp_path / "by hand").iterdir())
    key = authority.make_key().public_key()
    assert tiny.authority.issue("node", name, key, clock_us(), renews=7)


def request_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A certificate request."""
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(("name", "controllers", "is_taken"), [
    ("ctl", ["ctl"], True), ("CTL.", ["ctl"], True), ("ctl", ["ctl.example.org"], True), ("ctl.example.org", ["ctl.example.org"], True),
    ("ctl.example.org", ["ctl"], False), ("ctl2", ["ctl"], False), ("10", ["10.0.0.1"], False), ("n1", ["", "10.0.0.1"], False),
    ("7", [], False), ("node.7", [], False),
])  # fmt: skip
def test_names_of_the_controller(name: str, controllers: list[str], is_taken: bool) -> None:
    assert bool(why_reserved(name, controllers)) is is_taken


@pytest.mark.parametrize(
    ("name", "is_its_own"), [("localhost", False), ("10.1.2.3", False), ("ctl.example.org", True), ("ctl", True)]
)
def test_a_controller_gives_no_token_for_its_own_names(tmp_path: Path, name: str, is_its_own: bool) -> None:
    """Of slurm.conf, and of its certificate, to login hosts; a node of its own name is the machine that it runs on. Names that
    are every machine's, or addresses, nobody gets, also with a token that was made by an earlier release."""
    site = Site(tmp_path)
    text = site.conf.read_text().replace("NodeName=", f"NodeName={name} CPUs=1\nNodeName=", 1)
    site.conf.write_text(text.replace("SlurmctldHost=localhost(127.0.0.1)", "SlurmctldHost=ctl.example.org(127.0.0.1)"))

    async def story() -> None:
        async with site.controller() as daemon, site.client() as client:
            for is_login in (True,) if is_its_own else (True, False):
                ask = CreateNodeTokenRequest(node_name=name, login_host=is_login)
                with pytest.raises(PenstockError) as caught:
                    await client.call("CreateNodeToken", ask)
                assert caught.value.code == Code.ACCESS_DENIED and "give the host another name" in str(caught.value)
            token, _ = daemon.services.join_tokens.create(name, b"0123456789abcdef", now_us())
            join_it = JoinNodeRequest(token=token, node_name=name, csr_pem=request_of(authority.make_key()))
            if is_its_own:
                assert (await client.call("CreateNodeToken", CreateNodeTokenRequest(node_name=name))).token
                join_it.token = daemon.services.join_tokens.create(name, b"fedcba9876543210", now_us())[0]
                assert (await client.call("JoinNode", join_it)).certificate_pem
                return
            with pytest.raises(PenstockError) as caught:
                await client.call("JoinNode", join_it)
            assert "give the host another name" in str(caught.value)

    asyncio.run(story())


def test_only_controllers_get_the_name_of_their_role(tmp_path: Path) -> None:
    tiny = TinyController(tmp_path)
    for role in ("node", "login"):
        with pytest.raises(BadSetup, match="carries no host names"):
            tiny.authority.issue(role, "n1", authority.make_key().public_key(), clock_us(), (CONTROLLER_HOST,))
        with pytest.raises(BadSetup, match="known by"):
            tiny.authority.issue(role, CONTROLLER_HOST.upper(), authority.make_key().public_key(), clock_us())
        assert not tiny.member(role, "n1").certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        names = names_of(tiny.member(role, "n1").certificate)
        assert [type(name) for name in names] == [x509.UniformResourceIdentifier]
    assert x509.DNSName(CONTROLLER_HOST) in names_of(tiny.credentials.certificate)


def test_a_controllers_certificate_of_an_older_version_is_made_anew(tmp_path: Path) -> None:
    tiny = TinyController(tmp_path)
    folder = tmp_path / "ca"
    old = crafted(tiny, ["penstock://tiny/controller/ctl", "localhost", "127.0.0.1"])
    write_secret(folder / "controller.key", old.key_pem)
    write_public(folder / "controller.pem", old.certificate_pem)
    made = ensure_controller(folder, "ctl", ("localhost", "127.0.0.1"), clock_us())
    assert x509.DNSName(CONTROLLER_HOST) in names_of(made.certificate)
    assert made.certificate.serial_number != old.certificate.serial_number


@pytest.mark.parametrize("uri", [
    "", "penstock://c/node/n1", "penstock://c/login/n1", "penstock://c/node/controller", "penstock://c/controller",
    "penstock://c/controller/ctl/x", "https://c/controller/ctl", "penstock:/c/controller/ctl/", "x://c/controller/ctl",
])  # fmt: skip
def test_other_names_are_no_controllers(uri: str) -> None:
    assert not is_controller(uri) and is_controller("penstock://c/controller/ctl")


@pytest.mark.parametrize(("role", "name", "passes"), [
    ("node", "n1", True), ("node", "n2", False), ("login", "n1", False), ("controller", "n1", False),
])  # fmt: skip
def test_who_connects_to_a_steps_port_looks_for_that_node(tmp_path: Path, role: str, name: str, passes: bool) -> None:
    """A step's client against a stream server with each certificate."""
    tiny = TinyController(tmp_path)
    folder = tmp_path / "shown"
    issue_to_folder(load_ca(tmp_path / "ca"), folder, role, name, clock_us())
    for suffix in ("key", "pem"):
        (folder / f"{role}.{suffix}").rename(folder / f"node.{suffix}")
    context = server_context(str(folder))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                context.wrap_socket(connection, server_side=True).recv(1)

        server = threading.Thread(target=serve)
        server.start()
        trust = Trust(ClusterFile("tiny", "there", "", "", "", str(tmp_path / "ca" / "ca.pem")))
        with socket.create_connection(listener.getsockname(), ANSWER_S) as plain:
            try:
                with trust.context().wrap_socket(plain) as shown:
                    trust.check("n1", shown)
                    found = ""
            except (UntrustedPeer, ssl.SSLCertVerificationError) as error:
                found = str(error)
        server.join(ANSWER_S)
    assert (found == "") is passes and tiny.calls == []
    if role != "login":  # whose certificate is not for servers at all
        assert passes or f"of penstock://tiny/{role}/{name}, not of" in found
