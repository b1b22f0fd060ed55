"""JobCompType and PenstockWebhooks: what is read, and what is refused by name."""

import re
from pathlib import Path

import pytest

from penstock.config import ConfigError, load
from penstock.config.kafkafile import kafka_warnings, parse_properties
from penstock.config.sitefile import SiteFileError
from penstock.values.config import Config, Webhook

BASE = "ClusterName=c\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n"


def read(folder: Path, more: str, hooks: str = "") -> tuple[Config, tuple[str, ...]]:
    path = folder / "slurm.conf"
    (folder / "hooks.yaml").write_text(hooks)
    path.write_text(f"{BASE}{more}\n".replace("HOOKS", f"PenstockWebhooks={folder}/hooks.yaml"))
    loaded = load(str(path))
    return loaded.config, tuple(text for text in loaded.warnings if "JobComp" in text or "hook" in text)


def refusal(folder: Path, more: str, hooks: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        read(folder, more, hooks)
    return str(caught.value)


@pytest.mark.parametrize(("more", "kind", "place"), [
    ("JobCompType=jobcomp/filetxt", "jobcomp/filetxt", "/var/log/slurm_jobcomp.log"),
    ("JobCompType=filetxt\nJobCompLoc=/x/log", "jobcomp/filetxt", "/x/log"),
    ("JobCompType=jobcomp/script\nJobCompLoc=/x/prog", "jobcomp/script", "/x/prog"),
    ("JobCompType=jobcomp/elasticsearch\nJobCompLoc=es:9200/s/_doc", "jobcomp/elasticsearch", "http://es:9200/s/_doc"),
    ("JobCompType=jobcomp/elasticsearch\nJobCompLoc=https://es/s/_doc", "jobcomp/elasticsearch", "https://es/s/_doc"),
    ("JobCompType=jobcomp/kafka\nJobCompLoc=/x/k.conf\nJobCompParams=topic=jobs,flush_timeout=500,requeue_on_msg_timeout", "jobcomp/kafka", "/x/k.conf"),
    ("JobCompType=jobcomp/none", "", ""),
])  # fmt: skip
def test_where_completions_go(tmp_path: Path, more: str, kind: str, place: str) -> None:
    config, warnings = read(tmp_path, more)
    assert (config.job_comp_type, config.job_comp_loc) == (kind, place) and not warnings


def test_other_kinds_are_named(tmp_path: Path) -> None:
    config, (warning,) = read(tmp_path, "JobCompType=jobcomp/mysql")
    assert not config.job_comp_type
    assert (
        "JobCompType: 'jobcomp/mysql' is not supported (there are filetxt, script, elasticsearch, kafka, and Penstock"
        in warning
    )
    _, (warning,) = read(tmp_path, "JobCompType=jobcomp/filetxt\nJobCompParams=topic=x")
    assert "JobCompParams: 'topic' has no effect with jobcomp/filetxt" in warning


@pytest.mark.parametrize(("more", "why"), [
    ("JobCompType=jobcomp/script", "JobCompLoc: jobcomp/script needs an absolute path"),
    ("JobCompType=jobcomp/filetxt\nJobCompLoc=log", "needs an absolute path, not 'log'"),
    ("JobCompType=jobcomp/elasticsearch", "write JobCompLoc=http://HOST:PORT/INDEX/_doc"),
    ("JobCompType=jobcomp/elasticsearch\nJobCompLoc=http://a:b@h/", "a URL with a password is refused"),
    ("JobCompType=jobcomp/elasticsearch\nJobCompLoc=h\nJobCompParams=timeout=0", "timeout: expected 1 to 60 seconds"),
    ("JobCompType=jobcomp/kafka", "JobCompLoc: jobcomp/kafka needs an absolute path"),
    ("JobCompType=jobcomp/kafka\nJobCompLoc=/x\nJobCompParams=topic=a/b", "topic: expected at most 249 letters"),
    ("JobCompType=jobcomp/kafka\nJobCompLoc=/x\nJobCompParams=flush_timeout=soon", "flush_timeout: expected a number"),
    ("JobCompType=jobcomp/kafka\nJobCompLoc=/x\nJobCompParams=requeue_on_msg_timeout=1", "expected no value"),
])  # fmt: skip
def test_bad_places(tmp_path: Path, more: str, why: str) -> None:
    assert why in refusal(tmp_path, more)


def test_webhooks(tmp_path: Path) -> None:
    config, warnings = read(tmp_path, "HOOKS", """
- {name: chat, url: 'https://x.example/h?a=1', secret_file: /s, events: [JOB.failed, node], timeout: 3, ca_file: /ca}
- {name: own, url: 'http://127.0.0.1:8080', secret_file: /s}
""")  # fmt: skip
    assert not warnings and config.webhooks == (
        Webhook("chat", "https://x.example/h?a=1", "/s", ("job.failed", "node"), "/ca", 3),
        Webhook("own", "http://127.0.0.1:8080", "/s"),
    )


@pytest.mark.parametrize(("hooks", "why"), [
    ("name: x", "expected a list of at most 16 webhooks"),
    ("- x", "webhook no. 1: expected name:, url: and secret_file:"),
    ("- {name: 'a b'}", "webhook no. 1: name: write at most 64 letters"),
    ("- {name: a, secret_file: /s}", "webhook a: url: it is missing"),
    ("- {name: a, url: 'http://far/', secret_file: /s}", "webhook a: url: write https://"),
    ("- {name: a, url: 'ftp://far/', secret_file: /s}", "webhook a: url: expected http://HOST/"),
    ("- {name: a, url: 'https://u:p@far/', secret_file: /s}", "a URL with a password is refused"),
    ("- {name: a, url: 'https://far/', secret_file: s}", "secret_file: expected an absolute path, not 's'"),
    ("- {name: a, url: 'https://far/', secret_file: /s, events: [fire]}", "or one with a state as job.failed, not 'fire'"),
    ("- {name: a, url: 'https://far/', secret_file: /s, timeout: 99}", "timeout: expected 1 to 60 seconds, not '99'"),
    ("- {name: a, url: 'https://far/', secret_file: /s, uri: 1}", "unknown key 'uri'; known: name, url"),
    ("- &a {name: a, url: 'https://far/', secret_file: /s}\n- *a", "webhook a is given twice"),
    ("- [", "is not YAML"),
])  # fmt: skip
def test_bad_webhooks(tmp_path: Path, hooks: str, why: str) -> None:
    assert why in refusal(tmp_path, "HOOKS", hooks)


@pytest.mark.parametrize(("text", "why"), [
    ("bootstrap.servers=a:1\n#x\n  acks = 1 \n", ""),
    ("acks=1", "/k: bootstrap.servers is missing"),
    ("bootstrap.servers=a\n\nacks", "/k:3: expected property=value"),
    ("bootstrap.servers=a\nAcks=1", "/k:2: expected property=value"),
    ("bootstrap.servers=a\nacks=\x1b[2J", "/k:2: acks: characters that are not printable"),
])  # fmt: skip
def test_properties_of_kafka(text: str, why: str) -> None:
    if not why:
        assert parse_properties(text, "/k") == {"bootstrap.servers": "a:1", "acks": "1"}
        return
    with pytest.raises(SiteFileError, match=re.escape(why)):
        parse_properties(text, "/k")


def test_who_may_have_written_the_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kafka.conf"
    config = Config(job_comp_type="jobcomp/kafka", job_comp_loc=str(path), slurm_user="root")
    assert kafka_warnings(config) == [f"JobCompLoc: {path}: No such file or directory"]
    path.write_text("bootstrap.servers=a:1\n")
    for mode, why in (
        (0o644, []),
        (0o664, [f"JobCompLoc: {path}: others than its owner can write to it: chmod go-w {path}"]),
    ):
        path.chmod(mode)
        assert kafka_warnings(config) == why
    path.write_text("bootstrap.servers=a:1\nsasl.password=x\n")
    path.chmod(0o644)
    assert kafka_warnings(config) == [
        f"JobCompLoc: {path}: others than its owner can read it, and it has sasl.password: chmod 600 {path}"
    ]
    path.chmod(0o600)
    monkeypatch.setattr("penstock.config.kafkafile.find_spec", lambda name: None)
    assert kafka_warnings(config) == ["jobcomp/kafka needs confluent-kafka: pip install 'penstock[kafka]'"]
    assert kafka_warnings(Config()) == []
