"""What the REST daemon needs to start: its packages, the systemd unit's options, certificate and key."""

import configparser
import datetime
import ipaddress
import shlex
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from livecluster import ROOT
from liverest import PREFIX, LiveRest
from patience import ANSWER_S, START_S

from penstock.errors import EXIT_CONFIG
from rest.commandline import command_line
from rest.main import is_loopback, split_where
from rest.server import listen_tcp

UNIT = ROOT / "packaging/penstock-restd.service"


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "httptools"])
def test_without_its_packages_it_says_what_to_install(package):
    """One line, status 78, before the cluster is looked for; -V works without them."""
    program = f"import sys; sys.modules[{package!r}] = None; from rest.main import main; sys.exit(main(sys.argv[1:]))"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", program, *words]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=START_S, check=False)

    done = run("127.0.0.1:0")
    assert done.returncode == EXIT_CONFIG
    assert (
        done.stderr
        == "penstock restd: error: starlette, uvicorn and httptools are not installed: pip install 'penstock[rest]'\n"
    )
    assert run("-V").returncode == 0


def test_the_systemd_unit_starts_it_as_it_can_be_started():
    """Its options are options, plain HTTP is on loopback alone, and a status that repeats is not tried again."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names of systemd have capitals
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    program, name, *words = shlex.split(service["ExecStart"])
    assert (Path(program).name, name) == ("penstock", "restd")
    options = command_line().parser().parse_args(words)
    sockets = [one for one in options.listen if one.startswith("unix:")]
    assert sockets == [f"unix:/run/{service['RuntimeDirectory']}/restd.sock"]
    assert all(is_loopback(split_where(one)[0]) for one in options.listen if one not in sockets)
    assert service["User"] not in ("root", "slurm") and not options.allow_privileged
    assert service["RestartPreventExitStatus"] == str(EXIT_CONFIG) and service["NoNewPrivileges"] == "yes"


def certificate(folder: Path, name: str) -> tuple[str, str]:
    """The files of a certificate for 127.0.0.1 that its own key signs, and of the key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    return str(files[0]), str(files[1])


def test_https(shared_rest, tmp_path):
    """A client that trusts the certificate is served, over TLS 1.2 or newer; another one, and plain HTTP, are not."""
    cert, key = certificate(tmp_path, "restd")
    other, _ = certificate(tmp_path, "other")
    secure = LiveRest(shared_rest.cluster, "--tls-cert", cert, "--tls-key", key)
    secure.socket = shared_rest.cluster.home / "tls.sock"
    secure.start("restd-tls")
    try:
        assert secure.url.startswith("https://")
        headers = {"X-SLURM-USER-TOKEN": shared_rest.token()}
        trusted = ssl.create_default_context(cafile=cert)
        with httpx.Client(base_url=secure.url, headers=headers, verify=trusted, timeout=ANSWER_S) as client:
            reply = client.get(f"{PREFIX}/ping")
            assert reply.status_code == 200 and reply.json()["pings"][0]["responding"]
            version = reply.extensions["network_stream"].get_extra_info("ssl_object").version()
            assert version in ("TLSv1.2", "TLSv1.3")
        distrusting = ssl.create_default_context(cafile=other)
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{secure.url}{PREFIX}/ping", headers=headers, verify=distrusting, timeout=ANSWER_S)
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(secure.url.replace("https", "http") + f"{PREFIX}/ping", headers=headers, timeout=ANSWER_S)
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(secure.socket)), base_url="http://localhost", timeout=ANSWER_S
        ) as client:
            assert client.get(f"{PREFIX}/ping", headers=headers).status_code == 200  # a Unix socket needs no TLS
    finally:
        shared_rest.cluster.daemons["restd-tls"].process.terminate()
    assert shared_rest.cluster.wait_death("restd-tls") == 0


def test_connections_send_at_once():
    """An answer is written in parts: the second one would wait for the peer, who may take 40 ms to say that it has the first."""
    with listen_tcp("127.0.0.1", 0) as wire, socket.create_connection(wire.getsockname()), wire.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
