"""Hostile and absurd input: huge arrays, scripts and numbers, bytes that are no text, configurations that are no good.

The rule everywhere: a clear message that names what is wrong, status 1 (255 for what Slurm's sbatch reads itself), no
traceback, nothing submitted; or, where the input is legal, byte-exact passage.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from livecluster import Done, LiveCluster, free_ports

from penstock.errors import PenstockError
from penstock.v1 import common_pb2 as m
from penstock.v1 import controller_pb2 as c
from penstock.values.requestkey import new_request_key

New = Callable[..., LiveCluster]


def refused(done: Done, *texts: str, status: int = 1) -> None:
    """A refusal that a person can use."""
    assert (done.status, done.out) == (status, ""), str(done)
    assert all(text in done.err for text in texts), str(done)
    assert "Traceback" not in done.err and "internal error" not in done.err, str(done)


def submit_raw(cluster: LiveCluster, spec: m.JobSpec | None = None, **job: Any) -> int:
    """Submit past sbatch, so that the controller's own checks are met."""
    request = c.SubmitJobRequest(
        request_key=new_request_key(time.time_ns() // 1000, os.urandom(16)),
        job=m.JobRequest(work_dir=os.fsencode(cluster.work), std_out=b"/dev/null", **job),
        spec=spec or m.JobSpec(script=b"#!/bin/sh\n"),
    )
    return cluster.call("SubmitJob", request).job_id


def refused_raw(cluster: LiveCluster, spec: m.JobSpec | None = None, **job: Any) -> str:
    """The controller's refusal of a submission."""
    with pytest.raises(PenstockError) as caught:
        submit_raw(cluster, spec, **job)
    text = caught.value.text
    assert text and "Traceback" not in text and "Internal error" not in text
    return text


def job_rows(cluster: LiveCluster, array_job_id: int) -> int:
    """How many rows of an array are in the database."""
    with sqlite3.connect(f"file:{cluster.home}/ctld/penstock.db?mode=ro", uri=True) as database:
        return database.execute("SELECT count(*) FROM job WHERE array_job_id = ?", (array_job_id,)).fetchone()[0]


def cpu_s(process: psutil.Process) -> float:
    """What a process has used of the CPUs, which a busy machine does not change much."""
    times = process.cpu_times()
    return times.user + times.system


# ---- arrays --------------------------------------------------------------------------------------------------------


def test_scenario_41_a_hundred_thousand_tasks_in_one_call(cluster: LiveCluster) -> None:
    controller = psutil.Process(cluster.daemons["ctld"].process.pid)
    submit_raw(cluster, hold=True)  # what the first submission loads is no growth
    before = controller.memory_info().rss
    begun_s = cpu_s(controller)
    job_id = submit_raw(cluster, array="0-99999", hold=True)
    assert cpu_s(controller) - begun_s < 1
    assert job_rows(cluster, job_id) == 1
    assert controller.memory_info().rss - before < 20_000_000
    done = cluster.run("squeue", "-h", "-j", str(job_id), "-o", "%i").ok()
    assert done.out == f"{job_id}_[0-99999]\n"
    rows = cluster.run("squeue", "-hr", "-j", str(job_id), "-o", "%i").ok().out.split()
    assert (len(rows), rows[0], rows[-1]) == (100_000, f"{job_id}_0", f"{job_id}_99999")
    begun_s = cpu_s(controller)
    cluster.run("scancel", str(job_id)).ok()
    assert cpu_s(controller) - begun_s < 2
    assert [j.state for j in cluster.jobs(job_id)] == ["CANCELLED"]


def job_ids(cluster: LiveCluster) -> set[int]:
    """Of the jobs that the controller knows."""
    return {job.job_id for job in cluster.jobs()}


@pytest.mark.parametrize(
    "spec",
    ["0-4294967295", "1-10:0", "5-1", "1,,2", "1-5%0", "100001", "-1", "1-", "a", "1-5%", "1 2", "0x1", "1-2-3"],
)
def test_scenario_42_array_specifications_that_are_none(cluster: LiveCluster, spec: str) -> None:
    before = job_ids(cluster)
    refused(cluster.run("sbatch", f"--array={spec}", "--wrap=true"), "rray")
    refused_raw(cluster, array=spec)
    assert job_ids(cluster) <= before  # old ones may have been purged meanwhile


def test_scenario_42_a_list_of_a_million_tasks(cluster: LiveCluster) -> None:
    text = refused_raw(cluster, array=",".join(map(str, range(0, 2_000_000, 2))))
    assert "rray" in text or "limit" in text
    assert "limit" in refused_raw(cluster, array="0-4294967295") or "MaxArraySize" in refused_raw(
        cluster, array="0-200000"
    )


# ---- sizes ---------------------------------------------------------------------------------------------------------


def test_scenario_43_too_large_and_just_small_enough(cluster: LiveCluster) -> None:
    head = b'#!/bin/sh\nwc -c <"$0"; printf %s "$1" | wc -c; exit\n'
    refused(cluster.run("sbatch", stdin=head + b"#" * 10_000_000), "too large", "4194304")
    large = cluster.script("large.sh", head + b"#" * 4_000_000)
    job_id = cluster.sbatch("-o", "large.txt", str(large), "x" * 120_000)
    cluster.wait_state(job_id, "COMPLETED")
    assert (cluster.work / "large.txt").read_text().split() == [str(large.stat().st_size), "120000"]
    variables = {f"BIG_{i}": "x" * 100_000 for i in range(11)}
    refused(cluster.run("sbatch", "--wrap=true", env=variables), "nvironment", "1048576")


def test_scenario_43_the_controller_checks_for_itself(cluster: LiveCluster) -> None:
    assert "4194304" in refused_raw(cluster, m.JobSpec(script=b"#!/bin/sh\n" + b"#" * 4_200_000))
    assert "1048576" in refused_raw(
        cluster, m.JobSpec(script=b"#!/bin/sh\n", environment=[b"A=" + b"x" * 110_000] * 10)
    )
    refused_raw(cluster, m.JobSpec(script=b"#!/bin/sh\n", argv=[b"x" * 1_100_000]))
    refused_raw(cluster, m.JobSpec(script=b"#!/bin/sh\n" + b"#" * 20_000_000))  # beyond what one message may have
    assert submit_raw(cluster, hold=True) > 0  # and goes on serving


def test_scenario_44_nul_bytes(cluster: LiveCluster) -> None:
    refused(cluster.run("sbatch", stdin=b"#!/bin/sh\ntrue\0\n"), "NULL character", "byte 15")
    clean = b"#!/bin/sh\n"
    assert "position 14" in refused_raw(cluster, m.JobSpec(script=b"#!/bin/sh\ntrue\0"))
    refused_raw(cluster, m.JobSpec(script=clean, argv=[b"a\0b"]))
    refused_raw(cluster, m.JobSpec(script=clean, environment=[b"A=a\0b"]))
    refused_raw(cluster, name="a\0b")
    refused_raw(cluster, comment="a\0b")
    refused_raw(cluster, std_err=b"a\0b")


def test_scenario_45_bytes_that_are_no_text(cluster: LiveCluster) -> None:
    """Script, argument, environment value and folder arrive as they were; names and comments must be text."""
    folder = os.fsencode(cluster.work) + b"/dir-\xff\xfe"
    os.makedirs(folder, exist_ok=True)
    script = b'#!/bin/sh\nprintf \'%s|\' \'\xe9\xff\' "$1" "$ODD" "$PWD"\n'
    odd = {"ODD": os.fsdecode(b"\xc3\x28")}
    job_id = int(cluster.run("sbatch", "--parsable", "-D", folder, "-o", b"out-\xff", "/dev/stdin", b"\xfd arg",
                             stdin=script, env=odd).ok().out)  # fmt: skip
    cluster.wait_state(job_id, "COMPLETED")
    with open(folder + b"/out-\xff", "rb") as file:
        assert file.read() == b"\xe9\xff|\xfd arg|\xc3\x28|" + folder + b"|"
    shown = cluster.run("scontrol", "show", "job", str(job_id)).ok()
    assert b"WorkDir=" in shown.stdout
    refused(cluster.run("sbatch", "-J", b"na\xffme", "--wrap=true"))
    refused(cluster.run("sbatch", "--comment", "beep\a", "--wrap=true"))
    for bad in ("a\x1b[31mred", "two\nlines", "tab\there"):
        refused_raw(cluster, name=bad)
        refused_raw(cluster, comment=bad)


# ---- numbers -------------------------------------------------------------------------------------------------------

NOT_NUMBERS = ("-1", "1e309", "NaN", "1_000", "０", "0x10", "9223372036854775808", "1.5", "")
#: Options whose values end sbatch with 255, as in 22.05; the status of the others is 1.
STATUSES = dict.fromkeys(("--nodes", "--mem", "--mem-per-cpu", "--nice", "--priority", "--time"), 255)
NAMES = {"--ntasks": "ntasks", "--cpus-per-task": "cpus-per-task", "--nodes": "node count", "--mem": "mem",
         "--mem-per-cpu": "mem-per-cpu", "--gpus-per-node": "gpus-per-node", "--ntasks-per-node": "ntasks-per-node"}  # fmt: skip


@pytest.mark.parametrize(("option", "name"), NAMES.items())
def test_scenario_47_numbers_that_are_none(cluster: LiveCluster, option: str, name: str) -> None:
    before = job_ids(cluster)
    for number in NOT_NUMBERS:
        refused(cluster.run("sbatch", f"{option}={number}", "--wrap=true"), name, status=STATUSES.get(option, 1))
    assert job_ids(cluster) <= before  # old ones may have been purged meanwhile


@pytest.mark.parametrize(
    ("option", "number"),
    [("--ntasks", "0"), ("--ntasks", "2147483648"), ("--cpus-per-task", "0"), ("--nodes", "0"), ("--nodes", "2147483648"),
     ("--nice", "NaN"), ("--nice", "99999999999"), ("--priority", "-5"), ("--priority", "4294967296"), ("--time", "-5"),
     ("--time", "1e9"), ("--time", "99999999999999"), ("--mem", "99999999T"), ("--gpus-per-node", "2147483648")],
)  # fmt: skip
def test_scenario_47_numbers_out_of_range(cluster: LiveCluster, option: str, number: str) -> None:
    before = job_ids(cluster)
    refused(cluster.run("sbatch", f"{option}={number}", "--wrap=true"), status=STATUSES.get(option, 1))
    assert job_ids(cluster) <= before  # old ones may have been purged meanwhile


@pytest.mark.parametrize(("text", "limit_s"), [("1-24:61:61", 176_521), ("UNLIMITED", -1), ("", None), ("1:2:3:4", None), ("90", 5400), ("1-2", 93600),
                                               ("2:30", 150), ("1:00:01", 3601)])  # fmt: skip
def test_scenario_48_time_limits(cluster: LiveCluster, text: str, limit_s: int | None) -> None:
    done = cluster.run("sbatch", "--parsable", "--hold", f"--time={text}", "--wrap=true")
    if limit_s is None:
        refused(done, "time", status=STATUSES["--time"])
        return
    limit = cluster.job(int(done.ok().out)).time_limit_s
    assert limit in (limit_s, -(-limit_s // 60) * 60)  # Slurm counts whole minutes, rounded up


# ---- text that means something elsewhere ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["it's", 'say "hi"', "a; rm -rf /", "-- comment", "100%j %s", "${HOME}`id`", "x' OR '1'='1",
                                  "Robert'); DROP TABLE job;--", "naïve ☃"])  # fmt: skip
def test_scenario_49_names_are_stored_and_shown_verbatim(cluster: LiveCluster, text: str) -> None:
    job_id = cluster.sbatch("-J", text, f"--comment={text}", "-o", "/dev/null", "--wrap", "true")
    cluster.wait_state(job_id, "COMPLETED")
    assert cluster.run("squeue", "-h", "-t", "all", "-j", str(job_id), "-o", "%j").ok().out == f"{text}\n"
    assert f"JobName={text}\n" in cluster.run("scontrol", "show", "job", str(job_id)).ok().out
    row = cluster.run("sacct", "-nXP", "-j", str(job_id), "-o", "JobName,Comment").ok().out
    assert row == f"{text}|{text}\n"
    assert [j.job_id for j in cluster.jobs(job_id)] == [job_id]


def test_scenario_49_a_newline_is_refused(cluster: LiveCluster) -> None:
    refused(cluster.run("sbatch", "-J", "two\nlines", "--wrap=true"))
    refused(cluster.run("sbatch", "--comment", "two\nlines", "--wrap=true"))


# ---- configuration -------------------------------------------------------------------------------------------------


def test_scenario_50_reloads_that_are_refused_as_a_whole(new_cluster: New) -> None:
    cluster = new_cluster(2)
    good = cluster.slurm_conf.read_text()
    job_id = cluster.sbatch("-w", "n2", "-c", "4", "-o", "/dev/null", "--wrap", "exec sleep 300")
    cluster.wait_state(job_id, "RUNNING")
    node2 = next(line for line in good.splitlines() if line.startswith("NodeName=n2"))
    line_of = good.splitlines().index(node2) + 1
    bad = {
        "unknown key": (good + "KilWait=3\n", "slurm.conf:"),
        "duplicate node": (good + node2 + "\n", "slurm.conf:"),
        "bad value": (good.replace("KillWait=1", "KillWait=soon"), "slurm.conf:"),
        "node with a job removed": (good.replace(node2 + "\n", ""), "n2"),
        "node with a job shrunk": (good.replace(node2, node2.replace("CPUs=16", "CPUs=2")), "n2"),
        "half a file": (good[: good.index("PartitionName") + 9], "slurm.conf"),
    }
    for what, (text, where) in bad.items():
        cluster.slurm_conf.write_text("KillWait=5\n" + text if what == "half a file" else text)
        done = cluster.run("scontrol", "reconfigure")
        assert done.status == 1 and where in done.err and "Traceback" not in done.err, f"{what}: {done}"
        config = cluster.run("scontrol", "show", "config").ok().out
        assert "KillWait                = 1 sec" in config, what
        assert [n.cpus for n in (cluster.node("n1"), cluster.node("n2"))] == [16, 16], what
    cluster.slurm_conf.unlink()
    done = cluster.run("scontrol", "reconfigure")
    assert done.status == 1 and "slurm.conf" in done.err
    cluster.slurm_conf.write_text(good.replace("KillWait=1", "KillWait=2"))
    cluster.run("scontrol", "reconfigure").ok()
    assert cluster.job(job_id).state == "RUNNING" and line_of > 0
    cluster.run("scancel", str(job_id)).ok()


def test_scenario_51_unreadable_or_half_written_at_start(new_cluster: New) -> None:
    cluster = new_cluster(1, start=False)
    good = cluster.slurm_conf.read_text()
    for text, where in (
        (good + "NodeName=n9 CPUs=\n", "slurm.conf:"),
        (good[: good.index("NodeName=")], "slurm.conf"),
        (good + "Include nowhere.conf\n", "nowhere.conf"),
    ):
        cluster.slurm_conf.write_text(text)
        cluster.start_controller(wait=False)
        assert cluster.wait_death("ctld") == 78
        assert where in cluster.logs() and "Traceback" not in cluster.logs()
    cluster.slurm_conf.unlink()
    cluster.start_controller(wait=False)
    assert cluster.wait_death("ctld") == 78
    cluster.slurm_conf.write_text(good)
    cluster.start_controller()
    cluster.slurm_conf.write_text(good + "oops\n")
    assert cluster.run("scontrol", "reconfigure").status == 1 and cluster.answers()


def test_a_port_that_is_taken_is_named(new_cluster: New) -> None:
    import socket

    cluster = new_cluster(1, start=False)
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        cluster.slurm_conf.write_text(cluster.conf_text().replace(str(cluster.command_port), str(port)))
        cluster.start_controller(wait=False)
        assert cluster.wait_death("ctld") != 0
    assert str(port) in cluster.logs() and "Traceback" not in cluster.logs()
