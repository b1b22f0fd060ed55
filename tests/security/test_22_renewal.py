"""Item 22: certificates renew themselves, only for their holder; the holder of an expired one gets instructions.

A real controller on the loopback address, real certificates with short terms, real TLS. Time passes by what is issued.
"""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from patience import ANSWER_S

from ctld.runtime.certificates import Certificates
from nodedaemon.core.messages import LinkUp
from nodedaemon.daemon import link, localauth, renewal
from nodedaemon.daemon.localauth import AUTH_SOCKET, of_node
from nodedaemon.daemon.renewal import Renewal
from nodedaemon.launch.wire import NodeFacts
from nodedaemon.stepd.context import LauncherContext
from penstock.aclient import fetch_token
from penstock.errors import PenstockError
from penstock.security import issued, renew
from penstock.security.ca import (
    Credentials,
    create_ca,
    issue_to_folder,
    key_to_pem,
    load_ca,
    load_credentials,
    load_denied,
    make_key,
    to_pem,
)
from penstock.security.keyfiles import write_public, write_secret
from penstock.security.tokens import TokenVerifier
from penstock.v1 import node_pb2
from penstock.v1.controller_pb2 import ListNodesRequest, PingRequest
from tests.rpc.clusterkit import FakeNode, Site, now_us

ROOT = Path(__file__).parents[2]
DAY_US = 86_400_000_000


def hold(site_state: Path, folder: Path, role: str, name: str, life_s: int, at_us: int = 0) -> Credentials:
    """A daemon's folder with a certificate of that term, as it was issued at that time."""
    folder.mkdir(exist_ok=True)
    authority, key = load_ca(site_state / "ca"), make_key()
    certificate = authority.issue(role, name, key.public_key(), at_us or now_us(), life_s=life_s)
    write_secret(folder / f"{role}.key", key_to_pem(key))
    write_public(folder / f"{role}.pem", to_pem(certificate))
    write_public(folder / "ca.pem", authority.pem)
    return load_credentials(folder, role, None)


def request_of(key: ec.EllipticCurvePrivateKey, *names: str) -> bytes:
    """A certificate request, with whatever names."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if names:
        alternatives = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.mark.parametrize(("role", "port"), [("node", 1), ("login", 0)])
def test_it_is_renewed_at_two_thirds_and_in_use_at_once(tmp_path: Path, role: str, port: int) -> None:
    site = Site(tmp_path)
    folder = tmp_path / "certs"
    seen: list[Any] = []

    async def story() -> None:
        async with site.controller():
            old = hold(site.state, folder, role, "n1", 60)  # as it is valid a little in the past, two thirds are over
            daemon = Renewal(folder, role, f"127.0.0.1:{site.ports[port]}", seen.append)
            assert await daemon.renew_due() == renewal.CHECK_S
            new = load_credentials(folder, role, now_us())
            assert [one.certificate for one in seen] == [new.certificate]
            assert new.identity == old.identity and new.key_pem == old.key_pem
            assert renew.days_left(renew.end_us(new.certificate), now_us()) == 89
            assert stat.S_IMODE((folder / f"{role}.key").stat().st_mode) == 0o600
            assert sorted(os.listdir(folder)) == ["ca.pem", f"{role}.key", f"{role}.pem"]
            # It is not due again; with a clock at two thirds it is.
            assert await daemon.renew_due() == renewal.CHECK_S and len(seen) == 1
            entries = issued.read(site.state / "ca")
            assert [entry.renews for entry in entries[-2:]] == ["", entries[-2].serial]
            assert (entries[-1].role, entries[-1].name, entries[-1].number) == (
                role,
                "n1",
                new.certificate.serial_number,
            )

    asyncio.run(story())


def test_two_thirds(tmp_path: Path) -> None:
    authority = create_ca(tmp_path / "ca", "c", now_us())
    certificate = authority.issue("node", "n1", make_key().public_key(), now_us())
    end_us, due_us = renew.end_us(certificate), renew.due_us(certificate)
    assert (end_us - due_us) // DAY_US == 30
    assert stat.S_IMODE((tmp_path / "ca" / issued.FILE).stat().st_mode) == 0o600


Attempt = Callable[[Any, Credentials], tuple[bytes, bytes]]
REFUSED: dict[str, tuple[str, Attempt]] = {
    "another key": ("own key", lambda site, held: (held.certificate_pem, request_of(make_key()))),
    "no certificate": ("not a certificate", lambda site, held: (b"", request_of(held.key))),
    "too long": ("too long", lambda site, held: (held.certificate_pem * 40, request_of(held.key))),
    "no request": ("cannot be read", lambda site, held: (held.certificate_pem, b"x")),
    "a long request": ("too long", lambda site, held: (held.certificate_pem, b"x" * 20_000)),
    "the controller's": (
        "not renewed over the network",
        lambda site, held: (site.own.certificate_pem, request_of(site.own.key)),
    ),
    "the CA's": ("URI name", lambda site, held: (site.authority.pem, request_of(site.authority.key))),
    "one that has ended": ("has expired", lambda site, held: (site.ended.certificate_pem, request_of(site.ended.key))),
    "another CA's": ("not signed by", lambda site, held: (site.foreign.certificate_pem, request_of(site.foreign.key))),
    "a new one": ("less than half", lambda site, held: (site.new.certificate_pem, request_of(site.new.key))),
    "a node that is gone": (
        "Invalid node name", lambda site, held: (site.gone.certificate_pem, request_of(site.gone.key)),
    ),
}  # fmt: skip


def test_nobody_gets_more_than_he_has(tmp_path: Path) -> None:
    """Each attempt is refused, and nothing is issued for it; then the holder's own passes, and carries no wishes."""
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller() as controller:
            held = hold(site.state, tmp_path / "held", "node", "n1", 60)
            other = create_ca(tmp_path / "other", "test", now_us())
            issue_to_folder(other, tmp_path / "foreign", "node", "n1", now_us())
            props = SimpleNamespace(
                authority=load_ca(site.state / "ca"), own=controller.certificates.held,
                ended=hold(site.state, tmp_path / "e", "node", "n1", 86_400, now_us() - 2 * DAY_US),
                foreign=load_credentials(tmp_path / "foreign", "node", None),
                new=hold(site.state, tmp_path / "new", "node", "n1", 86_400),
                gone=hold(site.state, tmp_path / "gone", "node", "n77", 60),
            )  # fmt: skip
            before = len(issued.read(site.state / "ca"))
            for what, (text, attempt) in REFUSED.items():
                certificate_pem, csr_pem = attempt(props, held)
                forged = Credentials(
                    held.identity, held.key, held.certificate, held.ca, held.key_pem, certificate_pem, b""
                )
                with pytest.raises(PenstockError, match=text):
                    await asked(site, forged, csr_pem)
                assert len(issued.read(site.state / "ca")) == before, what
            wishes = ("penstock://test/controller/ctl", "penstock://test/node/n2")
            new = x509.load_pem_x509_certificate(await asked(site, held, request_of(held.key, *wishes)))
            write_public(tmp_path / "held" / "node.pem", to_pem(new))
            assert load_credentials(tmp_path / "held", "node", now_us()).identity == held.identity

    asyncio.run(story())


async def asked(site: Site, shown: Credentials, csr_pem: bytes) -> bytes:
    """RenewCertificate with this certificate in the request, from a client without one of its own."""
    from penstock.v1.controller_pb2 import RenewCertificateRequest

    async with site.client() as client:
        request = RenewCertificateRequest(certificate_pem=shown.certificate_pem, csr_pem=csr_pem)
        return bytes((await client.call("RenewCertificate", request)).certificate_pem)


def test_what_is_denied_is_not_renewed_and_denies_its_heirs(tmp_path: Path) -> None:
    """A thief who has renewed a stolen certificate loses that one, too: by the serial that the administrator knows."""
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller():
            stolen = hold(site.state, tmp_path / "s", "node", "n1", 60)
            heir = x509.load_pem_x509_certificate(await asked(site, stolen, request_of(stolen.key)))
            denied = site.state / "ca" / "denied.json"
            denied.write_text(f'["{stolen.certificate.serial_number:X}"]')
            assert load_denied(denied) == {stolen.certificate.serial_number, heir.serial_number}
            with pytest.raises(PenstockError, match="revoked"):  # without a reload of the configuration
                await asked(site, stolen, request_of(stolen.key))

    asyncio.run(story())


def test_who_slept_past_the_end_says_so_once_and_waits_for_a_person(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link does not call the controller with it; when the host has joined again, it connects without a restart."""
    monkeypatch.setattr(link, "REFUSED_PAUSE_MAX_S", 0.1)
    caplog.set_level(logging.INFO, "penstock.noded")
    site = Site(tmp_path)
    folder = tmp_path / "certs"

    async def story() -> None:
        async with site.controller():
            hold(site.state, folder, "node", "n1", 86_400, now_us() - 2 * DAY_US)
            seen: list[Credentials] = []
            daemon = Renewal(folder, "node", f"127.0.0.1:{site.ports[1]}", seen.append)
            assert [await daemon.renew_due() for _ in range(3)] == [renewal.ENDED_CHECK_S] * 3
            assert len(told(caplog)) == 1
            up = asyncio.Event()
            looks = 0

            def counted() -> int:
                nonlocal looks
                looks += 1
                return now_us()

            monkeypatch.setattr(renewal, "wall_us", counted)  # the link asks for it when it looks at its certificate
            running = asyncio.create_task(
                a_link(site, folder, lambda event: up.set() if isinstance(event, LinkUp) else None).run()
            )
            async with asyncio.timeout(ANSWER_S):
                while looks < 5:
                    await asyncio.sleep(0.01)
            assert len(told(caplog)) == 2 and not up.is_set()  # the other one's, once
            issue_to_folder(load_ca(site.state / "ca"), folder, "node", "n1", now_us())  # as joining again does
            async with asyncio.timeout(ANSWER_S):
                await up.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert await daemon.renew_due() == renewal.CHECK_S and len(seen) == 1

    asyncio.run(story())
    text = told(caplog)[0]
    assert "penstock node token n1" in text and "penstock noded --node-name n1 --join -" in text


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "join again" in record.getMessage()]


def a_link(site: Site, folder: Path, post: Callable[[Any], Any]) -> link.Link:
    register = node_pb2.Register(
        node_name="n1", boot_id="b", spool_id="s", version="1", protocol=1,
        inventory=node_pb2.Inventory(cpus=4, real_memory_mb=4000, sockets=1, cores_per_socket=4),
    )  # fmt: skip
    contact: Any = SimpleNamespace(renew=lambda at: None, rest=lambda: None, no_controller=lambda at: None)
    target = link.make_target(f"127.0.0.1:{site.ports[1]}", str(folder))
    return link.Link(
        target, NodeFacts("n1", "n1", ""), lambda: register, node_pb2.Heartbeat, post, lambda answer: None, contact,
        lambda ticket: None,
    )  # fmt: skip


def test_a_clock_that_is_behind_is_named_instead_of_a_handshake(tmp_path: Path) -> None:
    create_ca(tmp_path / "ca", "test", now_us())
    hold(tmp_path, tmp_path / "certs", "node", "n1", 86_400, now_us() + DAY_US)
    target = link.make_target("127.0.0.1:1", str(tmp_path / "certs"))
    with pytest.raises(link.BadCredentials, match=r"node n1 begins on .* clock of this machine says .* set the clock"):
        target.now()


def test_a_login_host_that_slept_past_the_end_does_not_start(tmp_path: Path) -> None:
    create_ca(tmp_path / "ca", "test", now_us())
    hold(tmp_path, tmp_path / "certs", "login", "front1", 86_400, now_us() - 2 * DAY_US)
    words = [
        "--login",
        "--controller",
        "127.0.0.1:1",
        "--cert-dir",
        str(tmp_path / "certs"),
        "--spool",
        str(tmp_path / "l"),
    ]
    done = penstock("noded", *words)
    assert done.returncode == 78 and "penstock node token --role login front1" in done.stderr


def test_what_cannot_be_renewed_is_told_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    create_ca(tmp_path / "ca", "test", now_us())
    hold(tmp_path, tmp_path / "certs", "node", "n1", 40 * 86_400, now_us() - 35 * DAY_US)
    daemon = Renewal(tmp_path / "certs", "node", "127.0.0.1:1", lambda new: None)
    assert [asyncio.run(daemon.renew_due()) for _ in range(2)] == [renewal.RETRY_S] * 2
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("the certificate ends in 4 days and cannot be renewed: ")


def test_tokens_are_signed_with_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_ca(tmp_path / "ca", "test", now_us())
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o711)
    first = hold(tmp_path, tmp_path / "certs", "node", "n1", 60)
    verifier = TokenVerifier(first.ca, "test", 0)
    verifier.has_job = lambda node, uid: True
    later_us = now_us() + DAY_US
    monkeypatch.setattr(localauth, "time", SimpleNamespace(time_ns=lambda: later_us * 1000))

    async def story() -> None:
        local = of_node(str(spool), str(tmp_path / "certs"), "127.0.0.1:6819")
        local.start()
        with pytest.raises(PenstockError, match="not in force"):
            verifier.verify(await fetch_token(str(spool / AUTH_SOCKET), 30), later_us)
        local.renewed(hold(tmp_path, tmp_path / "certs", "node", "n1", 86_400 * 90))
        assert verifier.verify(await fetch_token(str(spool / AUTH_SOCKET), 30), later_us).uid == os.getuid()
        local.close()

    asyncio.run(story())


def test_steps_that_run_show_the_new_one(tmp_path: Path) -> None:
    """A stepd keeps what it has made of the file until there is another; a broken one takes nothing away."""
    create_ca(tmp_path / "ca", "test", now_us())
    folder = tmp_path / "certs"
    first = hold(tmp_path, folder, "node", "n1", 60)
    context = LauncherContext(
        steps_path="", steps_fd=-1, packets=socket.socket(), null_fd=-1, node_name="n1", cgroups=None, is_root=False,
        cert_dir=str(folder),
    )  # fmt: skip
    same = context.tls()
    assert serial_shown(context) == first.certificate.serial_number and context.tls() is same
    second = hold(tmp_path, folder, "node", "n1", 86_400)
    assert serial_shown(context) == second.certificate.serial_number
    (folder / "node.pem").write_text("-")
    assert serial_shown(context) == second.certificate.serial_number
    context.packets.close()


def serial_shown(context: LauncherContext) -> int:
    tls = context.tls()
    assert tls is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                tls.wrap_socket(connection, server_side=True).recv(1)

        server = threading.Thread(target=serve)
        server.start()
        number = serial_at(listener.getsockname()[1])
        server.join(ANSWER_S)
    return number


def serial_at(port: int) -> int:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as plain, client.wrap_socket(plain) as shown:
        return x509.load_der_x509_certificate(shown.getpeercert(True) or b"").serial_number


def test_the_controller_renews_its_own_while_it_runs(tmp_path: Path) -> None:
    """New connections see the new one on both ports, an old one stays, and commands with tokens go on."""
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller() as controller, site.client() as client, FakeNode(site) as node:
            await node.register()
            certificates = controller.certificates
            old = certificates.held

            def made() -> Credentials:
                issue_to_folder(
                    load_ca(site.state / "ca"),
                    site.state / "ca",
                    "controller",
                    "localhost",
                    now_us(),
                    ("localhost", "127.0.0.1"),
                )
                return load_credentials(site.state / "ca", "controller", now_us())

            certificates._make = made
            await certificates.renew_due()
            number = certificates.held.certificate.serial_number
            assert number != old.certificate.serial_number
            assert [await asyncio.to_thread(serial_at, port) for port in site.ports] == [number] * 2
            assert (await client.call("Ping", PingRequest())).cluster_name == "test"
            await node.call.write(node_pb2.NodeMessage(heartbeat=node_pb2.Heartbeat()))
            while (await node.read()).WhichOneof("kind") != "heartbeat_ack":
                pass

    asyncio.run(story())


def test_the_log_warns_of_what_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nodes, login hosts, the controller and the CA; not what has been renewed, and nothing that has long to go."""
    start_us = now_us()
    authority = create_ca(tmp_path / "ca", "test", start_us)
    for role, name, days in (
        ("node", "n1", 10),
        ("login", "front1", 13),
        ("node", "n2", 20),
        ("node", "n3", 5),
        ("node", "n3", 90),
    ):
        authority.issue(role, name, make_key().public_key(), start_us, life_s=days * 86_400 + 60)
    key = make_key()
    own = authority.issue("controller", "ctl", key.public_key(), start_us, life_s=5 * 86_400)
    held = SimpleNamespace(certificate=own, ca=authority.certificate, identity=SimpleNamespace(name="ctl"))
    at = SimpleNamespace(us=start_us)
    certificates = Certificates(tmp_path / "ca", held, lambda: held, lambda: at.us)  # type: ignore[arg-type,return-value]  # a stand-in for credentials
    caplog.set_level(logging.WARNING, "penstock.ctld")
    asyncio.run(certificates.renew_due())
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in lines[:2]] == ["node n1", "login front1"]
    assert "penstock node token --role login front1" in lines[1]
    assert len(lines) == 3 and lines[2].startswith("the controller's certificate ends on ")
    caplog.clear()
    at.us += 3500 * DAY_US
    asyncio.run(certificates.renew_due())
    assert any("the cluster's CA ends on" in record.getMessage() for record in caplog.records)


def penstock(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-P", "-m", "cli.penstock", *words]
    return subprocess.run(
        line, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=ANSWER_S, check=False
    )


def sinfo(site: Site, *words: str) -> str:
    line = [sys.executable, "-P", "-m", "cli.sinfo", *words]
    environment = os.environ | {"PENSTOCK_CLUSTER": str(site.state / "cluster.json")}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=ANSWER_S, check=True)
    return done.stdout


def test_a_node_whose_certificate_ends_is_among_the_reasons(tmp_path: Path) -> None:
    """In sinfo -R's four columns, and only there: the node is idle, is not drained, and takes jobs. Renewed, it is gone."""
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller(), FakeNode(site) as node:
            folder = tmp_path / "certs" / "n1"
            node.credentials = hold(site.state, folder, "node", "n1", 10 * 86_400, now_us() - 7 * DAY_US)
            async with node:
                await node.register()
                table = (await asyncio.to_thread(sinfo, site, "-R")).splitlines()
                assert table[0].split() == ["REASON", "USER", "TIMESTAMP", "NODELIST"] and len(table) == 2
                assert table[1].startswith("Cert ends 20") and table[1].split()[-1] == "n1"
                assert (await asyncio.to_thread(sinfo, site, "-h", "-R", "-t", "down,drain,fail")) == ""
                assert (await asyncio.to_thread(sinfo, site, "-h", "-o", "%T %D")).strip() == "idle 1"
                daemon = Renewal(folder, "node", f"127.0.0.1:{site.ports[1]}", lambda new: None)
                assert await daemon.renew_due() == renewal.CHECK_S
                assert (await asyncio.to_thread(sinfo, site, "-h", "-R")) == ""
                async with site.client() as client:
                    (shown,) = (await client.call("ListNodes", ListNodesRequest())).nodes
                    assert (shown.reason, shown.is_warning, list(shown.flags)) == ("", False, [])

    asyncio.run(story())


def test_what_was_issued_is_listed(tmp_path: Path) -> None:
    authority = create_ca(tmp_path / "ca", "test", now_us())
    made = {
        name: authority.issue("node", name, make_key().public_key(), now_us() - ago * DAY_US, life_s=days * 86_400)
        for name, ago, days in (("n1", 0, 90), ("n2", 80, 90), ("n3", 100, 90), ("n4", 0, 90))
    }
    authority.issue("login", "front1", make_key().public_key(), now_us(), life_s=90 * 86_400)
    new = authority.issue("node", "n1", make_key().public_key(), now_us(), renews=made["n1"].serial_number)
    (tmp_path / "ca" / "denied.json").write_text(f'["{made["n4"].serial_number:X}"]')
    done = penstock("ca", "list", "--dir", str(tmp_path / "ca"))
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["ROLE", "NAME", "ENDS", "STATE", "SERIAL"]
    assert [(row[0], row[1], " ".join(row[4:-1])) for row in rows[1:]] == [
        ("node", "n2", "ends soon"), ("node", "n4", "denied"), ("login", "front1", "valid"), ("node", "n1", "valid"),
    ]  # fmt: skip
    assert int(rows[4][-1], 16) == new.serial_number
    everything = penstock("ca", "list", "--all", "--dir", str(tmp_path / "ca")).stdout
    assert len(everything.splitlines()) == 7 and "renewed" in everything and "ended" in everything


def test_a_folder_without_a_ca_is_named(tmp_path: Path) -> None:
    done = penstock("ca", "list", "--dir", str(tmp_path / "mistyped"))
    assert (done.returncode, done.stdout) == (os.EX_CONFIG, "") and "there is no CA here" in done.stderr


def test_of_the_controller_the_newest_alone_is_in_force(tmp_path: Path) -> None:
    authority = create_ca(tmp_path / "ca", "test", now_us())
    for name, ago in (("ctl", 85), ("localhost", 80), ("localhost", 20)):  # the first by `penstock ca init`
        authority.issue("controller", name, make_key().public_key(), now_us() - ago * DAY_US, life_s=90 * 86_400)
    listed = penstock("ca", "list", "--dir", str(tmp_path / "ca")).stdout.splitlines()[1:]
    assert [row.split()[:2] + row.split()[4:-1] for row in listed] == [["controller", "localhost", "valid"]]


def test_an_entry_that_a_crash_has_cut_is_nobodys(tmp_path: Path) -> None:
    authority = create_ca(tmp_path / "ca", "test", now_us())
    authority.issue("node", "n1", make_key().public_key(), now_us())
    path = tmp_path / "ca" / issued.FILE
    path.write_bytes(path.read_bytes() + b'\n{"serial":"0A')
    assert [entry.name for entry in issued.read(tmp_path / "ca")] == ["n1"]
    authority.issue("node", "n2", make_key().public_key(), now_us())
    assert [entry.name for entry in issued.read(tmp_path / "ca")] == ["n1", "n2"]
    path.write_bytes(path.read_bytes() + b'\n{"serial":0}')
    with pytest.raises(PenstockError, match="is damaged"):
        issued.read(tmp_path / "ca")
