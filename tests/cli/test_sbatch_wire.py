"""Real commands against a gRPC server on a Unix socket: what goes over the wire, and what is imported for it."""

import os
import signal
import subprocess
import sys

import pytest
from patience import ANSWER_S

from penstock.v1 import controller_pb2 as pb
from penstock.v1.common_pb2 import ExitStatus
from tests.cli.fake_controller import ROOT, TOKEN, WireController, run_command


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    wire = WireController(
        tmp_path_factory.mktemp("w"),
        {
            "SubmitJob": lambda request: pb.SubmitJobReply(job_id=42),
            "AwaitJob": lambda request: pb.AwaitJobReply(exit=ExitStatus(signal=15)),
            "CancelJobs": lambda request: pb.JobResultsReply(results=[pb.JobResult(id=i) for i in request.filter.ids]),
            "GetBatchScript": lambda request: pb.GetBatchScriptReply(script=b"#!/bin/sh\n\xfe\n"),
        },
    )
    yield wire
    wire.close()


@pytest.fixture
def wire(controller):
    controller.requests.clear()
    controller.tokens.clear()
    return controller


def run(wire, name, *argv, env=None, **options):
    return run_command(name, *argv, env={b"PENSTOCK_CLUSTER": os.fsencode(wire.cluster_file)} | (env or {}), **options)


def result(done):
    return done.returncode, done.stdout, done.stderr


def test_bytes_arrive_as_they_were(wire, tmp_path):
    folder = os.path.join(os.fsencode(tmp_path), b"d\xff")
    os.mkdir(folder)
    script = b"#!/bin/sh\n#SBATCH -o out\xff\n#SBATCH --job-name=caf\xc3\xa9\necho \xfe\xff\n"
    with open(os.path.join(folder, b"job.sh"), "wb") as file:
        file.write(script)
    env = {b"BIN": b"\xff\xfe\n=x", b"EMPTY": b""}
    done = run(wire, "sbatch", b"job.sh", b"a\xff", b"", env=env, cwd=folder)
    assert result(done) == (0, b"Submitted batch job 42\n", b"")
    ((method, request),) = wire.requests
    assert (method, wire.tokens) == ("SubmitJob", [TOKEN])
    assert request.spec.script == script
    assert list(request.spec.argv) == [b"a\xff", b""]
    lines = set(request.spec.environment)
    assert b"BIN=\xff\xfe\n=x" in lines and b"EMPTY=" in lines
    assert not any(line.startswith(b"GRPC_") for line in lines)
    job = request.job
    assert job.work_dir == job.submit_dir == folder
    assert job.std_out == b"out\xff"
    assert job.name == "café"
    assert job.submit_line == r"sbatch job.sh a\udcff "


def test_the_largest_script_and_environment_that_are_allowed_arrive(wire, tmp_path):
    script = b"#!/bin/sh\n" + b"\xfd" * (4 * 1024 * 1024 - 10)
    (tmp_path / "job.sh").write_bytes(script)
    (tmp_path / "env").write_bytes(b"BIG=" + b"\xfc" * 1_000_000 + b"\0")
    done = run(wire, "sbatch", "--export-file=env", "job.sh", cwd=tmp_path)
    assert result(done) == (0, b"Submitted batch job 42\n", b"")
    ((_, request),) = wire.requests
    assert request.spec.script == script
    assert b"BIG=" + b"\xfc" * 1_000_000 in request.spec.environment


@pytest.mark.parametrize(
    ("script", "env_file", "text"),
    [
        (b"#!/bin/sh\n" + b"x" * 10_000_000, b"", b"Batch script too large"),
        (b"#!/bin/sh\n", b"A=" + b"x" * 10_000_000, b"Job environment too large"),
        (b"#!/bin/sh\n\0", b"", b"The first one is byte 11, in line 2."),
    ],
)
def test_what_is_too_much_is_refused_before_anything_is_sent(wire, tmp_path, script, env_file, text):
    (tmp_path / "env").write_bytes(env_file)
    done = run(wire, "sbatch", f"--export-file={tmp_path / 'env'}", input=script)
    assert (done.returncode, done.stdout, wire.requests) == (1, b"", [])
    assert text in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_script_from_stdin_and_its_end(wire):
    done = run(wire, "sbatch", "--parsable", "--wait", input=b"#!/bin/sh\n#SBATCH -a 1-3\n")
    assert result(done) == (143, b"42\n", b"")
    assert [method for method, _ in wire.requests] == ["SubmitJob", "AwaitJob"]
    assert wire.requests[0][1].job.array == "1-3"
    assert wire.requests[1][1].job_id == 42


def test_scancel_and_scontrol_reach_the_controller(wire):
    assert result(run(wire, "scancel", "5_[1-3]", "-s", "USR2")) == (0, b"", b"")
    assert wire.requests[0][1].signal == signal.SIGUSR2
    assert result(run(wire, "scontrol", "write", "batch_script", "5", "-")) == (0, b"#!/bin/sh\n\xfe\n", b"")


def test_a_controller_that_is_not_there(tmp_path):
    from penstock.clusterfile import ClusterFile, write_cluster

    path = tmp_path / "cluster.json"
    write_cluster(path, ClusterFile("gone", "h", str(tmp_path / "no.sock"), str(tmp_path / "no-auth.sock")))
    for argv in (["sbatch", "--wrap=x"], ["scancel", "5"], ["scontrol", "show", "job"], ["scontrol", "ping"]):
        done = run_command(*argv, env={b"PENSTOCK_CLUSTER": os.fsencode(path)})
        assert done.returncode == 1
        assert b"Unable to contact slurm controller" in done.stderr or b"is DOWN" in done.stdout
        assert b"Traceback" not in done.stderr


def test_ctrl_c_ends_without_a_word():
    code = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
import cli.sbatch as command
def from_stdin():
    print("up", flush=True)
    while True:  # a signal that comes just before a sleep does not end that sleep
        time.sleep(0.05)
command.from_stdin = from_stdin
command.main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=ANSWER_S) == (b"", b"")
    assert process.returncode == 130


HEAVY = [
    "numpy",
    "sqlalchemy",
    "cryptography",
    "asyncio",
    "click",
    "logging.config",
    "ctld",
    "nodedaemon",
    "accounting",
]


@pytest.mark.parametrize("command", ["sbatch", "scancel", "scontrol"])
def test_nothing_heavy_is_imported(command):
    code = f"import sys, cli.{command}; print(*sorted(set({HEAVY!r} + ['grpc']) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    assert done.stdout == b"\n"


def test_nothing_heavy_is_imported_by_a_whole_submission(wire):
    code = f"""
import sys
from cli.base.run import status_of
from cli.sbatch import body
status_of("sbatch", body, ["--wrap=x"])
print(*sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    environment = {"PYTHONPATH": str(ROOT), "PENSTOCK_CLUSTER": str(wire.cluster_file), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout.startswith(b"Submitted batch job 42\n")
    assert set(done.stdout.decode().splitlines()[1].split()) <= {"asyncio"}  # gRPC brings asyncio itself
