"""Item 2: who has a join token is that host, and what a host signs is not worth more than the host.

A real controller on the loopback address; node daemons as processes where it is their command line that matters.
"""

import asyncio
import pwd
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from patience import ANSWER_S, LONGEST_S

from ctld.core.records.events import Actor, JobSubmission, Role, SubmitJob
from ctld.core.records.job import SpecRow
from ctld.rpc.gate.auth import Reach, Roles, UserDirectory
from ctld.rpc.gate.rights import RIGHTS, LeastRole
from ctld.rpc.gate.runas import submitted_for
from ctld.runtime.errors import BadRequest
from ctld.runtime.lookups import Lookups
from penstock.calls import TOKEN_KEY, find_rpc
from penstock.errors import PenstockError
from penstock.security import join, keyfiles
from penstock.security.ca import issue_to_folder, load_ca, load_credentials, make_key
from penstock.security.join import JoinRefused, JoinTokens
from penstock.security.tls import client_channel
from penstock.security.tokens import TokenIssuer
from penstock.v1 import controller_pb2 as c
from penstock.v1 import periodic_pb2, steps_pb2
from tests.rpc.clusterkit import Site, jobs_of, now_us, submission

ROOT = Path(__file__).parents[2]
NOBODY, DAEMON, BIN = (pwd.getpwnam(name).pw_uid for name in ("nobody", "daemon", "bin"))


def noded(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-P", "-m", "cli.penstock", "noded", *words]
    return subprocess.run(line, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=ANSWER_S, check=False)


async def asked(site: Site, method: str, request: Any) -> Any:
    async with site.client() as client:
        return await client.call(method, request)


# ---- the disk that tokens and certificates are written to


def a_request() -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "n1")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(make_key(), hashes.SHA256())
    return made.public_bytes(Encoding.PEM)


def test_a_disk_that_stalls_holds_up_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a token that is redeemed at the same time by two is redeemed by one."""
    site = Site(tmp_path)
    begun, may_end = threading.Event(), threading.Event()
    write = keyfiles.write_secret

    def stalled(path: Path, data: bytes) -> None:
        begun.set()
        assert may_end.wait(ANSWER_S)
        write(path, data)

    async def story() -> None:
        async with site.controller(), site.client() as client:
            monkeypatch.setattr(join, "write_secret", stalled)
            asked_for = asyncio.create_task(client.call("CreateNodeToken", c.CreateNodeTokenRequest(node_name="n1")))
            await asyncio.to_thread(begun.wait, ANSWER_S)
            assert (await client.call("Ping", c.PingRequest())).cluster_name and not asked_for.done()
            may_end.set()
            token = (await asked_for).token
            begun.clear()
            may_end.clear()
            wanted = c.JoinNodeRequest(token=token, node_name="n1", csr_pem=a_request())
            joins = [asyncio.create_task(client.call("JoinNode", wanted)) for _ in range(2)]
            await asyncio.to_thread(begun.wait, ANSWER_S)
            assert (await client.call("Ping", c.PingRequest())).cluster_name and not any(one.done() for one in joins)
            may_end.set()
            ends = await asyncio.gather(*joins, return_exceptions=True)
            assert sorted(isinstance(end, PenstockError) for end in ends) == [False, True]

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


# ---- tokens on command lines


@pytest.mark.parametrize("role", ["node", "login"])
def test_a_token_on_the_command_line_is_not_used(tmp_path: Path, role: str) -> None:
    """It is refused before anybody is asked, so it is still valid for its holder, until another one voids it."""
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller():
            name = "n1" if role == "node" else "front1"
            request = c.CreateNodeTokenRequest(node_name=name, login_host=role == "login")
            token = (await asked(site, "CreateNodeToken", request)).token
            certs = tmp_path / "certs"
            words = ["--node-name", name, "--controller", f"127.0.0.1:{site.ports[0]}", "--cert-dir", str(certs)]
            words += ["--login"] if role == "login" else []
            done = await asyncio.to_thread(noded, *words, "--join", token)
            assert done.returncode == 78 and not certs.exists()
            assert "can be read by all users of this machine" in done.stderr and "--join -" in done.stderr
            assert token not in done.stderr
            again = (await asked(site, "CreateNodeToken", request)).token
            voided = await asyncio.to_thread(noded, *words, "--join", "-", stdin=token)
            assert voided.returncode == 78 and "not known to this controller" in voided.stderr
            joined = await asyncio.to_thread(noded, *words, "--join", "-", stdin=f"{again}\n")
            assert (joined.returncode, joined.stderr) == (0, "") and (certs / f"{role}.key").exists()

    asyncio.run(story())


def test_02_nothing_that_is_read_puts_a_token_on_a_command_line() -> None:
    """Documents, manual pages, completions, units and hints give `--join` nothing but `-`."""
    root = Path(__file__).resolve().parents[2]
    places = ("docs", "share", "packaging", "examples", "cli", "nodedaemon", "ctld", "penstock")
    paths = [root / "README.md", *(path for place in places for path in (root / place).rglob("*"))]
    found: list[str] = []
    for path in paths:
        if path.is_file() and path.suffix not in (".pyc", ".so"):
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [
                f"{path}: {word}" for word in re.findall(r"noded\b[^\n`\"]*?--join[ =](\S+)", text) if word[0] != "-"
            ]
    assert found == []


def test_a_tokens_file_is_its_owners(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller():
            token = (await asked(site, "CreateNodeToken", c.CreateNodeTokenRequest(node_name="n1"))).token
            file, certs = tmp_path / "token", tmp_path / "certs"
            file.write_text(token + "\n")
            words = ["--node-name", "n1", "--controller", f"127.0.0.1:{site.ports[0]}", "--cert-dir", str(certs)]
            for mode in (0o644, 0o640, 0o604):
                file.chmod(mode)
                done = await asyncio.to_thread(noded, *words, "--join-file", str(file))
                assert done.returncode == 78 and "accessible by others" in done.stderr and not certs.exists()
            file.chmod(0o600)
            (tmp_path / "link").symlink_to(file)
            done = await asyncio.to_thread(noded, *words, "--join-file", str(tmp_path / "link"))
            assert done.returncode == 78 and not certs.exists()
            done = await asyncio.to_thread(noded, *words, "--join-file", str(file), "--join", "-")
            assert done.returncode == 78 and "say one of them" in done.stderr
            done = await asyncio.to_thread(noded, *words, "--join-file", str(file))
            assert done.returncode == 0 and (certs / "node.pem").exists()

    asyncio.run(story())


def test_a_new_token_voids_the_one_before(tmp_path: Path) -> None:
    """One that somebody may have seen is not good for the rest of its hour. Those of other hosts are."""
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller():
            ca = load_ca(site.state / "ca").certificate
            tokens = JoinTokens(tmp_path / "j.json", "test", ca, "127.0.0.1:1")
            now = now_us()
            first, other, login = (
                tokens.create(name, bytes([number]) * 16, now, role)[0]
                for number, (name, role) in enumerate((("n1", "node"), ("n2", "node"), ("n1", "login")))
            )
            second, _ = tokens.create("n1", b"x" * 16, now)
            with pytest.raises(JoinRefused) as caught:
                tokens.redeem(first, "n1", now)
            assert caught.value.reason == "unknown"
            assert [tokens.redeem(one, name, now).node for one, name in ((second, "n1"), (other, "n2"), (login, "n1"))]
            with pytest.raises(JoinRefused) as caught:  # it was used, which is told, also after a third one
                tokens.create("n1", b"y" * 16, now)
                tokens.redeem(second, "n1", now)
            assert caught.value.reason == "used"

    asyncio.run(story())


# ---- what a host's signature is worth


async def said(site: Site, signer: TokenIssuer, uid: int, method: str, request: Any) -> str:
    """The answer as a word: "ok", or the refusal's words."""
    ca = load_credentials(site.state / "ca", "controller", None).ca_pem
    rpc = find_rpc(method, request)
    async with grpc.aio.secure_channel(f"127.0.0.1:{site.ports[0]}", client_channel(ca)) as channel:
        metadata = ((TOKEN_KEY, signer.issue(uid, uid, now_us())),)
        kind = channel.unary_stream if rpc.is_stream else channel.unary_unary
        call: Any = kind(rpc.path, request_serializer=rpc.serialize, response_deserializer=rpc.deserialize)
        try:
            if rpc.is_stream:
                async for _ in call(request, metadata=metadata, timeout=ANSWER_S):
                    pass
            else:
                await call(request, metadata=metadata, timeout=ANSWER_S)
        except grpc.aio.AioRpcError as error:
            return error.details() or ""
    return "ok"


def signer(site: Site, role: str, name: str) -> TokenIssuer:
    folder = site.state / f"{role}-{name}"
    issue_to_folder(load_ca(site.state / "ca"), folder, role, name, now_us())
    return TokenIssuer(load_credentials(folder, role, now_us()))


AFAR = "nodes and login hosts do not speak for root"
CHANGES: dict[str, Callable[[], Any]] = {
    "SubmitJob": submission, "CancelJobs": c.CancelJobsRequest, "UpdateJobs": c.UpdateJobsRequest,
    "UpdateNodes": lambda: c.UpdateNodesRequest(names="n1", changes={"state": "DRAIN", "reason": "x"}),
    "CreateNodeToken": lambda: c.CreateNodeTokenRequest(node_name="front9", login_host=True),
    "Shutdown": c.ShutdownRequest, "GetBatchScript": c.GetBatchScriptRequest, "UpdateCrontab": periodic_pb2.UpdateCrontabRequest,
    "CreateStep": steps_pb2.CreateStepRequest,
}  # fmt: skip


@pytest.mark.root
@pytest.mark.parametrize("who", [0, BIN, DAEMON])
def test_a_stolen_login_key_is_nobody_who_is_more_than_a_user(tmp_path: Path, who: int) -> None:
    """root, SlurmUser and an operator: they look, and change nothing. A plain user is a user."""
    site = Site(tmp_path, extra="PenstockOperators=daemon\n")
    site.conf.write_text(site.conf.read_text().replace("SlurmUser=root", "SlurmUser=bin"))

    async def story() -> None:
        async with site.controller():
            stolen = signer(site, "login", "front1")
            for method, make in CHANGES.items():
                assert AFAR in await said(site, stolen, who, method, make()), method
            for method, request in (("Ping", c.PingRequest()), ("ListJobs", c.ListJobsRequest())):
                assert await said(site, stolen, who, method, request) == "ok"
            assert await said(site, stolen, NOBODY, "SubmitJob", submission()) == "ok"
            assert "Invalid user id" in await said(site, stolen, NOBODY, "SubmitJob", submission(run_as_uid=0))
            async with site.client() as client:
                assert [job.user_id for job in await jobs_of(client)] == [NOBODY]

    asyncio.run(story())


@pytest.mark.root
def test_root_on_a_node_takes_that_node_out_of_service_and_nothing_else(tmp_path: Path) -> None:
    """As a HealthCheckProgram does, without a job there. Putting a node back into service is an administrator's decision."""
    site = Site(tmp_path)

    def change(names: str, **changes: str) -> c.UpdateNodesRequest:
        return c.UpdateNodesRequest(names=names, changes=changes)

    refused = [change(names, state="drain", reason="x") for names in ("n2", "n[1-2]", "ALL")]
    refused += [change("n1", state=state, reason="x") for state in ("resume", "undrain", "down", "idle", "")]
    refused += [
        change("n1", state="drain", reason="x", weight="5"),
        change("n1", features="a"),
        change("n1", reason="x"),
    ]

    async def story() -> None:
        async with site.controller():
            stolen = signer(site, "node", "n1")
            for request in refused:
                assert "from node n1 only n1 can be changed" in await said(site, stolen, 0, "UpdateNodes", request), (
                    request
                )
            for method, make in CHANGES.items() - {("UpdateNodes", CHANGES["UpdateNodes"])}:
                assert "may only drain this node" in await said(site, stolen, 0, method, make()), method
            assert "may only drain this node" in await said(site, stolen, 0, "ListJobs", c.ListJobsRequest())
            assert "has no job on node n1" in await said(site, stolen, BIN, "ListNodes", c.ListNodesRequest())
            assert await said(site, stolen, 0, "ListNodes", c.ListNodesRequest()) == "ok"
            assert await said(site, stolen, 0, "UpdateNodes", change("n1", state="DRAIN", reason="sick")) == "ok"

    asyncio.run(story())


@pytest.mark.parametrize(("uid", "name", "signed_by", "reach"), [
    (0, "root", "node", Reach.LOOK), (0, "root", "login", Reach.LOOK), (0, "root", "controller", Reach.ALL),
    (9, "slurm", "node", Reach.LOOK), (9, "slurm", "login", Reach.LOOK),
    (7, "opa", "node", Reach.STEPS), (7, "opa", "login", Reach.LOOK), (7, "opa", "controller", Reach.ALL),
    (8, "ann", "node", Reach.ALL), (8, "ann", "login", Reach.ALL),
])  # fmt: skip
def test_how_far_a_hosts_word_goes(uid: int, name: str, signed_by: str, reach: Reach) -> None:
    roles = Roles(frozenset({"slurm"}), frozenset({"opa"}), frozenset({0}), "slurm")
    actor = Actor(uid, uid, name, name, (name,), roles.role(uid, name))
    assert roles.reach(actor, signed_by) is reach
    assert roles.reach(actor, signed_by, has_job=False) is Reach.NODE


def test_what_is_done_from_afar_is_looking_and_steps() -> None:
    """No method that changes anything is among those for lookers. A new one is for nobody from afar until it is said."""
    lookers = {name.rpartition("/")[2] for name, who in RIGHTS.items() if who is LeastRole.LOOK}
    assert all(
        name.startswith(("List", "Show", "Ping", "Await", "Render", "Story", "Report", "Why", "Fits", "Diag", "Watch"))
        for name in lookers
    )
    steps = {name for name, who in RIGHTS.items() if who is LeastRole.STEPS}
    assert steps and all(name.startswith("/penstock.v1.Steps/") for name in steps)


def test_to_become_somebody_takes_the_role_and_not_the_number() -> None:
    """root by the word of a host that does not count has the number, and not the role."""
    for role, may in ((Role.ADMINISTRATOR, True), (Role.USER, False), (Role.OPERATOR, False)):
        root = Actor(0, 0, "root", "root", ("root",), role)
        wanted = JobSubmission(name="x", run_as_uid=NOBODY)
        event = SubmitJob(root, "k", 1, wanted, SpecRow(b"", b"", (), ()))
        ask = submitted_for(event, "bin", UserDirectory(lambda: 0, Lookups()))
        if may:
            assert asyncio.run(ask).actor.uid == NOBODY
        else:
            with pytest.raises(BadRequest, match="Invalid user id"):
                asyncio.run(ask)
