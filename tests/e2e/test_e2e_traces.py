"""Traces of a real cluster's jobs at a collector that decodes them with OpenTelemetry's messages."""

import asyncio
import json
from typing import Any

from httpsink import HANG, HttpSink
from livecluster import CTLD, ClusterConf, LiveCluster, free_ports
from liverest import JWT, PREFIX, LiveRest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.observe.scraping import scrape


def spans_of(sink: HttpSink, job_id: int) -> dict[bytes, Any]:
    """Returns the spans of a job by their ids."""
    found = {}
    for one in list(sink.received):
        for resource in ExportTraceServiceRequest.FromString(one.body).resource_spans:
            for span in resource.scope_spans[0].spans:
                if facts(span)["job"] == job_id:
                    found[span.span_id] = span
    return found


def facts(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def exemplars(port: int) -> list[str]:
    """The traces that the page of metrics names, which only who asks for OpenMetrics sees."""
    plain = asyncio.run(scrape(port, "/metrics/penstock"))
    assert "# {" not in plain.body and plain.value("penstock_submit_seconds_count") == 1
    page = asyncio.run(scrape(port, "/metrics/penstock", Accept="application/openmetrics-text; version=1.0.0"))
    samples = page.families()["penstock_submit_seconds"].samples
    return [sample.exemplar.labels["trace_id"] for sample in samples if sample.exemplar]


def submitted_over_rest(cluster: LiveCluster, trace_parent: str) -> int:
    """The id of a job that is submitted to a REST daemon, as a part of a trace."""
    rest = LiveRest(cluster)
    rest.start()
    job = {
        "current_working_directory": str(cluster.work), "environment": ["A=b"], "script": "#!/bin/sh\n",
        "standard_output": "/dev/null",
    }  # fmt: skip
    with rest.as_user() as client:
        answer = client.post(f"{PREFIX}/job/submit", json={"job": job}, headers={"traceparent": trace_parent})
        return int(answer.json()["job_id"])


def names(sink: HttpSink, job_id: int) -> set[str]:
    return {span.name for span in spans_of(sink, job_id).values()}


def logged(cluster: LiveCluster, name: str, job_id: int) -> list[dict[str, Any]]:
    """The lines of a job in a daemon's log; a node's are JSON once it has registered."""
    texts = (cluster.home / "log" / f"{name}.log").read_text().splitlines()
    return [line for text in texts if text.startswith("{") and (line := json.loads(text)).get("job") == job_id]


def until_the_end(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of a job that ended, without debugging; none before its end is among them."""
    lines = [line for line in lines if line["event"] != "debug_flag"]
    return lines if any(line["event"] == "job_end" for line in lines) else []


def test_a_trace_has_the_spans_of_all_processes_across_a_restart_of_the_controller() -> None:
    (port,) = free_ports(1)
    conf = (
        "PenstockLogFormat=json",
        "DebugFlags=Steps",
        "MetricsType=metrics/openmetrics",
        f"PenstockMetricsPort={port}",
    )
    with (
        HttpSink() as sink,
        LiveCluster(1, ClusterConf(more=(f"PenstockTraceUrl={sink.url}/v1/traces", *conf))) as cluster,
    ):
        gate = cluster.work / "gate"
        script = f"srun true; until test -e {gate}; do sleep 0.1; done; exit 3"
        job = cluster.sbatch("-J", "secretname", "-o", "/dev/null", "--wrap", script)
        cluster.wait(lambda: "run" in names(sink, job), "srun's step is at the collector")
        assert "job" not in names(sink, job)
        linked = exemplars(port)
        cluster.kill("n1")
        cluster.start_node("n1")
        cluster.kill(CTLD)
        cluster.start_controller()
        cluster.wait_nodes("n1")  # its lines are JSON once it has registered
        gate.touch()
        cluster.wait_ends(job)
        cluster.wait(lambda: "job" in names(sink, job), "the job's span is at the collector")
        steps = cluster.home / "noded" / "n1" / "steps"
        cluster.wait(lambda: any(steps.glob("spare-*")), "the folder of a traced step is kept for another step")
        spans = spans_of(sink, job)
        of_controller = cluster.wait(lambda: until_the_end(logged(cluster, CTLD, job)), "its end is in the log")
        (end,) = cluster.wait(
            lambda: [one for one in logged(cluster, "n1", job) if "StepEnded exit_code=3" in str(one.get("what"))],
            "the step's end is in the node's log",
        )
    (trace_id,) = {span.trace_id.hex() for span in spans.values()}
    assert linked == [trace_id]
    assert {line["trace_id"] for line in of_controller} == {trace_id}
    assert end["trace_id"] == trace_id and spans[bytes.fromhex(end["span_id"])].name == "step", (
        "of a daemon that adopted it"
    )
    by_event = {line["event"]: spans[bytes.fromhex(line["span_id"])].name for line in of_controller}
    assert (by_event["job_submit"], by_event["job_start"], by_event["job_end"]) == ("submit", "attempt", "attempt")
    assert sorted(span.name for span in spans.values()) == [
        "accounting", "attempt", "commit", "job", "launch", "launch", "plan", "run", "run", "step", "step", "submit",
    ]  # fmt: skip
    parents = {span.name: spans[span.parent_span_id].name for span in spans.values() if span.parent_span_id}
    assert parents == {
        "submit": "job", "commit": "submit", "plan": "job", "attempt": "job", "step": "attempt", "launch": "step",
        "run": "step", "accounting": "job",
    }  # fmt: skip
    for span in spans.values():
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            outer = spans[span.parent_span_id]
            assert outer.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= outer.end_time_unix_nano
    (whole,) = [span for span in spans.values() if span.name == "job"]
    assert facts(whole)["state"] == "FAILED" and facts(whole)["exit_code"] == "3:0" and whole.status.code == 2
    assert {facts(span)["node"] for span in spans.values() if span.name == "run"} == {"n1"}
    assert {facts(span)["step"] for span in spans.values() if span.name == "step"} == {"batch", "0"}
    assert all(b"secretname" not in one.body and b"gate" not in one.body for one in sink.received)


def test_a_collector_that_hangs_delays_nobody_and_gets_all_later() -> None:
    with HttpSink(HANG) as sink:
        conf = ClusterConf(more=(f"PenstockTraceUrl={sink.url}/v1/traces",))
        with LiveCluster(1, conf) as cluster:
            first = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
            sink.wait_requests(1)  # and it does not answer
            second = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
            cluster.wait_ends(first, second)
            assert not sink.received
            sink.stop()  # connections are refused
            sink.answers = [200]
            sink.start()
            cluster.wait(lambda: {"job"} <= names(sink, first) & names(sink, second), "both jobs' spans are there")


def test_the_collector_can_be_changed_while_the_controller_runs() -> None:
    with HttpSink() as sink, LiveCluster(1, JWT) as cluster:
        before = cluster.sbatch("-o", "/dev/null", "--wrap", "true")
        cluster.wait_ends(before)
        text = cluster.slurm_conf.read_text()
        cluster.slurm_conf.write_text(f"{text}\nPenstockTraceUrl=ftp://x\n")
        assert "PenstockTraceUrl: expected http://" in cluster.run("scontrol", "reconfigure").err
        cluster.slurm_conf.write_text(f"{text}\nPenstockTraceUrl={sink.url}/v1/traces\n")
        cluster.run("scontrol", "reconfigure").ok()
        output = cluster.work / "contexts"
        program = 'echo "$TRACEPARENT"'
        script = f"{program}; srun sh -c '{program}'"
        caller = f"00-{'ab' * 16}-{'cd' * 8}-01"
        after = cluster.sbatch("-o", str(output), "--wrap", script, TRACEPARENT=caller)
        cluster.wait(lambda: "job" in names(sink, after), "the job's span is there")
        assert not names(sink, before)
        found = {span.name: span for span in spans_of(sink, after).values()}
        assert found["job"].parent_span_id.hex() == "cd" * 8 and found["job"].trace_id.hex() == "ab" * 16
        context = f"00-{'ab' * 16}-{found['attempt'].span_id.hex()}-01"
        assert output.read_text().split() == [context, context]  # the script's, and that of its step
        over_rest = submitted_over_rest(cluster, caller)
        cluster.wait(lambda: "job" in names(sink, over_rest), "the span of the job over REST is there")
        made = {span.name: span for span in spans_of(sink, over_rest).values()}
        rest, submit = made["rest"], made["submit"]
        assert (rest.trace_id, rest.parent_span_id) == (bytes.fromhex("ab" * 16), bytes.fromhex("cd" * 8))
        assert rest.start_time_unix_nano <= submit.start_time_unix_nano
        assert submit.end_time_unix_nano <= rest.end_time_unix_nano
        assert "rest" not in names(sink, after)
        shown = (
            cluster.run("salloc", "-Q", "-n1", "srun", "sh", "-c", program, env={"TRACEPARENT": caller})
            .ok()
            .out.strip()
        )
        assert shown.startswith(f"00-{'ab' * 16}-") and shown != caller and shown != context
