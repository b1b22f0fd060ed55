"""#PBS and #BSUB lines as options of sbatch. The tables were compared with what Slurm's own sbatch makes of them."""

import pytest
from google.protobuf.json_format import MessageToDict

from cli.sbatch import body
from penstock.v1.controller_pb2 import SubmitJobReply
from tests.cli.fake_controller import FakeClient, run_body

CARRIED = ("submit_line", "submit_host", "submit_dir", "rlimits", "umask", "work_dir", "command", "name")


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


@pytest.fixture
def client(monkeypatch):
    return FakeClient(SubmitJob=SubmitJobReply(job_id=1)).install(monkeypatch)


def submit(capsys, lines, *argv):
    with open("job.sh", "w") as file:
        file.write(f"#!/bin/sh\n{lines}\ntrue\n#PBS -q late\n")
    return run_body(capsys, "sbatch", body, *argv, "job.sh")


def asked(client):
    job = MessageToDict(client.request.job, preserving_proto_field_name=True)
    return {key: value for key, value in job.items() if key not in CARRIED}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-A acc -q batch", {"account": "acc", "partitions": ["batch"]}),
        ("-a 202901021530", {"begin_at_us": "1862062200000000"}),
        ("-a 2901021530.20", {"begin_at_us": "1862062220000000"}),
        ("-e host:/tmp/e -o out", {"std_err": "L3RtcC9l", "std_out": "b3V0"}),
        ("-h", {"hold": True}),
        ("-j oe -k oe -V -I -z -c n -C x -S /bin/sh -u me", {}),
        ("-J 1-3", {"array": "1-3"}),
        ("-t 1-3%2", {"array": "1-3%2"}),
        ("-m abe -M me@x", {"mail_types": ["BEGIN", "END", "FAIL"], "mail_user": "me@x"}),
        ("-m n", {}),
        ("-p 10", {"nice": 10}),
        ("-r n", {"requeue": False}),
        ("-r y", {"requeue": True}),
        ("-v A=1,B", {"export_env": "A=1,B"}),
        ("-W depend=afterok:5 -W umask=022", {"dependency": "afterok:5"}),
        ("-l walltime=10:00", {"time_limit_s": "600"}),
        ("-l walltime=3600", {"time_limit_s": "216000"}),  # minutes, as in Slurm
        ("-l mem=4gb", {"mem_per_node_mb": "4096"}),
        ("-l mem=100kb", {"mem_per_node_mb": "1"}),
        ("-l mem=100", {"mem_per_node_mb": "100"}),
        ("-l mem=1gw", {"mem_per_node_mb": "8192"}),
        ("-l file=10gb -l nice=5", {"tmp_disk_mb": "10240", "nice": 5}),
        ("-lnodes=2", {"nodes_min": 2, "nodes_max": 2}),
        ("-l nodes=2:ppn=4,mem=1gb", {"nodes_min": 2, "nodes_max": 2, "ntasks": 8, "mem_per_node_mb": "1024"}),
        ("-l nodes=n1+n2", {"nodes_required": "n1,n2"}),
        (
            "-l nodes=1:ppn=2:gpus=2:bigmem",
            {
                "nodes_min": 1, "nodes_max": 1, "ntasks": 2, "features": "bigmem",
                "gres_per_node": [{"name": "gpu", "count": "2"}],
            },
        ),
        ("-l ncpus=8,mpiprocs=3", {"mincpus": 8, "ntasks_per_node": 3}),
        ("-l naccelerators=2", {"gres_per_node": [{"name": "gpu", "count": "2"}]}),
        ("-l accelerator=True", {"gres_per_node": [{"name": "gpu", "count": "1"}]}),
        ("-l proc=knl", {"features": "knl"}),
        (
            "-l select=2:ncpus=4:mpiprocs=2:mem=2gb:ngpus=1",
            {
                "nodes_min": 2, "nodes_max": 2, "mincpus": 4, "ntasks_per_node": 2, "cpus_per_task": 2,
                "mem_per_node_mb": "2048", "gres_per_node": [{"name": "gpu", "count": "1"}],
            },
        ),
        ("-l foo=1,software=x,vmem=2gb", {}),
    ],
)  # fmt: skip
def test_pbs(client, capsys, monkeypatch, line, expected):
    monkeypatch.setenv("TZ", "UTC")
    import time

    time.tzset()
    assert submit(capsys, f"#PBS {line}") == (0, "Submitted batch job 1\n", "")
    assert asked(client) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-q q -n 4", {"partitions": ["q"], "ntasks": 4}),
        ("-n 4,8", {"ntasks": 8}),
        ("-W 10", {"time_limit_s": "600"}),
        ("-o out -e err", {"std_out": "b3V0", "std_err": "ZXJy"}),
        ("-M 4000", {"mem_per_cpu_mb": "4"}),
        ("-M 4GB", {"mem_per_cpu_mb": "4096"}),
        ("-m 'n1 n2' -x", {"nodes_required": "n1,n2", "exclusive": True}),
    ],
)
def test_lsf(client, capsys, line, expected):
    assert submit(capsys, f"#BSUB {line}") == (0, "Submitted batch job 1\n", "")
    assert asked(client) == expected


def test_where_they_stand_among_the_others(client, capsys, monkeypatch):
    def name_of(lines, *argv):
        client.calls.clear()
        submit(capsys, lines, *argv)
        return client.request.job.name

    both = "#PBS -N p\n#SBATCH -J s"
    assert name_of(both) == "p"
    assert name_of(f"{both}\n#BSUB -J b") == "b"
    assert name_of(f"{both}\n#BSUB -n 3") == "s"  # a script of LSF's: its #PBS lines are not read
    assert name_of(both, "--job-name=line") == "line"
    monkeypatch.setenv("SBATCH_JOB_NAME", "env")
    assert name_of(both) == "env"
    monkeypatch.delenv("SBATCH_JOB_NAME")
    assert name_of(both, "--ignore-pbs") == "s"
    assert name_of(f"#SBATCH --ignore-pbs\n{both}") == "s"
    assert name_of("# PBS -N x") == "job.sh"


@pytest.mark.parametrize(
    ("line", "expected", "text"),
    [
        (
            "#PBS -x",
            1,
            "sbatch: error: invalid option -- 'x'\nsbatch: error: Unrecognized #PBS line 2: -x; --ignore-pbs",
        ),
        ("#BSUB -R span[ptile=2]", 1, "Unrecognized #BSUB line 2: -R span[ptile=2]; --ignore-pbs leaves"),
        ("#PBS -l walltime=soon", 255, "Invalid --time specification"),
        ("#PBS -l nodes=99999999999999999999", 1, "Invalid count in a #PBS line: '9999"),
    ],
)
def test_what_cannot_be_read_is_an_error(client, capsys, line, expected, text):
    status, out, err = submit(capsys, line)
    assert (status, out, client.calls) == (expected, "", [])
    assert text in err
