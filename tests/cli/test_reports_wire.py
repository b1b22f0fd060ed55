"""squeue, sinfo and sacct as processes: the real client, real sockets, what they import."""

import os
import subprocess
import sys

import pytest
from patience import ANSWER_S

from tests.cli.fake_controller import ROOT, run_command
from tests.cli.reports import ReportServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = ReportServer(tmp_path_factory.mktemp("reports"))
    yield made
    made.close()


def command(server, name, *argv):
    done = run_command(name, *argv, env={b"PENSTOCK_CLUSTER": os.fsencode(server.cluster_file), b"TZ": b"UTC"})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_squeue(server):
    assert command(server, "squeue", "-h", "-o", "%i %t", "-t", "all", "-S", "i") == (
        0, "1 R\n2_5 R\n2_7 R\n2_[9-99:2%3] PD\n3 PD\n4 F\n8 PD\n9 CD\n", "",
    )  # fmt: skip
    assert command(server, "squeue", "-j", "77") == (1, "", "slurm_load_jobs error: Invalid job id specified\n")


def test_sinfo(server):
    assert command(server, "sinfo", "-h", "-o", "%P|%F|%N") == (0, "main*|3/2/1/6|n[1-6]\ngpu|2/0/0/2|n[1-2]\n", "")


def test_sacct(server):
    status, shown, wrong = command(server, "sacct", "-X", "-n", "-P", "-o", "JobID,State", "-j", "20")
    assert (status, wrong) == (0, "")
    assert shown.splitlines()[:3] == ["20|COMPLETED", "21|CANCELLED by 1000", "22|CANCELLED by 0"]


def test_a_reader_that_goes_away_is_no_error(server):
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PENSTOCK_CLUSTER": str(server.cluster_file)}
    line = f"{sys.executable} -m cli.sacct -o jobid%60000,jobname%60000 | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=env, capture_output=True, timeout=ANSWER_S, check=False)
    assert done.stderr == b""
    assert done.stdout in (b"141\n", b"0\n")


@pytest.mark.parametrize("name", ["squeue", "sinfo", "sacct"])
def test_no_cluster_no_traceback(name, tmp_path):
    done = run_command(name, env={b"PENSTOCK_CLUSTER": os.fsencode(tmp_path / "none.json")})
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(f"{name}: error: no cluster found".encode())


@pytest.mark.parametrize("name", ["squeue", "sinfo", "sacct"])
def test_imports_stay_small(server, name):
    code = (
        "import sys\n"
        f"from cli.base.run import status_of\nfrom cli.{name} import body\n"
        f"status = status_of('{name}', body, ['-h'] if '{name}' != 'sacct' else ['-n'])\n"
        "banned = {'numpy', 'sqlalchemy', 'cryptography', 'click', 'msgspec', 'psutil', 'ctld', 'nodedaemon'}\n"
        "print(status, sorted(banned & set(sys.modules)), file=sys.stderr)\n"
    )
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PENSTOCK_CLUSTER": str(server.cluster_file)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=ANSWER_S, check=True)
    assert done.stderr == b"0 []\n"
