"""sbatch against a controller that answers from a table: what is asked for, what is printed, which status."""

import os

import pytest
from google.protobuf.json_format import MessageToDict

from cli.sbatch import body
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError
from penstock.v1.common_pb2 import ExitStatus
from penstock.v1.controller_pb2 import AwaitJobReply, ConfigLine, ShowConfigReply, SubmitJobReply
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("SBATCH_", "SLURM_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def client(monkeypatch):
    answers = {"SubmitJob": SubmitJobReply(job_id=123), "AwaitJob": AwaitJobReply(exit=ExitStatus(code=3))}
    return FakeClient(**answers).install(monkeypatch)


def run(capsys, *argv):
    return run_body(capsys, "sbatch", body, *argv)


def submitted(client):
    return next(request for method, request in client.calls if method == "SubmitJob")


def asked(client):
    """What the user asked for: the request without what every submission carries."""
    job = MessageToDict(submitted(client).job, preserving_proto_field_name=True)
    for key in ("submit_line", "submit_host", "submit_dir", "rlimits", "umask", "work_dir", "command", "name"):
        job.pop(key, None)
    return job


def test_a_wrapped_command(client, capsys, tmp_path):
    assert run(capsys, "--wrap=echo hi") == (0, "Submitted batch job 123\n", "")
    request = submitted(client)
    assert len(client.calls) == 1
    assert request.spec.script == b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\necho hi\n"
    assert list(request.spec.argv) == []
    assert asked(client) == {}
    job = request.job
    assert (job.name, job.command, job.submit_line) == ("wrap", "(null)", "sbatch --wrap=echo hi")
    assert job.work_dir == job.submit_dir == os.fsencode(tmp_path)
    assert job.submit_host == os.uname().nodename
    assert len(request.request_key) == 32
    assert not request.test_only


EVERY_OPTION = [
    (["-J", "j"], {}),
    (["-p", "a,b"], {"partitions": ["a", "b"]}),
    (["-A", "acc", "-q", "high"], {"account": "acc", "qos": "high"}),
    (["--reservation", "night,day"], {"reservation": "night,day"}),
    (["-t", "1-2:03:04"], {"time_limit_s": str(93840)}),
    (
        ["--sockets-per-node=2", "--cores-per-socket=4", "--threads-per-core=1"],
        {"sockets_per_node": 2, "cores_per_socket": 4, "threads_per_core": 1},
    ),
    (["-B", "2:*:1"], {"ntasks": 2, "sockets_per_node": 2, "threads_per_core": 1}),
    (["-B", "4-4:2-3"], {"ntasks": 8, "sockets_per_node": 4, "cores_per_socket": 2}),
    (["--extra-node-info=2:8"], {"ntasks": 16, "sockets_per_node": 2, "cores_per_socket": 8}),
    (["--mincpus=4", "--tmp=1G"], {"mincpus": 4, "tmp_disk_mb": "1024"}),
    (["--ntasks-per-core=1", "--ntasks-per-socket=2"], {"ntasks_per_core": 1, "ntasks_per_socket": 2}),
    (["--hint=nomultithread"], {"threads_per_core": 1}),
    (["--hint=multithread"], {}),
    (["--hint=nomultithread", "--threads-per-core=2"], {"threads_per_core": 2}),
    (["--prefer=a|b", "--gres-flags=enforce-binding"], {"prefer": "a|b"}),
    (["--spread-job", "--use-min-nodes"], {"spread_job": True, "use_min_nodes": True}),
    (["-L", "matlab:2,idl", "--segment=4"], {"licenses": "matlab:2,idl", "segment": 4}),
    (["--switches=2@10"], {"switches_max": 2, "switches_wait_s": "600"}),
    (["--time-min=5", "--exclusive=user"], {"time_min_s": "300", "exclusive_user": True}),
    (["--time=0"], {"time_limit_s": "-1"}),
    (["--time=UNLIMITED"], {"time_limit_s": "-1"}),
    (["-N", "2-4"], {"nodes_min": 2, "nodes_max": 4}),
    (["--nodes=3"], {"nodes_min": 3, "nodes_max": 3}),
    (["-n8", "-c2", "--ntasks-per-node=4"], {"ntasks": 8, "cpus_per_task": 2, "ntasks_per_node": 4}),
    (["--mem=4G"], {"mem_per_node_mb": "4096"}),
    (["--mem=0"], {"mem_per_node_mb": "0"}),
    (["--mem-per-cpu=512"], {"mem_per_cpu_mb": "512"}),
    (
        ["--gres=gpu:a100:2,tmp:1"],
        {"gres_per_node": [{"name": "gpu", "type": "a100", "count": "2"}, {"name": "tmp", "count": "1"}]},
    ),
    (
        ["--gpus-per-node=h100:4"],
        {"gres_per_node": [{"name": "gpu", "type": "h100", "count": "4"}], "gpus_per_node_asked": True},
    ),
    (
        ["--gres=gpu:2", "--gpus-per-node=2"],
        {"gres_per_node": [{"name": "gpu", "count": "2"}], "gpus_per_node_asked": True},
    ),
    (["--gres=none"], {}),
    (["-m", "pack"], {"distribution": "pack"}),
    (["-m", "NoPack"], {"distribution": "NoPack"}),
    (["--gpus=a100:8"], {"gres_per_job": [{"name": "gpu", "type": "a100", "count": "8"}]}),
    (
        ["-G", "4", "--gpus-per-task=1"],
        {"gres_per_job": [{"name": "gpu", "count": "4"}], "gres_per_task": [{"name": "gpu", "count": "1"}]},
    ),
    (["--gpus=none"], {}),
    (
        ["--gpus-per-socket=2", "--sockets-per-node=2"],
        {
            "gres_per_node": [{"name": "gpu", "count": "4"}],
            "sockets_per_node": 2,
            "gres_per_socket": [{"name": "gpu", "count": "2"}],
            "gres_sockets": 2,
        },
    ),
    (
        ["--tres-per-task=cpu=3,gres/gpu:a100:1"],
        {"cpus_per_task": 3, "gres_per_task": [{"name": "gpu", "type": "a100", "count": "1"}]},
    ),
    (
        ["-G1", "--ntasks-per-gpu=2", "--cpus-per-gpu=4", "--mem-per-gpu=1G"],
        {
            "gres_per_job": [{"name": "gpu", "count": "1"}],
            "ntasks_per_gpu": 2,
            "cpus_per_gpu": 4,
            "mem_per_gpu_mb": "1024",
        },
    ),
    (
        ["-O", "-m", "plane=4", "--no-kill", "--wait-all-nodes=1"],
        {"overcommit": True, "distribution": "plane=4", "no_kill": True, "wait_all_nodes": True},
    ),
    (["--distribution=block:cyclic:fcyclic,NoPack", "--no-kill=off"], {"distribution": "block:cyclic:fcyclic,NoPack"}),
    (["--resv-ports"], {"resv_ports": 1}),
    (
        ["--resv-ports=4", "--gpu-bind=closest", "--mem-bind=local"],
        {"resv_ports": 4, "gpu_bind": "closest", "mem_bind": "local"},
    ),
    (["--gpu-bind=verbose,map_gpu:0*2,1"], {"gpu_bind": "verbose,map_gpu:0*2,1"}),
    (["--gpu-bind=v,mask:0x3,C"], {"gpu_bind": "v,mask:0x3,C"}),
    (["--gpu-bind=verbose"], {"gpu_bind": "verbose"}),
    (["--tres-bind=gres/gpu:single:2"], {"gpu_bind": "single:2"}),
    (["--tres-bind=gres/shard:per_task:1"], {}),
    (
        ["--gpu-freq=high,memory=low,verbose", "--gpu-mem=40G"],
        {"gpu_freq": "high,memory=low,verbose", "gpu_mem_mb": "40960"},
    ),
    (["-w", "n[1-2]", "-x", "n3"], {"nodes_required": "n[1-2]", "nodes_excluded": "n3"}),
    (["-w", "n1*2,n2"], {"nodes_required": "n1,n1,n2"}),
    (["-C", "a&b"], {"features": "a&b"}),
    (["-C", ""], {}),
    (["--exclusive"], {"exclusive": True}),
    (["-d", "afterok:5:6,afterany:7"], {"dependency": "afterok:5:6,afterany:7"}),
    (["-H"], {"hold": True}),
    (["-i", "in", "-o", "out%j"], {"std_in": "aW4=", "std_out": "b3V0JWo="}),
    (["--open-mode=a"], {"open_append": True, "open_truncate": False}),
    (["--open-mode=truncate"], {"open_truncate": True}),
    (["--requeue"], {"requeue": True}),
    (["--no-requeue"], {"requeue": False}),
    (["--comment=a 'b' \"c\"; -- % {} $()"], {"comment": "a 'b' \"c\"; -- % {} $()"}),
    (["--nice"], {"nice": 100}),
    (["--nice=-5"], {"nice": -5}),
    (["--priority=7"], {"priority": 7}),
    (["--priority=0"], {"priority": 0}),
    (["-a", "0-9:3%2"], {"array": "0-9:3%2"}),
    (["--kill-on-invalid-dep=yes"], {"kill_on_invalid_dep": True}),
    (["--kill-on-invalid-dep=no"], {}),
    (["--export=ALL,A=1"], {"export_env": "ALL,A=1"}),
    (["--export=A=\x1b,B"], {"export_env": "A,B"}),
    (["--signal=B:USR1@60"], {"signal": "B:USR1@60"}),
    (["--wckey=w"], {"wckey": "w"}),
    (["--mail-type=NONE", "--mail-user=me@example.org"], {"mail_user": "me@example.org"}),
    (["--mail-type=END,fail,time_limit_80"], {"mail_types": ["END", "FAIL", "TIME_LIMIT_80"]}),
    (["--mail-type=ALL,END"], {"mail_types": ["INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT"]}),
    (["--get-user-env"], {"get_user_env": True}),
    (["--get-user-env=20L"], {"get_user_env": True}),
    (
        ["--contiguous", "--reboot", "--extra=a=b", "--mcs-label=m"],
        {"contiguous": True, "reboot": True, "extra": "a=b", "mcs_label": "m"},
    ),
    (["--oversubscribe"], {"oversubscribe": True}),
    (["--exclusive=mcs"], {"exclusive_mcs": True}),
    (["--exclusive=topo"], {"exclusive_topo": True}),
    (["--exclusive", "-s"], {"oversubscribe": True}),
    (["-s", "--exclusive=exclusive"], {"exclusive": True}),
    (["--core-spec=0"], {"core_spec": 0}),
    (["-S2"], {"core_spec": 2}),
    (["--thread-spec=4"], {"thread_spec": 4}),
    (["--batch=haswell|knl"], {"batch_features": "haswell|knl"}),
    (["--acctg-freq=task=10,gpu=60"], {"acctg_freq": "task=10,gpu=60"}),
    (["--oom-kill-step"], {"oom_kill_step": True}),
    (["--oom-kill-step=0"], {"oom_kill_step": False}),
    (["--delay-boot=5"], {"delay_boot_s": 300}),
    (["--uid=0", "--gid=0"], {"run_as_uid": 0, "run_as_gid": 0}),
    (["--uid=root"], {"run_as_uid": 0}),
    (["--requeue=expedite"], {"requeue": True, "expedite": True}),
    (["--ntasks-per-tres=2", "-n4"], {"ntasks_per_gpu": 2, "ntasks": 4}),
    (["--priority=TOP"], {"priority": 4294967294}),
    (["-N", "1k-2K"], {"nodes_min": 1024, "nodes_max": 2048}),
    (["--hint=memory_bound"], {"threads_per_core": 1}),
    (["--gres-flags=allow-task-sharing"], {}),
    (["--propagate=NONE"], {"propagate_asked": True}),
]


@pytest.mark.parametrize(("argv", "expected"), EVERY_OPTION, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_options(client, capsys, argv, expected):
    status, _, err = run(capsys, *argv, "--wrap=x")
    assert (status, err) == (0, "")
    assert asked(client) == expected


def test_lines_of_workflow_tools(client, capsys, tmp_path):
    snakemake = (
        "--parsable --job-name 3f2b --output log/%j.log --export=ALL --comment rule_a -t 5 -C '' --mem 1000 "
        f"--ntasks=1 --cpus-per-task=2 -D {tmp_path}"
    )
    import shlex

    assert run(capsys, *shlex.split(snakemake), "--wrap=echo 'a b'") == (0, "123\n", "")
    assert asked(client) == {
        "std_out": "bG9nLyVqLmxvZw==", "export_env": "ALL", "comment": "rule_a", "time_limit_s": "300",
        "mem_per_node_mb": "1000", "ntasks": 1, "cpus_per_task": 2,
    }  # fmt: skip
    write("nf.sh", "#!/bin/bash\n#SBATCH -J nf-a\n#SBATCH -o .command.log\n#SBATCH --no-requeue\n"
          "#SBATCH --signal B:USR2@30\n#SBATCH -c 2\n#SBATCH --mem 2048M\nNXF_CHDIR=/x\n")  # fmt: skip
    assert run(capsys, "nf.sh") == (0, "Submitted batch job 123\n", "")
    write("submitit.sh", "#!/bin/bash\n\n# Parameters\n#SBATCH --array=0-3%2\n#SBATCH --error=/x/%A_%a_0_log.err\n"
          "#SBATCH --job-name=submitit\n#SBATCH --open-mode=append\n#SBATCH --signal=USR2@90\n"
          "#SBATCH --wckey=submitit\n\n# command\nexport A=1\n")  # fmt: skip
    assert run(capsys, "submitit.sh") == (0, "Submitted batch job 123\n", "")
    job = client.calls[-1][1].job
    assert (job.array, job.signal, job.open_append, job.name) == ("0-3%2", "USR2@90", True, "submitit")


def test_begin_is_sent_as_a_time(client, capsys):
    run(capsys, "-b", "2030-01-02T03:04:05", "--wrap=x")
    from penstock.values.dates import format_date

    assert format_date(submitted(client).job.begin_at_us) == "2030-01-02T03:04:05"


def test_rlimits_and_umask_travel(client, capsys):
    run(capsys, "--propagate=NOFILE", "--wrap=x")
    assert list(submitted(client).job.rlimits) == ["NOFILE"]
    assert submitted(client).job.HasField("umask")


def test_chdir(client, capsys, tmp_path):
    run(capsys, "-D", "sub/x/", "--wrap=x")
    run(capsys, "-D", "/abs\udcff", "--wrap=x")
    first, second = (request.job for _, request in client.calls)
    assert first.work_dir == os.fsencode(tmp_path / "sub/x")
    assert second.work_dir == b"/abs\xff"
    assert first.submit_dir == second.submit_dir == os.fsencode(tmp_path)


SCRIPT = "#!/bin/sh\n#SBATCH -J scripted -t 5 --mem=1G\n#SBATCH --hold\n#SBATCH --wait --parsable\necho $1\n"


def write(name="job.sh", text=SCRIPT):
    with open(name, "w") as file:
        file.write(text)
    return name


def test_a_script_with_directives_and_arguments(client, capsys, tmp_path):
    assert run(capsys, write(), "--hold", "b c") == (3, "123\n", "")
    request = submitted(client)
    assert request.spec.script == SCRIPT.encode()
    assert list(request.spec.argv) == [b"--hold", b"b c"]
    assert request.job.name == "scripted"
    assert request.job.command == str(tmp_path / "job.sh")
    assert asked(client) == {"time_limit_s": "300", "mem_per_node_mb": "1024", "hold": True}


def test_command_line_over_environment_over_script(client, capsys, monkeypatch):
    monkeypatch.setenv("SBATCH_TIMELIMIT", "6")
    monkeypatch.setenv("SBATCH_JOB_NAME", "env")
    monkeypatch.setenv("SBATCH_MEM_PER_CPU", "77")
    run(capsys, "-J", "line", write())
    assert submitted(client).job.name == "line"
    assert asked(client) == {"time_limit_s": "360", "mem_per_cpu_mb": "77", "hold": True}


def test_default_names(client, capsys, monkeypatch):
    run(capsys, write("my.job", "#!/bin/sh\n"))
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#!/bin/sh\n#SBATCH --hold\n")))
    run(capsys)
    (_, first), (_, second) = client.calls
    assert (first.job.name, second.job.name) == ("my.job", "sbatch")
    assert second.job.hold
    assert second.job.command == "(null)"


def test_quiet_parsable(client, capsys):
    assert run(capsys, "-Q", "--wrap=x") == (0, "", "")
    assert run(capsys, "--parsable", "--wrap=x") == (0, "123\n", "")
    assert run(capsys, "--parsable", "-Q", "--wrap=x") == (0, "123\n", "")


@pytest.mark.parametrize(
    ("state", "code", "signal", "status"),
    [
        ("COMPLETED", 0, 0, 0),
        ("FAILED", 3, 0, 3),
        ("FAILED", 0, 9, 137),
        ("CANCELLED", 0, 0, 1),  # before it started
        ("TIMEOUT", 0, 0, 1),  # its script caught the signal
    ],
)
def test_wait_ends_as_the_job_ends(capsys, monkeypatch, state, code, signal, status):
    FakeClient(
        SubmitJob=SubmitJobReply(job_id=5),
        AwaitJob=AwaitJobReply(exit=ExitStatus(code=code, signal=signal), state=state),
    ).install(monkeypatch)
    assert run(capsys, "-W", "--wrap=x") == (status, "Submitted batch job 5\n", "")


def test_a_folder_that_is_gone(client, capsys, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    text = "sbatch: error: the current directory no longer exists: change to an existing one\n"
    assert run(capsys, "--wrap=x") == (1, "", text)
    assert client.calls == []


def test_test_only(capsys, monkeypatch):
    reply = SubmitJobReply(job_id=9, start_at_us=10**15, cpus=4, node_list="n[1-2]", partition="p")
    client = FakeClient(SubmitJob=reply).install(monkeypatch)
    status, out, err = run(capsys, "--test-only", "--wrap=x")
    assert (status, out) == (0, "")
    assert err.startswith("sbatch: Job 9 to start at 2001-09-09T")
    assert err.endswith(" using 4 processors on nodes n[1-2] in partition p\n")
    assert client.request.test_only


def test_refusals(capsys, monkeypatch):
    refusal = PenstockError(Code.INVALID_PARTITION, TEXT[Code.INVALID_PARTITION])
    FakeClient(SubmitJob=refusal).install(monkeypatch)
    text = "Invalid partition name specified\n"
    assert run(capsys, "--wrap=x") == (1, "", f"sbatch: error: Batch job submission failed: {text}")
    assert run(capsys, "--test-only", "--wrap=x") == (1, "", f"allocation failure: {text}")


def test_warnings_are_shown_unless_quiet(capsys, monkeypatch):
    FakeClient(SubmitJob=SubmitJobReply(job_id=1, warnings=["odd"])).install(monkeypatch)
    assert run(capsys, "--wrap=x")[2] == "sbatch: warning: odd\n"
    assert run(capsys, "-Q", "--wrap=x")[2] == ""


NUMBERS = ["-1", "9223372036854775808", "1e309", "NaN", "1_000", "０", "+5", "0x10", "", " 1"]


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize(
    "option", ["time", "nodes", "ntasks", "cpus-per-task", "ntasks-per-node", "mem", "mem-per-cpu", "priority"]
)
def test_numbers_that_are_none(client, capsys, option, value):
    if option == "time" and value == "-1":
        pytest.skip("a spelling of UNLIMITED")
    status, out, err = run(capsys, f"--{option}={value}", "--wrap=x")
    reads_itself = option in ("time", "nodes", "mem", "mem-per-cpu", "priority")
    assert (status, out, client.calls) == (255 if reads_itself else 1, "", [])
    assert err.startswith("sbatch: error: ")
    assert "Traceback" not in err
    assert option.split("-")[0].rstrip("s") in err.lower()


@pytest.mark.parametrize(
    "value", ["9223372036854775808", "1e309", "NaN", "1_000", "０", "+5", "0x10", "2147483646", ""]
)
def test_nice_that_is_none(client, capsys, value):
    status, _, err = run(capsys, f"--nice={value}", "--wrap=x")
    assert (status, client.calls) == (255, [])
    assert err.startswith("sbatch: error: Invalid --nice value")


@pytest.mark.parametrize("value", ["0-4294967295", "1-10:0", "5-1", "1,,2", "%0", "1-3%0", "a", "-1", "1-", "0-9,x"])
def test_arrays_that_are_none(client, capsys, value):
    status, _, err = run(capsys, f"--array={value}", "--wrap=x")
    assert (status, client.calls) == (1, [])
    assert err.startswith("sbatch: error: Batch job submission failed: Invalid job array specification\nsbatch: ")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["-N", "abc"], '"abc" is not a valid node count\n'),
        (["-N", "4-2"], "Maximum node count 2 is less than minimum node count 4"),
        (["--time=1:2:3:4"], "Invalid --time specification\n"),
        (["--begin=xx"], "Invalid --begin specification\n"),
        (["--gres=gpu:x:y:"], "Invalid generic resource (gres) specification\n"),
        (["--open-mode=x"], "Invalid --open-mode specification\n"),
        (["--exclusive=rack"], "Invalid --exclusive specification\nsbatch: known are user, mcs, topo"),
        (["--dependency=foo"], "Batch job submission failed: Job dependency problem\n"),
        (["--signal=foo"], "Invalid --signal specification\n"),
        (["--signal=X:USR1"], "Invalid --signal specification\n"),
        (["--mail-type=END,BIRTHDAY"], "Invalid --mail-type specification\nsbatch: Invalid mail type 'BIRTHDAY'"),
        (["--propagate=foo"], "sbatch: error: --propagate=foo is not valid.\nsbatch: known are ALL"),
        (["--mail-type="], "Invalid --mail-type specification\n"),
        (["--wait-all-nodes=x"], 'sbatch: error: Invalid numeric value "x" for --wait-all-nodes.\n'),
        (["-w", "n1,n2", "-N1"], "sbatch: error: invalid number of nodes (-N 2-1)\n"),
        (["--kill-on-invalid-dep=maybe"], "Invalid --kill-on-invalid-dep specification\n"),
        (["--mem=1", "--mem-per-cpu=1"], "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."),
        (
            ["-J", "a\nb"],
            "Invalid --job-name specification\nsbatch: Invalid job name: control character 0x0a at position 1",
        ),
        (["--comment=\x1b[2J"], "control character 0x1b at position 0"),
        (["-J", "\udcff"], "not valid UTF-8 at position 0"),
        (["-A", "x" * 2000], "the limit is 1024 bytes"),
        (["-w", "n[1-"], "Invalid --nodelist specification\n"),
        (["-w", "n1*0"], "Invalid --nodelist specification\n"),
        (["-C", "a&"], "Invalid feature specification\n"),
        (
            ["-F", "/nonexistent"],
            "error opening file /nonexistent, No such file or directory\nsbatch: error: Invalid --nodefile node file\n",
        ),
        (["--hint=fast"], 'unrecognized --hint argument "fast", see --hint=help\nsbatch: known are compute_bound'),
        (
            ["-B", "1:2:3:4"],
            "Invalid --extra-node-info specification\nsbatch: 1:2:3:4 is not SOCKETS[:CORES[:THREADS]]",
        ),
        (["-B", "60000:60000"], "Numeric argument (3600000000) to big for --ntasks.\n"),
        (["-N9", "-B", "60000:60000:60000"], "Numeric argument (1944000000000000) to big for --ntasks.\n"),
        (["-B", "1:x"], 'Invalid numeric value "x" for second arg of -B.\n'),
        (["-n", "2147483648"], "sbatch: error: Numeric argument (2147483648) to big for --ntasks.\n"),
        (["-n", "99999999999999999999"], "Numeric argument (9223372036854775807) to big for --ntasks.\n"),
        (["-n", "x\x1b[2J"], 'Invalid numeric value "x\\x1b[2J" for --ntasks.\n'),
        (["--gres-flags=x"], "Invalid --gres-flags specification\nsbatch: known are enforce-binding"),
        (["--container=/x"], "Container is not configured: option --container is not supported yet by Penstock"),
        (["--bb=x"], "Batch job submission failed: Burst Buffer request invalid: "),
        (["--mem-bind=far"], 'unrecognized --mem-bind argument "far"'),
        (["--profile=fuel"], "invalid --profile=fuel option"),
        (["--cpu-freq=fast"], 'unrecognized --cpu-freq argument "fast"\nsbatch: error: Invalid --cpu-freq argument\n'),
        (["--uid=nobody-of-that-name"], "Invalid --uid specification\nsbatch: no such user here"),
        (["--priority=-1"], "sbatch: error: Priority must be >= 0\n"),
        (["--priority=4294967295"], "sbatch: error: Priority must be < 4294967294\n"),
        (["--nice=2147483646"], "sbatch: error: Invalid --nice value, out of range (+/- 2147483645)\n"),
        (["--core-spec=1", "--thread-spec=1"], "-S/--core-spec and --thread-spec options are mutually exclusive\n"),
        (
            ["--ntasks-per-node=2", "--ntasks-per-gpu=2"],
            "--ntasks-per-node is mutually exclusive with --ntasks-per-gpu",
        ),
        (["--requeue=now"], "Invalid --requeue specification"),
        (["--acctg-freq=task"], "Invalid --acctg-freq specification: task\n"),
        (["--mem=1", "--mem-per-gpu=1"], "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."),
        (["--distribution=round"], "Invalid --distribution specification\nsbatch: 'round' is not {block|cyclic|"),
        (["--gpus-per-socket=1"], "--gpus-per-socket option requires --sockets-per-node specification"),
        (
            ["--tres-per-task=mem=3"],
            "Invalid --tres-per-task specification\nsbatch: 'mem=3' is neither cpu=N nor gres/NAME",
        ),
        (["--tres-per-task=cpu=2", "-c2"], "--tres-per-task repeats --cpus-per-task"),
        (
            ["--gpu-bind=nearest"],
            "Invalid --gpu-bind argument: gres/gpu:nearest\nsbatch: 'nearest': expected [verbose,] and one of closest",
        ),
        (["--gpu-bind=map:a"], "Invalid --gpu-bind argument: gres/gpu:map:a\nsbatch: 'map:a'"),
        (["--gpu-bind=per_task:0"], "Invalid --gpu-bind argument: gres/gpu:per_task:0"),
        (["--gpu-bind="], "Invalid --gpu-bind argument: gres/gpu:\nsbatch: ''"),
        (
            ["--tres-bind=gres/shard:closest"],
            "'closest': expected [verbose,] and one of per_task:N or none, for shares",
        ),
        (["--tres-bind=closest"], "Invalid --tres-bind specification\nsbatch: 'closest' does not begin with gres/gpu:"),
        (["--gpu-freq=fast"], "Invalid --gpu-freq argument: gpu:fast\nsbatch: 'fast': expected"),
        (["--gpu-mem=x"], "Invalid --gpu-mem"),
        (["--no-kill=on"], "Invalid --no-kill specification\nsbatch: 'on' is not off"),
        (["--gres=gpu:1", "--gpus-per-node=2"], "Invalid generic resource (gres) specification"),
        (["--begin=now+2days", "--deadline=now+1day"], "Incompatible begin and deadline time specification"),
    ],
)
def test_values_that_are_refused_before_anything_is_sent(client, capsys, argv, words):
    status, out, err = run(capsys, *argv, "--wrap=x")
    assert (out, client.calls) == ("", [])
    assert status in (1, 255)
    assert err.startswith(("sbatch: error: ", "sbatch: fatal: "))
    assert words in err


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--nonsense"], 255),
        (["-Y"], 255),
        (["--hold=1"], 255),
        (["--time=x"], 255),
        (["-N", "x"], 255),
        (["--signal="], 255),
        (["--priority=-1"], 255),
        (["--nodefile=/nonexistent"], 255),
        (["--cpu-freq=x"], 255),
        # numbers, and what Slurm's controller checks
        (["-n", "x"], 1),
        (["-n", "2147483648"], 1),
        (["--ntasks-per-node=0"], 1),
        (["-B", "x"], 1),
        (["--hint=x"], 1),
        (["--gres=:"], 1),
        (["-G", "1.5"], 1),
        (["--array=x"], 1),
        (["-d", "x:1"], 1),
        (["-w", "n[1-"], 1),
        (["-C", "[old"], 1),
        (["-p", "a\nb"], 1),
    ],
)
def test_the_status_of_a_line_that_cannot_be_read_is_slurms(client, capsys, argv, expected, monkeypatch):
    assert run(capsys, *argv, "--wrap=x")[0] == expected
    monkeypatch.setenv("SLURM_EXIT_ERROR", "7")
    assert run(capsys, *argv, "--wrap=x")[0] == (7 if expected == 1 else 255)


def test_the_status_of_a_variable_that_cannot_be_read_is_slurms(client, capsys, monkeypatch):
    monkeypatch.setenv("SBATCH_TIMELIMIT", "x")
    assert run(capsys, "--wrap=x")[0] == 255
    monkeypatch.setenv("SBATCH_TIMELIMIT", "1")
    monkeypatch.setenv("SBATCH_CORE_SPEC", "x")
    assert run(capsys, "--wrap=x")[0] == 1


def test_node_file(client, capsys, tmp_path):
    (tmp_path / "hosts").write_text("n1\nn2,n[3-4]\n")
    assert run(capsys, "-F", "hosts", "--wrap=x")[0] == 0
    assert submitted(client).job.nodes_required == "n1,n2,n[3-4]"


@pytest.mark.parametrize(
    ("line", "err"),
    [
        ("--foo", "sbatch: unrecognized option '--foo'"),
        ("--time=abc", "sbatch: error: Invalid --time specification\n"),
        ("foo", "sbatch: error: Invalid directive found in batch script: foo"),
        ('-J "abc', "sbatch: error: line 2 of job.sh: Unmatched"),
        ("--bb=x", "sbatch: error: Batch job submission failed: Burst Buffer request invalid: option --bb is not"),
    ],
)
def test_bad_directives_end_with_255(client, capsys, line, err):
    status, out, shown = run(capsys, write("job.sh", f"#!/bin/sh\n#SBATCH {line}\ntrue\n"))
    assert (status, out, client.calls) == (255, "", [])
    assert shown.startswith(err)
    assert "line 2" in shown


def test_help_and_wrap_mean_nothing_in_a_script(client, capsys):
    assert run(capsys, write("job.sh", "#!/bin/sh\n#SBATCH --help\n#SBATCH --wrap=y\n"))[0] == 0
    assert submitted(client).spec.script.endswith(b"--wrap=y\n")


@pytest.mark.parametrize(
    ("argv", "err"),
    [
        (["--wrap=x", "job.sh"], "sbatch: error: Script arguments not permitted with --wrap option\n"),
        (
            ["/nonexistent/job.sh"],
            "sbatch: error: Unable to open file /nonexistent/job.sh\nsbatch: /nonexistent/job.sh: No such file or directory\n",
        ),
        (["/"], "sbatch: error: Batch script is empty!\nsbatch: / is a folder\n"),
        (["/dev/null"], "sbatch: error: Batch script is empty!\n"),
        (["--wrap="], "sbatch: error: Batch script is empty!\n"),
    ],
)
def test_sources_that_cannot_be_used(client, capsys, argv, err):
    assert run(capsys, *argv) == (1, "", err)
    assert client.calls == []


def test_a_bad_variable_is_named(client, capsys, monkeypatch):
    monkeypatch.setenv("SBATCH_MEM_PER_NODE", "lots")
    status, _, err = run(capsys, "--wrap=x")
    assert (status, client.calls) == (255, [])
    assert "(from the environment variable SBATCH_MEM_PER_NODE)" in err


def test_an_unsupported_variable_is_not_swallowed(client, capsys, monkeypatch):
    monkeypatch.setenv("SBATCH_CONTAINER", "all")
    status, _, err = run(capsys, "--wrap=x")
    assert status == 1
    assert "option --container is not supported yet by Penstock" in err
    assert "(from the environment variable SBATCH_CONTAINER)" in err


def test_what_has_no_effect_says_so_once(client, capsys):
    status, _, err = run(capsys, "--network=sn_all", "--network=x", "--wrap=x")
    assert status == 0
    assert err == "sbatch: warning: option --network is accepted and has no effect: there is nothing to choose\n"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SBATCH_REQUEUE", "1", {"requeue": True}),
        ("SBATCH_REQUEUE", "no", {}),
        ("SBATCH_REQUEUE", "expedite", {"requeue": True, "expedite": True}),
        ("SBATCH_NO_REQUEUE", "", {"requeue": False}),
        ("SBATCH_GET_USER_ENV", "1", {"get_user_env": True}),
        ("SLURM_HINT", "nomultithread", {"threads_per_core": 1}),
        ("SBATCH_EXCLUSIVE", "user", {"exclusive_user": True}),
        ("SBATCH_CORE_SPEC", "2", {"core_spec": 2}),
    ],
)
def test_variables(client, capsys, monkeypatch, name, value, expected):
    monkeypatch.setenv(name, value)
    assert run(capsys, "--wrap=x")[0] == 0
    assert asked(client) == expected


def test_how_long_switches_are_waited_for_is_a_variable_of_its_own(client, capsys, monkeypatch):
    monkeypatch.setenv("SBATCH_WAIT4SWITCH", "5")
    run(capsys, "--switches=2", "--wrap=x")
    assert asked(client) == {"switches_max": 2, "switches_wait_s": "300"}
    client.calls.clear()
    run(capsys, "--switches=2@1", "--wrap=x")
    assert asked(client) == {"switches_max": 2, "switches_wait_s": "60"}


def test_the_submit_line_is_clean_text(client, capsys):
    run(capsys, "--wrap=a\nb\udcff\x1b")
    assert submitted(client).job.submit_line == r"sbatch --wrap=a\nb\udcff\x1b"
    assert submitted(client).spec.script.endswith(b"a\nb\xff\x1b\n")


def test_verbose_tells_the_options(client, capsys):
    assert run(capsys, "--wrap=x")[2] == ""
    line = "-v -t5 --mem=4G -N2-4 --hold --gres=gpu:a100:2 -Ga100:4 --switches=2@10 --mail-type=END,FAIL -F /dev/null --nice"
    names = [
        "gpus",
        "gres",
        "hold",
        "mail-type",
        "mem",
        "nice",
        "nodelist",
        "nodes",
        "switches",
        "time",
        "verbose",
        "wrap",
    ]
    texts = ["a100:4", "gpu:a100:2", "set", "END,FAIL", "4G", "100", "", "2-4", "2@00:10:00", "00:05:00", "1", "x"]
    rule = f"{'-' * 20} {'-' * 20}"
    told = [f"{name:<20}: {text}" for name, text in zip(names, texts, strict=True)]
    wanted = ["defined options", rule, *told, rule, "end of defined options"]
    assert run(capsys, *line.split(), "--wrap=x")[2].splitlines() == [f"sbatch: {line}" for line in wanted]
    assert run(capsys, "-v", "-Q", "--wrap=x")[::2] == (
        1,
        "sbatch: error: don't specify both --verbose (-v) and --quiet (-Q)\n",
    )


def test_what_is_carried_is_told_twice_verbose(capsys, monkeypatch):
    FakeClient(SubmitJob=SubmitJobReply(job_id=7)).install(monkeypatch)
    monkeypatch.setattr("cli.jobs.defined.soft_limits", lambda names: {"AS": -1, "CPU": 60})
    monkeypatch.setattr("cli.jobs.defined.current_umask", lambda: 0o27)
    told = [line for line in run(capsys, "-vv", "--wrap=x")[2].splitlines() if "debug" in line]
    assert told == [
        "sbatch: debug:  propagating RLIMIT_CPU=60",
        "sbatch: debug:  propagating RLIMIT_AS=18446744073709551615",
        "sbatch: debug:  propagating UMASK=0027",
    ]
    assert "debug" not in run(capsys, "-v", "--wrap=x")[2]


def test_a_status_of_ones_own_for_errors(capsys, monkeypatch):
    refusal = PenstockError(Code.INVALID_PARTITION, TEXT[Code.INVALID_PARTITION])
    ended = AwaitJobReply(exit=ExitStatus(code=1), state="FAILED")
    client = FakeClient(SubmitJob=refusal, AwaitJob=ended).install(monkeypatch)
    monkeypatch.setenv("SLURM_EXIT_ERROR", "77")
    assert run(capsys, "--wrap=x")[0] == 77
    assert run(capsys, "--foo")[0] == 255
    assert run(capsys, "-n", "x", "--wrap=x")[0] == 77
    assert run(capsys, write("job.sh", "#!/bin/sh\n#SBATCH --mem=x\n"))[0] == 255
    client.answers["SubmitJob"] = SubmitJobReply(job_id=1)
    assert run(capsys, "--wait", "--wrap=x")[0] == 1  # the job's own
    monkeypatch.setenv("SLURM_EXIT_ERROR", "-4")
    assert run(capsys, "-n", "x", "--wrap=x")[0] == 1


def test_one_cluster(client, capsys, monkeypatch):
    client.cluster = ClusterFile("tux")
    assert run(capsys, "-M", "tux", "--wrap=x") == (0, "Submitted batch job 123 on cluster tux\n", "")
    assert run(capsys, "--clusters=all", "--parsable", "--wrap=x") == (0, "123;tux\n", "")
    status, out, err = run(capsys, "-Mother", "--wrap=x")
    assert (status, out) == (1, "")
    assert err == (
        "sbatch: error: No cluster 'other' known by database.\n"
        "sbatch: error: 'other' can't be reached now, or it is an invalid entry for --cluster.  "
        "Use 'sacctmgr list clusters' to see available clusters.\n"
    )
    monkeypatch.setenv("SLURM_CLUSTERS", "tux")
    assert run(capsys, "--wrap=x")[1] == "Submitted batch job 123 on cluster tux\n"
    assert [method for method, _ in client.calls] == ["SubmitJob"] * 3


def test_fewer_tasks_than_nodes_are_fewer_nodes(client, capsys):
    warning = "sbatch: warning: can't run 2 processes on 4 nodes, setting nnodes to 2\n"
    assert run(capsys, "-n2", "-N4-8", "--wrap=x") == (0, "Submitted batch job 123\n", warning)
    assert asked(client) == {"ntasks": 2, "nodes_min": 2, "nodes_max": 2}


def test_the_umask_may_be_said(client, capsys, monkeypatch):
    monkeypatch.setenv("SLURM_UMASK", "0007")
    run(capsys, "--wrap=x")
    assert submitted(client).job.umask == 0o007
    monkeypatch.setenv("SLURM_JOB_ID", "5")  # then it is that of the job around us
    run(capsys, "--wrap=x")
    assert client.calls[-1][1].job.umask != 0o007
    monkeypatch.delenv("SLURM_JOB_ID")
    monkeypatch.setenv("SLURM_UMASK", "999")
    assert run(capsys, "--wrap=x")[0] == 1


def test_arguments_have_a_limit(client, capsys):
    status, _, err = run(capsys, write(), "x" * 1024 * 1024)
    assert (status, client.calls) == (1, [])
    assert err == "sbatch: error: Arguments of the script too large: 1048577 bytes, the limit is 1048576\n"


def test_long_texts_have_a_limit(client, capsys):
    for option in ("dependency", "constraint", "nodelist", "comment", "array"):
        status, _, err = run(capsys, f"--{option}={'x' * 1024 * 1024}", "--wrap=x")
        assert (status, client.calls) == (1, [])
        assert "the limit is" in err and len(err) < 500


def test_help_of_gres_names_what_there_is(monkeypatch, capsys):
    lines = [ConfigLine(key="GresTypes", value="gpu,shard")]
    FakeClient(ShowConfig=ShowConfigReply(lines=lines)).install(monkeypatch)
    shown = "Valid gres options are:\ngpu[[:type]:count]\nshard[[:type]:count]\n"
    assert run(capsys, "--gres=help", "--wrap=x") == (0, shown, "")
