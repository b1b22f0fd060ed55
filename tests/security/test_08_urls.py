"""Item 8, for URLs: one that holds a secret is shown to nobody whole, in a log, a listing or a message.

Found: all users could read a database's password with a slash in it, or in the URL's query, in `scontrol show config`, and the
path of a chat service's receiver, which is all that it asks for, in dead letters and the log.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from httpsink import HttpSink

from ctld.delivery.receivers import NotDelivered, Server
from penstock.config import ConfigError, changes, load
from penstock.v1.controller_pb2 import RenderConfigRequest, ShowConfigRequest
from penstock.values.config import Config, Webhook
from penstock.values.urls import place_without_secret, server_of, without_password
from tests.security.test_02_user_tokens import NOBODY, site_of

SECRET = "s3cret"


@pytest.mark.parametrize("url", [
    "postgresql://pen:s3cret@db/penstock",
    "postgresql://pen:a/s3cret@db/penstock",
    "postgresql://pen:s3c@ret/s3cret@db/penstock",
    "postgresql://pen:%3As3cret@db/penstock?sslmode=require",
    "postgresql://pen@db/penstock?password=s3cret",
    "postgresql://pen@db/penstock?sslmode=require&sslpassword=s3cret&x=1",
    "postgresql://pen@db/penstock?SSLPASSWORD=s3cret",
    "postgresql://:s3cret@/penstock?host=/run",
])  # fmt: skip
def test_08_no_form_of_a_database_url_shows_its_password(url: str) -> None:
    shown = without_password(url)
    assert SECRET not in shown and "***" in shown and "penstock" in shown


def test_08_what_is_no_secret_is_shown() -> None:
    for url in ("postgresql://pen@db:5432/penstock?sslmode=require", "sqlite:////var/lib/x.db", "/var/lib/x.db", ""):
        assert without_password(url) == url
    for place in ("/var/log/jobcomp.log", "", "http://es:9200/slurm/_doc", "es:9200"):
        assert place_without_secret(place) == place


@pytest.mark.parametrize(("url", "shown"), [
    ("https://hooks.example.org/services/T0/B0/s3cret", "https://hooks.example.org/..."),
    ("https://chat.example.org:8443?key=s3cret", "https://chat.example.org:8443/..."),
    ("http://127.0.0.1:80/", "http://127.0.0.1:80"),
    ("http://[::1]:80/s3cret#s3cret", "http://[::1]:80/..."),
    ("https://user:s3cret@host/", "https://host"),
    ("s3cret", "..."),
])  # fmt: skip
def test_08_of_a_server_only_scheme_and_host_are_shown(url: str, shown: str) -> None:
    assert server_of(url) == shown


def test_08_neither_a_path_nor_a_servers_repetition_of_it_is_in_the_reason() -> None:
    """Which is in the log, and in `penstock db dead-letters`."""
    path = f"/services/{SECRET}-0123456789"
    with HttpSink(404) as sink:
        sink.said = f"no such hook: {path}?key={SECRET}".encode()
        server = Server(f"{sink.url}{path}?key={SECRET}", 5)
        with pytest.raises(NotDelivered) as refused:
            asyncio.run(server.post(b"{}", {}))
        sink.stop()
        with pytest.raises(NotDelivered) as away:
            asyncio.run(server.post(b"{}", {}))
        server.close()
    assert str(refused.value) == f"{sink.url}/...: HTTP 404 no such hook: ..."
    assert str(away.value).startswith(f"{sink.url}/...: ") and SECRET not in str(away.value)


def test_08_nor_in_what_a_configuration_shows(tmp_path: Path) -> None:
    """To users by `scontrol show config`, to administrators and the log by what a reconfiguration changes."""
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "ClusterName=c\nSlurmctldHost=h\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=ALL\n"
        f"PenstockDatabaseUrl=postgresql://pen:a/{SECRET}@db/penstock\n"
        f"PenstockDatabaseReadUrl=postgresql://reads:a/{SECRET}@db/penstock\n"
        f"JobCompType=jobcomp/elasticsearch\nJobCompLoc=https://es/slurm/_doc?api_key={SECRET}\n"
        f"PenstockTraceUrl=https://otel/v1/traces?key={SECRET}\n"
    )
    config = load(str(conf)).config
    shown = dict(config.shown)
    assert SECRET not in str(config.shown)
    assert shown["JobCompLoc"] == "https://es/slurm/_doc?***"
    assert shown["PenstockTraceUrl"] == "https://otel/v1/traces?***"
    hook = Webhook("chat", f"https://chat/{SECRET}", "/s")
    said = "\n".join(
        changes(
            config,
            replace(config, webhooks=(hook,), job_comp_loc=f"http://es/?k={SECRET}", trace_url=f"http://t/?k={SECRET}"),
        )
    )
    assert SECRET not in said and "none -> chat (https://chat/...)" in said
    assert SECRET not in "\n".join(changes(Config(), config))


def test_08_nor_in_the_configuration_that_all_users_may_write_to_a_file(tmp_path: Path) -> None:
    """`scontrol write config`, which has no database's URL either."""
    site = site_of(tmp_path)
    more = f"JobCompType=jobcomp/elasticsearch\nJobCompLoc=http://127.0.0.1:9/slurm/_doc?api_key={SECRET}\nPenstockTraceUrl=http://127.0.0.1:9/v1/traces?k={SECRET}\n"
    site.conf.write_text(site.conf.read_text() + more)

    async def story() -> None:
        async with site.controller():
            said = await site.call_as(NOBODY.pw_uid, "RenderConfig", RenderConfigRequest())
            assert "JobCompType=jobcomp/elasticsearch" in said.text and "JobCompLoc" not in said.text
            shown = await site.call_as(NOBODY.pw_uid, "ShowConfig", ShowConfigRequest())
            assert SECRET not in str(shown) and "_doc?***" in str(shown)

    asyncio.run(story())


@pytest.mark.parametrize("url", [
    f"ftp://h/{SECRET}", f"https://h:x/{SECRET}", f"https://h/{SECRET} x", f"https://u:{SECRET}@h/", f"https:///{SECRET}",
])  # fmt: skip
def test_08_nor_in_why_a_url_is_refused(tmp_path: Path, url: str) -> None:
    conf, hooks = tmp_path / "slurm.conf", tmp_path / "hooks.yaml"
    hooks.write_text(f"- {{name: chat, url: '{url}', secret_file: /s}}\n")
    base = "ClusterName=c\nSlurmctldHost=h\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=ALL\n"
    for line in (f"PenstockWebhooks={hooks}", f"JobCompType=jobcomp/elasticsearch\nJobCompLoc='{url}'"):
        conf.write_text(f"{base}{line}\n")
        with pytest.raises(ConfigError) as refused:
            load(str(conf))
        assert SECRET not in str(refused.value) and "url" in str(refused.value).lower()
