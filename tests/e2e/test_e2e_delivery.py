"""Job completion and webhooks of a real cluster: every job arrives, whatever happens to the server and the controller."""

import hashlib
import hmac
import json
import os
from pathlib import Path

import pytest
from httpsink import HANG, HttpSink
from kafkabroker import KafkaBroker
from livecluster import CTLD, ClusterConf, LiveCluster, load_json

SECRET = b"0123456789abcdef0123"


def completed(sink: HttpSink) -> list[int]:
    return [json.loads(one.body)["jobid"] for one in sink.received]


def test_a_text_file_has_the_line_of_each_job_that_sacct_reads(tmp_path: Path) -> None:
    path = tmp_path / "jobcomp.log"
    conf = ClusterConf(more=("JobCompType=jobcomp/filetxt", f"JobCompLoc={path}"))
    with LiveCluster(1, conf) as cluster:
        failed = cluster.sbatch("-J", "a b", "-t", "5", "-o", "/dev/null", "--wrap", "exit 3")
        cluster.wait_state(failed, "FAILED")
        array = cluster.sbatch("--array=7", "-o", "/dev/null", "--wrap", "true")
        cluster.wait_ends(f"{array}_7")
        never = cluster.sbatch("--hold", "--wrap", "true")
        cluster.run("scancel", str(never)).ok()
        text = cluster.wait_text(path, f"JobId={never} ")
        lines = text.splitlines()
        assert [line.partition(" ")[0] for line in lines] == [f"JobId={one}" for one in (failed, array, never)]
        assert " Name=a b JobState=FAILED Partition=main TimeLimit=5 StartTime=20" in lines[0]
        assert " NodeList=n1 NodeCnt=1 ProcCnt=1 " in lines[0] and lines[0].endswith(" ExitCode=3:0 ")
        assert f" ArrayJobId={array} ArrayTaskId=7 DerivedExitCode=0:0 " in lines[1]
        assert " JobState=CANCELLED " in lines[2] and " NodeList=(null) NodeCnt=0 ProcCnt=0 " in lines[2]
        cluster.kill(CTLD)
        cluster.start_controller()
        last = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
        after = cluster.wait_text(path, f"JobId={last} ")
        assert after.startswith(text) and len(after.splitlines()) == 4  # nothing twice
        found = cluster.run("sacct", "-f", str(path), "-n", "-P", "-o", "JobID,JobName,State,ExitCode").ok().out
        assert f"{failed}|a b|FAILED|3:0\n" in found
        assert "jobcomp/filetxt" in cluster.run("scontrol", "show", "config").ok().out


def test_no_job_is_lost_between_a_server_that_fails_and_a_killed_controller() -> None:
    with HttpSink(500, 503, HANG, 201) as sink:
        more = (
            "JobCompType=jobcomp/elasticsearch", f"JobCompLoc={sink.url}/slurm/_doc", "JobCompParams=timeout=1",
        )  # fmt: skip
        with LiveCluster(1, ClusterConf(more=more)) as cluster:
            first = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
            sink.wait_requests(1)  # its document was refused by 500
            cluster.kill(CTLD)
            cluster.start_controller()
            second = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
            sink.wait_received(2)
            sink.stop()  # connections are refused
            third = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
            cluster.wait_ends(third)
            cluster.kill(CTLD)
            sink.start()
            cluster.start_controller()
            cluster.wait(lambda: third in completed(sink), "the third job's document arrives")
            assert list(dict.fromkeys(completed(sink))) == [first, second, third]  # in their order
            one = sink.received[-1]
            assert one.path == "/slurm/_doc" and one.headers["Content-Type"] == "application/json"
            found = json.loads(one.body)
            assert found["state"] == "COMPLETED" and found["exit_code"] == "0:0" and found["cluster"] == "e2e"


def test_kafka_has_each_job_after_a_broker_that_was_away_and_a_killed_controller(tmp_path: Path) -> None:
    properties = tmp_path / "kafka.conf"
    properties.write_text("bootstrap.servers=127.0.0.1:1\nmessage.timeout.ms=500\n")
    properties.chmod(0o644)
    more = ("JobCompType=jobcomp/kafka", f"JobCompLoc={properties}", "JobCompParams=topic=slurm.jobs,flush_timeout=500")
    with KafkaBroker() as broker, LiveCluster(1, ClusterConf(more=more)) as cluster:
        first = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
        cluster.wait_text(cluster.home / "log" / "ctld.log", "is not delivered, and will be tried again")
        cluster.kill(CTLD)
        cluster.start_controller()
        second = cluster.sbatch("-o", "/dev/null", "--wrap", "exit 3")
        properties.write_text(f"bootstrap.servers={broker.servers}\n")
        found = sorted(broker.read("slurm.jobs", 2), key=lambda one: one["jobid"])  # of several partitions
        assert [one["jobid"] for one in found] == [first, second]
        assert (found[0]["state"], found[1]["state"], found[1]["exit_code"]) == ("COMPLETED", "FAILED", "3:0")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o600)
    return path


def test_a_webhook_gets_signed_events_and_what_it_refuses_is_a_dead_letter(tmp_path: Path, secret: Path) -> None:
    hooks = tmp_path / "webhooks.yaml"
    with HttpSink(400, 200) as sink:
        hooks.write_text(
            f"- name: chat\n  url: {sink.url}/hook?room=1\n  secret_file: {secret}\n  events: [job.failed, reservation]\n"
        )
        with LiveCluster(1, ClusterConf(more=(f"PenstockWebhooks={hooks}",))) as cluster:
            refused = cluster.sbatch("-o", "/dev/null", "--wrap", "exit 1")
            sink.wait_requests(1)
            good = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
            cluster.wait_ends(good)
            failed = cluster.sbatch("-J", "x", "-o", "/dev/null", "--wrap", "exit 2")
            (one,) = sink.wait_received(1)
            change = json.loads(one.body)
            assert change["job_id"] == failed and change["state"] == "FAILED" and change["name"] == "x"
            assert one.path == "/hook?room=1" and one.headers["X-Penstock-Event"] == "job"
            assert one.headers["X-Penstock-Delivery"] == str(change["sequence"])
            at, _, signature = one.headers["X-Penstock-Signature"].partition(",v1=")
            wanted = hmac.new(SECRET, at.removeprefix("t=").encode() + b"." + one.body, hashlib.sha256)
            assert signature == wanted.hexdigest()
            words = ("penstock", "db", "dead-letters", "--config", str(cluster.slurm_conf))
            (letter,) = load_json(cluster.run(*words, "--json"))["dead_letters"]
            assert letter["receiver"] == "webhook chat" and letter["why"] == f"{sink.url}/...: HTTP 400 said"
            assert json.loads(letter["body"])["job_id"] == refused
            shown = cluster.run(*words).ok().out
            assert "webhook chat" in shown and "HTTP 400 said" in shown


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_program_runs_without_rights_and_with_slurms_variables(tmp_path: Path) -> None:
    with LiveCluster(1) as cluster:
        out = cluster.work / "jobcomp.out"
        program = cluster.script(
            "jobcomp", f'#!/bin/sh\n{{ id -un; echo "args=$#"; env; }} > {out}.new && mv {out}.new {out}\n'
        )
        with cluster.slurm_conf.open("a") as conf:
            conf.write(f"JobCompType=jobcomp/script\nJobCompLoc={program}\n")
        cluster.run("scontrol", "reconfigure").ok()
        job = cluster.sbatch("-J", "a;$(touch x)", "-o", "/dev/null", "--wrap", "exit 4")
        lines = cluster.wait_text(out, "JOBID=").splitlines()
        assert lines[:2] == ["nobody", "args=0"]
        assert {f"JOBID={job}", "JOBNAME=a;$(touch x)", "JOBSTATE=FAILED", "EXITCODE=4:0", "NODES=n1"} <= set(lines)
