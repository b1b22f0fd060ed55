"""Receivers of deliveries: what each writes, and what becomes of an event that is not taken."""

import asyncio
import ssl
import subprocess
from pathlib import Path

import msgspec
import pytest
from httpsink import DRIP, HANG, HttpSink
from kafkabroker import KafkaBroker

from ctld.core.records.effects import OutboxRow
from ctld.core.records.events import JobSubmission
from ctld.core.records.job import job_row
from ctld.delivery import receivers
from ctld.delivery.completion import Completion, completion, document, text_line, variables
from ctld.delivery.kafkaposter import KafkaMessage, KafkaPoster
from ctld.delivery.otlp import PROTOBUF_TYPE
from ctld.delivery.outbox import COMPLETION
from ctld.delivery.receivers import Elasticsearch, EventReceiver, Kafka, NotDelivered, Server, TextFile, WebhookServer
from penstock.values.config import Config, Webhook
from penstock.values.states import JobState
from tests.core.world import World, make_config

US = 1_000_000
JOB = Completion(
    job_id=1, user_name="root", user_id=0, group_name="root", group_id=0, name="my job name", state="FAILED",
    partition="main", cluster="unknown", submit_at_us=1_795_904_104 * US, eligible_at_us=1_795_904_104 * US,
    start_at_us=1_795_904_106 * US, end_at_us=1_795_904_107 * US, time_limit_s=300, node_list="vm", nodes=1, cpus=1,
    work_dir="/tmp", tres_alloc="cpu=1,mem=1M,node=1,billing=1", account="acct", exit="3:0",
)  # fmt: skip
CHANGE = b'{"sequence":9,"kind":"job","state":"FAILED"}'


def event(job: Completion = JOB) -> OutboxRow:
    return OutboxRow(7, 0, COMPLETION, msgspec.json.encode(job))


def deliver(receiver: EventReceiver, *events: OutboxRow) -> str:
    """Delivers them; returns what became of the last one."""

    async def story() -> str:
        said = ""
        for one in events:
            try:
                await receiver.deliver(one)
                said = "taken"
            except NotDelivered as error:
                said = f"{error.retry.value}: {error}"
        return said

    try:
        return asyncio.run(story())
    finally:
        receiver.close()


def test_the_line_is_that_of_slurm_22_05(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctld.delivery.completion.format_date", lambda at_us: f"T{at_us // US - 1_795_904_104}")
    assert text_line(JOB) == (  # as written by it, but for the times
        "JobId=1 UserId=root(0) GroupId=root(0) Name=my job name JobState=FAILED Partition=main TimeLimit=5 StartTime=T2 "
        "EndTime=T3 NodeList=vm NodeCnt=1 ProcCnt=1 WorkDir=/tmp ReservationName= Tres=cpu=1,mem=1M,node=1,billing=1 "
        "Account=acct QOS= WcKey= Cluster=unknown SubmitTime=T0 EligibleTime=T0 DerivedExitCode=0:0 ExitCode=3:0 "
    )
    task = msgspec.structs.replace(
        JOB, array_job_id=2, array_task_id=1, time_limit_s=-1, node_list="", eligible_at_us=0
    )
    line = text_line(task)
    assert " TimeLimit=UNLIMITED " in line and " NodeList=(null) " in line
    assert " EligibleTime=unknown ArrayJobId=2 ArrayTaskId=1 DerivedExitCode=" in line
    assert " HetJobId=4 HetJobOffset=1 " in text_line(msgspec.structs.replace(JOB, het_job_id=4, het_offset=1))


def test_the_variables_are_those_of_slurm_22_05() -> None:
    found = variables(JOB)
    assert {
        "JOBID": "1", "ARRAYJOBID": "0", "ARRAYTASKID": "4294967294", "JOBSTATE": "FAILED", "LIMIT": "00:05:00",
        "START": "1795904106", "END": "1795904107", "SUBMIT": "1795904104", "EXITCODE": "3:0", "DERIVED_EC": "0:0",
        "BATCH": "yes", "WORK_DIR": "/tmp", "STDIN": "/dev/null", "NODES": "vm", "NODECNT": "1", "PROCS": "1",
    }.items() <= found.items()  # fmt: skip
    assert "HETJOBID" not in found


def test_what_a_user_wrote_stays_one_line() -> None:
    world = World(make_config())
    world.submit(JobSubmission(name="a b", comment="c"))
    row = job_row(world.core.state.jobs[1])
    request = msgspec.structs.replace(row.request, name="x\nJobId=9\tY", comment="é\x1b[0m", work_dir=b"/tmp/\xff\n")
    job = completion(row._replace(request=request, state=JobState.FAILED, exit_signal=9), "c1")
    assert job.name == "x\\x0aJobId=9\\x09Y" and job.comment == "é\\x1b[0m" and job.exit == "0:9"
    for text in (text_line(job), *variables(job).values(), *map(str, document(job).values())):
        assert text.isprintable()


def test_a_file_keeps_what_is_there_and_has_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "log"
    config = Config(job_comp_loc=str(path))
    second = event(msgspec.structs.replace(JOB, job_id=2))
    assert deliver(TextFile(config), event(), second) == "taken"
    text = path.read_text()
    assert text == text_line(JOB) + "\n" + text_line(msgspec.structs.replace(JOB, job_id=2)) + "\n"
    assert deliver(TextFile(config), event(), second) == "taken"  # sent again after a crash
    assert path.read_text() == text
    path.write_text(text[:-20])  # which came in the middle of a line
    assert deliver(TextFile(config), second) == "taken"
    assert path.read_text() == text[:-20] + "\n" + text.splitlines()[1] + "\n"


def test_none_of_a_hundred_long_lines_is_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "log"
    config = Config(job_comp_loc=str(path))
    events = [event(msgspec.structs.replace(JOB, job_id=number, work_dir="/w" * 500)) for number in range(1, 201)]
    assert deliver(TextFile(config), *events) == "taken"
    text = path.read_text()
    assert deliver(TextFile(config), *events) == "taken"  # as by a controller that was killed
    assert path.read_text() == text


def test_a_file_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    link, folder = tmp_path / "link", tmp_path / "none/log"
    link.symlink_to(tmp_path / "other")
    assert deliver(TextFile(Config(job_comp_loc=str(folder))), event()) == f"away: {folder}: No such file or directory"
    assert deliver(TextFile(Config(job_comp_loc=str(link))), event()).startswith(f"away: {link}: ")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("status", "retry"), [
    (200, "taken"), (201, "taken"), (400, "refused"), (413, "refused"), (404, "failed"), (500, "failed"), (429, "away"),
    (503, "away"),
])  # fmt: skip
def test_answers_of_a_server(status: int, retry: str) -> None:
    with HttpSink(status) as sink:
        config = Config(job_comp_loc=f"{sink.url}/slurm/_doc")
        said = deliver(Elasticsearch(config), event())
    assert said == ("taken" if retry == "taken" else f"{retry}: {sink.url}/...: HTTP {status} said")


def test_a_redirect_is_not_followed() -> None:
    with HttpSink(200) as other, HttpSink(307, location=other.url) as sink:
        said = deliver(Elasticsearch(Config(job_comp_loc=sink.url)), event())
        assert said == f"failed: {sink.url}: HTTP 307, redirects are not followed" and not other.requests


@pytest.mark.parametrize("answer", [HANG, DRIP])
def test_a_server_that_does_not_end_is_left(answer: int) -> None:
    with HttpSink(answer, 200) as sink:
        config = Config(job_comp_loc=sink.url, job_comp_params=(("timeout", "1"),))
        said = deliver(Elasticsearch(config), event())
        assert said == f"away: {sink.url}: no answer within 1 s"
        assert deliver(Elasticsearch(config), event()) == "taken"


def test_a_kept_connection_that_was_closed_is_made_again() -> None:
    with HttpSink(200) as sink:
        receiver = Elasticsearch(Config(job_comp_loc=sink.url))

        async def story() -> None:
            await receiver.deliver(event())
            sink.stop()
            with pytest.raises(NotDelivered, match="refused"):
                await receiver.deliver(event())
            sink.start()
            await receiver.deliver(event())

        asyncio.run(story())
        receiver.close()
        assert len(sink.received) == 2


@pytest.mark.parametrize("body", [bytes(range(256)) * 4, b"\n", b""])
def test_any_bytes_are_a_body(body: bytes) -> None:
    """Spans are protobuf; and what follows the request is no part of it, whatever lines it has."""
    with HttpSink(200) as sink:
        server = Server(f"{sink.url}/v1/traces", receivers.REQUEST_TIMEOUT_S)
        asyncio.run(server.post(body, {"Content-Type": PROTOBUF_TYPE}))
        server.close()
    (received,) = sink.received
    assert received.body == body and received.headers["Content-Type"] == PROTOBUF_TYPE


def test_a_body_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "BODY_BYTES_MAX", 100)
    said = deliver(Elasticsearch(Config(job_comp_loc="http://127.0.0.1:1")), event())
    assert said.startswith("refused: ") and said.endswith(" bytes; at most 100 are sent")


# ---- Kafka -------------------------------------------------------------------------------------------------------


def kafka(folder: Path, properties: str, topic: str = "jobs") -> Kafka:
    path = folder / "kafka.conf"
    path.write_text(properties)
    path.chmod(0o600)
    return Kafka(Config(job_comp_loc=str(path), job_comp_params=(("topic", topic),), cluster_name="own"))


def test_kafka_has_the_documents(tmp_path: Path) -> None:
    with KafkaBroker() as broker:
        two = (event(), event(msgspec.structs.replace(JOB, job_id=2)))
        assert deliver(kafka(tmp_path, f"bootstrap.servers={broker.servers}\n"), *two) == "taken"
        assert broker.read("jobs", 2) == [document(JOB), document(JOB) | {"jobid": 2}]
        assert deliver(kafka(tmp_path, f"bootstrap.servers={broker.servers}\n", topic=""), event()) == "taken"
        assert len(broker.read("own", 1)) == 1  # the cluster's name
        long = event(msgspec.structs.replace(JOB, comment="x" * 2000))
        small = f"bootstrap.servers={broker.servers}\nmessage.max.bytes=1000\n"
        assert deliver(kafka(tmp_path, small), long).startswith("refused: topic jobs: ")


def test_kafka_that_cannot_be_reached_is_away(tmp_path: Path) -> None:
    nowhere = "bootstrap.servers=127.0.0.1:1\nmessage.timeout.ms=300\n"
    assert deliver(kafka(tmp_path, nowhere), event()) == "away: topic jobs: Local: Message timed out"
    bad = deliver(kafka(tmp_path, "bootstrap.servers=a:1\nno.such=1\n"), event())
    assert bad == 'away: topic jobs: No such configuration property: "no.such"'
    receiver = kafka(tmp_path, nowhere)
    (tmp_path / "kafka.conf").unlink()
    assert deliver(receiver, event()) == f"away: {tmp_path}/kafka.conf: No such file or directory"


def test_kafka_without_its_extra() -> None:
    assert KafkaPoster(None).post(KafkaMessage({}, "", "", 1)) == {
        "error": "jobcomp/kafka needs confluent-kafka: pip install 'penstock[kafka]'"
    }


# ---- webhooks ----------------------------------------------------------------------------------------------------


def hook(tmp_path: Path, url: str, mode: int = 0o600, secret: str = "s" * 20, ca_file: str = "") -> WebhookServer:
    path = tmp_path / "secret"
    path.write_text(secret)
    path.chmod(mode)
    return WebhookServer(Webhook("chat", url, str(path), ca_file=ca_file), "root")


@pytest.mark.parametrize(("mode", "secret", "why"), [
    (0o644, "s" * 20, "others than its owner can read it"), (0o600, "short", "expected 16 to 4096 bytes"),
])  # fmt: skip
def test_a_secret_is_one(tmp_path: Path, mode: int, secret: str, why: str) -> None:
    with HttpSink(200) as sink:
        said = deliver(hook(tmp_path, sink.url, mode, secret), OutboxRow(9, 0, "JOB", CHANGE))
        assert said.startswith(f"away: {tmp_path}/secret: {why}") and not sink.requests


def test_a_webhook_wants_what_it_names(tmp_path: Path) -> None:
    row = OutboxRow(9, 0, "JOB", CHANGE)
    for events, wanted in ((("job",), True), (("job.failed", "node"), True), (("job.timeout",), False), ((), True)):
        one = WebhookServer(Webhook("chat", "https://x", "/s", events), "root")
        assert one.wants(row) is wanted
        assert one.kinds == ({"JOB", "NODE"} if "node" in events else {"JOB"} if events else one.kinds)
        one.close()


def test_certificates_are_verified(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj",
         "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    row = OutboxRow(9, 0, "JOB", CHANGE)
    with HttpSink(200, context=context) as sink:
        said = deliver(hook(tmp_path, sink.url), row)
        assert said.startswith("away: ") and "CERTIFICATE_VERIFY_FAILED" in said and not sink.requests
        assert deliver(hook(tmp_path, sink.url, ca_file=str(cert)), row) == "taken"
