"""Logging in at the web interface by a real OpenID Connect provider (oidc-provider-mock, another process), with a real cluster."""

import json
import os
import pwd
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import httpx
import pytest
from clientvenv import python_of
from livecluster import ClusterConf, LiveCluster, logs_if_failed
from liverest import LiveRest
from patience import ANSWER_S

OWN = pwd.getpwuid(os.getuid()).pw_name
NOBODY = "nobody"
CLIENT = "penstock-web"


@pytest.fixture
def issuer() -> Iterator[str]:
    """A provider that knows three people, one of whom the cluster does not know."""
    users = [{"sub": f"id-{name}", "preferred_username": name} for name in (OWN, NOBODY, "no such user")]
    people = [word for user in users for word in ("--user-claims", json.dumps(user))]
    command = [
        str(python_of("oidc").with_name("oidc-provider-mock")),
        "--port",
        "0",
        "--require-nonce",
        "true",
        *people,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            said = ""
            while (found := re.search(r"http://127\.0\.0\.1:\d+", said)) is None:
                line = process.stdout.readline()
                assert line, said
                said += line
            drain = Thread(target=process.stdout.read)
            drain.start()
            yield found[0]
        finally:
            process.kill()
            drain.join()


@pytest.fixture
def rest(issuer: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveRest]:
    keys = tmp_path / "jwks.json"
    keys.write_bytes(httpx.get(httpx.get(f"{issuer}/.well-known/openid-configuration").json()["jwks_uri"]).content)
    keys.chmod(0o644)
    own = tmp_path / "jwt.key"
    own.write_bytes(bytes(range(32)))
    own.chmod(0o600)
    secret = tmp_path / "secret"
    secret.write_text("any\n")
    secret.chmod(0o600)
    conf = ClusterConf(
        more=(
            "AuthAltTypes=auth/jwt",
            f"AuthAltParameters=jwt_key={own},jwks={keys},userclaimfield=preferred_username",
            f"PenstockJwtAudience={CLIENT}",
        )
    )
    with LiveCluster(1, conf) as cluster:
        options = ("--oidc-issuer", issuer, "--oidc-client-id", CLIENT, "--oidc-client-secret-file", str(secret))
        rest = LiveRest(cluster, "--web", *options)
        with logs_if_failed(cluster, request.session):
            rest.start()
            yield rest


def login(rest: LiveRest, browser: httpx.Client, sub: str) -> httpx.Response:
    """All that a browser does, up to the daemon's answer to the provider's code."""
    asked = browser.get("/web/oidc/start")
    assert asked.status_code == 303, asked.text
    where = asked.headers["location"]
    agreed = browser.post(where, data={"sub": sub, "action": "authorize"})
    assert agreed.status_code in (302, 303), agreed.text
    back = agreed.headers["location"]
    assert back.startswith(f"{rest.url}/web/oidc/callback?")
    return browser.get(back)


def test_people_of_the_provider_are_users_of_the_cluster(rest: LiveRest) -> None:
    """Whose jobs are whose, by the controller's word; tokens of scontrol are valid as before."""
    page = {"Origin": rest.url, "X-Penstock-Web": "none"}
    for name in (OWN, NOBODY):
        with httpx.Client(base_url=rest.url, timeout=ANSWER_S) as browser:
            reply = login(rest, browser, f"id-{name}")
            assert reply.status_code == 303, reply.text
            secret = re.fullmatch(r"/#login=([\w-]+)", reply.headers["location"])
            assert secret is not None
            entered = browser.post("/web/login", json={"secret": secret[1]}, headers=page)
            assert entered.json()["user"] == name
            own = page | {"X-Penstock-Web": entered.json()["key"]}
            body = {
                "script": "#!/bin/sh\n",
                "job": {"hold": True, "current_working_directory": "/", "environment": ["A=b"]},
            }
            job = browser.post("/slurm/v0.0.46/job/submit", json=body, headers=own).json()
            assert job["errors"] == []
            shown = rest.cluster.run("squeue", "-h", "-o", "%u", "-j", str(job["job_id"])).ok().out.strip()
            assert shown == name
    with httpx.Client(base_url=rest.url, timeout=ANSWER_S) as browser:
        reply = login(rest, browser, "id-no such user")
        assert reply.status_code == 401 and "does not accept" in reply.text
    assert rest.as_user(NOBODY).get("/slurm/v0.0.46/ping").status_code == 200


def test_a_code_is_for_one_browser_and_once(rest: LiveRest) -> None:
    with (
        httpx.Client(base_url=rest.url, timeout=ANSWER_S) as browser,
        httpx.Client(base_url=rest.url, timeout=ANSWER_S) as thief,
    ):
        asked = browser.get("/web/oidc/start")
        agreed = browser.post(asked.headers["location"], data={"sub": f"id-{OWN}", "action": "authorize"})
        back = agreed.headers["location"]
        assert thief.get(back).status_code == 401
        kept = browser.cookies.get("penstock_oidc")
        first = browser.get(back)
        assert first.status_code == 303, first.text
        browser.cookies.set("penstock_oidc", kept or "", path="/web/oidc/", domain="127.0.0.1")
        again = browser.get(back)
        assert again.status_code == 502 and "invalid_grant" in again.text
    assert "id_token" not in rest.log()
