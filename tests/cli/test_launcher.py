"""Commands through the command server: the same as in plain Python, whatever their process is like."""

import json
import os
import pty
import resource
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from launched import Launched, build, kill, state_of, told, wait_for
from patience import ANSWER_S

from penstock.v1 import controller_pb2 as pb
from penstock.v1.common_pb2 import ExitStatus
from tests.cli.fake_controller import WireController

VERSION = b"slurm 25.05.0\n"
#: The environment of a job's script.
IN_JOB = {b"SLURM_JOB_ID": b"7", b"SLURMD_NODENAME": b"n1", b"SLURM_PROCID": b"0"}


class Controller:
    """Answers; an AwaitJob waits for `ends` and says that it is there by `awaited`."""

    def __init__(self, folder: Path) -> None:
        self.ends, self.awaited = threading.Event(), threading.Event()
        self.ids = iter(range(1, 100_000))
        answers = {"SubmitJob": self.submit, "AwaitJob": self.wait}
        self.wire = WireController(folder, answers)

    def submit(self, request):
        return pb.SubmitJobReply(job_id=next(self.ids))

    def wait(self, request):
        self.awaited.set()
        self.ends.wait(ANSWER_S)
        return pb.AwaitJobReply(exit=ExitStatus(code=3), state="FAILED")

    @property
    def job(self):
        """The one job that was submitted."""
        ((_, request),) = [one for one in self.wire.requests if one[0] == "SubmitJob"]
        return request


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    made = Controller(tmp_path_factory.mktemp("c"))
    yield made
    made.ends.set()
    made.wire.close()


@pytest.fixture(scope="module")
def launched(tmp_path_factory, controller):
    made = Launched(tmp_path_factory.mktemp("l"), build(tmp_path_factory.mktemp("b")), controller.wire.cluster_file)
    yield made
    made.close()


@pytest.fixture
def served(launched, controller):
    """A server is there, and nothing was noted yet."""
    launched.pid = launched.warm()
    controller.wire.requests.clear()
    controller.ends.clear()
    controller.awaited.clear()
    yield launched
    controller.ends.set()


def result(done):
    return done.returncode, done.stdout, done.stderr


def test_the_first_call_runs_plain_and_starts_a_server(launched):
    with tempfile.TemporaryDirectory() as short:  # pytest's own folders are too long for a socket's name
        _starts_a_server(launched, Path(short))


def _starts_a_server(launched, place: Path) -> None:
    fresh = {b"XDG_RUNTIME_DIR": os.fsencode(place)}
    launched.starts()
    assert result(launched.run("squeue", "-V", env=fresh)) == (0, VERSION, b"")
    folder = place / "penstock"
    path = wait_for(lambda: next((p for p in folder.glob("*") if p.is_socket()), None), "a server's socket")
    pid = wait_for(lambda: launched.server(path), "a server")
    assert sorted(launched.starts()) == ["server", "squeue"]
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    assert result(launched.run("squeue", "-V", env=fresh)) == (0, VERSION, b"")
    assert launched.starts() == []
    kill(pid)


def test_output_errors_and_statuses_are_those_of_plain_python(served, tmp_path):
    bad = tmp_path / "bad.sh"
    bad.write_text("#!/bin/sh\n#SBATCH --no-such\n")
    for words in (["squeue", "--help"], ["squeue", "--nope"], ["sbatch", str(bad)], ["sbatch", "/nonexistent/x"]):
        assert result(served.run(*words)) == result(served.plain(*words))
        assert len(served.starts()) == 1  # that of the plain one
    assert served.run("sbatch", str(bad)).returncode == 255


def test_what_the_process_is_like_arrives(served, controller, tmp_path):
    folder = os.path.join(os.fsencode(tmp_path), b"d\xff")
    os.mkdir(folder)
    odd = {b"BIN": b"\xff\n=x", b"EMPTY": b"", b"TZ": b"UTC-3"}
    done = served.run("sbatch", b"--comment=caf\xc3\xa9", "--wrap", b"echo \xfe", env=odd, cwd=folder, umask=0o027)
    assert done.returncode == 0 and done.stdout.startswith(b"Submitted batch job "), done
    assert served.starts() == []
    request = controller.job
    assert (request.job.work_dir, request.job.umask, request.job.comment) == (folder, 0o027, "café")
    assert {b"BIN=\xff\n=x", b"EMPTY=", b"TZ=UTC-3"} <= set(request.spec.environment)
    assert not any(line.startswith((b"PENSTOCK_COMMAND", b"XDG_SESSION")) for line in request.spec.environment)
    assert request.spec.script.endswith(b"echo \xfe\n")


def test_two_calls_share_nothing(served, controller):
    served.run("sbatch", "--wrap=x", env={b"ONE": b"1", b"SBATCH_ACCOUNT": b"first"}, umask=0)
    served.run("sbatch", "--wrap=x", env={b"TWO": b"2"}, umask=0o077)
    assert served.starts() == []
    (_, first), (_, second) = controller.wire.requests
    assert b"ONE=1" in first.spec.environment and b"ONE=1" not in second.spec.environment
    assert (first.job.account, second.job.account, first.job.umask, second.job.umask) == ("first", "", 0, 0o077)


def test_a_working_directory_that_is_gone(served, tmp_path):
    gone = tmp_path / "gone"
    code = 'mkdir "$1"; cd "$1"; rmdir "$1"; exec "$0" --wrap true'
    for switch in (b"0", b""):
        env = served.env | {b"PENSTOCK_COMMAND_SERVER": switch}
        done = subprocess.run(
            ["sh", "-c", code, served.bin / "sbatch", gone], env=env, capture_output=True, timeout=ANSWER_S
        )
        assert done.returncode == 1 and b"no longer exists" in done.stderr
    assert served.starts() == ["sbatch"]


@pytest.mark.parametrize("way", ["file", "pipe", "substitution"])
def test_scripts_from_elsewhere(served, controller, tmp_path, way):
    script = tmp_path / "s"
    script.write_bytes(b"#!/bin/sh\n#SBATCH -J told\ntrue\n" + b"#" * 3_000_000)
    line = {"file": '"$0" < "$1"', "pipe": 'cat "$1" | "$0"', "substitution": '"$0" <(cat "$1")'}[way]
    done = subprocess.run(
        ["bash", "-c", line, served.bin / "sbatch", script], env=served.env, capture_output=True, timeout=ANSWER_S
    )
    assert (done.returncode, done.stderr) == (0, b"") and served.starts() == []
    assert (controller.job.job.name, controller.job.spec.script) == ("told", script.read_bytes())


def test_an_environment_on_a_descriptor(served, controller):
    line = '"$0" --export-file=9 --wrap=x 9< <(printf "A=1\\0B=2\\0")'
    subprocess.run(["bash", "-c", line, served.bin / "sbatch"], env=served.env, check=True, timeout=ANSWER_S)
    assert {b"A=1", b"B=2"} <= set(controller.job.spec.environment) and served.starts() == []


def test_many_open_files(served, controller, tmp_path):
    path = tmp_path / "f"
    path.touch()
    for count, started in ((20, []), (60, ["sbatch"])):
        files = [os.open(path, os.O_RDONLY) for _ in range(count)]
        assert served.run("sbatch", "--wrap=x", pass_fds=files).returncode == 0
        for file in files:
            os.close(file)
        assert served.starts() == started


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(served, closed):
    served.starts()
    for words in ("--wrap=x", "--nope"):
        both = []
        for switch in (b"0", b""):
            line = f'"$0" {words} --parsable {closed}'
            env = served.env | {b"PENSTOCK_COMMAND_SERVER": switch}
            done = subprocess.run(
                ["sh", "-c", line, served.bin / "sbatch"], env=env, capture_output=True, timeout=ANSWER_S
            )
            both.append((done.returncode, bool(done.stdout), done.stderr))
        assert both[0] == both[1]


def test_a_reader_that_goes_away(served):
    for run in (served.plain, served.run):
        reader, writer = os.pipe()
        os.close(reader)
        done = run("squeue", "--help", stdout=writer, stderr=subprocess.PIPE, capture_output=False)
        os.close(writer)
        assert (done.returncode, done.stderr) == (141, b"")
    assert served.starts() == ["squeue"]


def test_limits_are_the_callers(served, controller):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)

    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (311, most))

    before = set(served.sockets())
    assert served.run("sbatch", "--wrap=x", preexec_fn=lower).returncode == 0
    assert controller.job.job.rlimits["NOFILE"] == 311
    assert sorted(served.starts())[0] == "sbatch"  # not by the server of other limits
    (path,) = wait_for(lambda: set(served.sockets()) - before, "another server")
    pid = wait_for(lambda: served.server(path), "it listens")
    served.starts()
    controller.wire.requests.clear()
    assert served.run("sbatch", "--wrap=x", preexec_fn=lower).returncode == 0
    assert controller.job.job.rlimits["NOFILE"] == 311 and served.starts() == []
    kill(pid)


@pytest.mark.parametrize(
    "environment",
    [
        {b"SLURM_JOB_ID": b"7", b"SLURMD_NODENAME": b"n1"},  # a program of the site
        IN_JOB | {b"SLURM_MEM_PER_NODE": b"511"},
        IN_JOB | {b"SLURM_MEM_PER_CPU": b"255", b"SLURM_CPUS_ON_NODE": b"2"},
        {b"PENSTOCK_COMMAND_SERVER": b"0"},
        {b"LD_PRELOAD": b"libc.so.6"},
    ],
)
def test_when_nothing_is_served(served, environment):
    assert result(served.run("squeue", "-V", env=environment)) == (0, VERSION, b"")
    assert served.starts() == ["squeue"]


def test_a_shell_of_salloc_has_the_logins_server(served):
    assert result(served.run("squeue", "-V", env={b"SLURM_JOB_ID": b"7"})) == (0, VERSION, b"")
    assert served.starts() == []


def test_a_job_has_a_server_of_its_own_from_the_second_call_on(served):
    for changed in ({}, {b"SLURM_JOB_ID": b"8"}, {b"SLURM_STEP_ID": b"0"}, {b"SLURMD_NODENAME": b"n2"}):
        before = set(served.sockets())
        for started in (["squeue"], ["server", "squeue"]):
            assert result(served.run("squeue", "-V", env=IN_JOB | changed)) == (0, VERSION, b"")
            wait_for(lambda known=started: sorted(served.peek()) == known, f"starts {started}")
            served.starts()
        (path,) = wait_for(lambda known=before: set(served.sockets()) - known, "the job's server")
        pid = wait_for(lambda where=path: served.server(where), "it listens")
        served.starts()
        assert result(served.run("squeue", "-V", env=IN_JOB | changed)) == (0, VERSION, b"")
        assert served.starts() == []
        kill(pid)


def test_a_jobs_server_that_was_killed(served):
    env = IN_JOB | {b"SLURM_JOB_ID": b"9"}
    before = set(served.sockets())
    for _ in range(2):
        served.run("squeue", "-V", env=env)
    (path,) = wait_for(lambda: set(served.sockets()) - before, "the job's server")
    kill(wait_for(lambda: served.server(path), "it listens"))
    assert result(served.run("squeue", "-V", env=env)) == (0, VERSION, b"")
    # A worker of the killed one may still have closed its socket a moment later: then the next call starts another.
    kill(wait_for(lambda: served.run("squeue", "-V", env=env) and served.server(path), "another one"))
    served.starts()


def test_the_users_python_settings_mean_nothing(served, tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "__init__.py").write_text("raise SystemExit('not ours')")
    env = {b"PYTHONPATH": os.fsencode(tmp_path), b"PYTHONHOME": b"/nonexistent"}
    for run in (served.plain, served.run):
        assert result(run("squeue", "-V", env=env, cwd=tmp_path)) == (0, VERSION, b"")


def test_a_large_environment(served, controller):
    lines = {b"V%d" % n: b"x" * 100_000 for n in range(15)}
    done = served.run("sbatch", "--export=V1", "--wrap=x", env=lines)
    assert done.returncode == 0, done
    assert b"V1=" + b"x" * 100_000 in controller.job.spec.environment
    assert served.starts() == []


def test_commands_that_last(served, controller):
    """Served; on a terminal they run in a process of their own."""
    assert served.run("squeue", "-i", "0").returncode == 1
    process = served.start("sbatch", "--wait", "--wrap=x")
    assert controller.awaited.wait(ANSWER_S)
    assert served.starts() == []
    controller.ends.set()
    assert process.communicate(timeout=ANSWER_S)[1] == b"" and process.returncode == 3
    assert len(controller.wire.requests) == 2  # submitted once
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(served.bin / "sbatch", ["sbatch", "--wait", "--wrap=x"], served.env)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    os.close(terminal)
    assert served.starts() == ["sbatch"]


def test_calls_that_last_do_not_count(tmp_path_factory, controller):
    """A server of two calls at a time serves any number that wait, and one more."""
    few = Launched(tmp_path_factory.mktemp("l"), build(tmp_path_factory.mktemp("b")), controller.wire.cluster_file)
    code = few.code / "cli/commandserver/server.py"
    code.write_text(code.read_text().replace("WORKERS_MAX: Final = 64", "WORKERS_MAX: Final = 2"))
    controller.ends.clear()
    controller.wire.requests.clear()
    try:
        few.warm()
        processes = []
        for count in range(1, 6):
            processes.append(few.start("sbatch", "--wait", "--wrap=x"))
            wait_for(lambda n=count: [name for name, _ in controller.wire.requests].count("AwaitJob") == n, "it waits")
        assert result(few.run("squeue", "-V")) == (0, VERSION, b"")
        assert few.starts() == []
        controller.ends.set()
        assert {process.wait(ANSWER_S) for process in processes} == {3}
    finally:
        controller.ends.set()
        few.close()


@pytest.fixture
def waiting(served, controller, tmp_path):
    """A served command that waits: its script says so, which only its child could know."""
    script = tmp_path / "w.sh"
    script.write_text("#!/bin/sh\n#SBATCH --wait\n")

    def start(**options):
        process = served.start("sbatch", str(script), **options)
        assert controller.awaited.wait(ANSWER_S)
        assert served.starts() == []
        return process

    return start


def worker_of(process) -> int:
    """Who serves it: the launcher holds a handle of its process."""
    for file in Path(f"/proc/{process.pid}/fdinfo").iterdir():
        for line in file.read_text().splitlines():
            if line.startswith("Pid:"):
                return int(line.split()[1])
    raise AssertionError("no pidfd")


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGHUP, -1), (signal.SIGQUIT, -3), (signal.SIGUSR1, -10)],
)
def test_signals_and_what_the_shell_sees(served, waiting, number, status):
    process = waiting()
    child = worker_of(process)
    process.send_signal(number)
    try:
        errors = process.communicate(timeout=ANSWER_S)[1]
    except subprocess.TimeoutExpired:
        pytest.fail("it does not end:\n" + "\n".join(map(told, (process.pid, child, served.pid))))
    assert (errors, process.returncode) == (b"", status)
    wait_for(lambda: state_of(child) == "", "the child is gone")


def test_ignored_signals_stay_ignored(waiting, controller):
    process = waiting(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    controller.ends.set()
    assert process.wait(ANSWER_S) == 3


def test_a_launcher_that_is_killed_takes_its_child_with_it(served, waiting):
    process = waiting()
    child = worker_of(process)
    process.kill()
    process.wait()
    wait_for(lambda: state_of(child) == "", "the child is gone")
    assert result(served.run("squeue", "-V")) == (0, VERSION, b"")
    assert served.starts() == []


def test_a_child_that_is_killed(served, waiting):
    process = waiting()
    child = worker_of(process)
    os.kill(child, signal.SIGKILL)
    errors = process.communicate(timeout=ANSWER_S)[1]
    assert (
        errors
        == b"sbatch: error: the process that ran it was killed: it is not known whether the command was carried out\n"
    )
    assert process.returncode == 1


def test_a_server_that_is_killed_meanwhile(served, waiting, controller):
    """Its child is a process of its own and ends as it would."""
    process = waiting()
    kill(served.pid)
    controller.ends.set()
    assert process.wait(ANSWER_S) == 3


def test_stop_and_continue(served, waiting, controller):
    process = waiting(process_group=0)
    child = worker_of(process)
    process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTSTP
    wait_for(lambda: state_of(child) == "T", "the child stops")
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: state_of(child) == "S", "the child goes on")
    controller.ends.set()
    assert process.wait(ANSWER_S) == 3


def test_ctrl_c_on_a_terminal(served, controller, tmp_path):
    script = tmp_path / "w.sh"
    script.write_text("#!/bin/sh\n#SBATCH --wait\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(served.bin / "sbatch", ["sbatch", str(script)], served.env)
    assert controller.awaited.wait(ANSWER_S) and served.starts() == []
    os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    shown = os.read(terminal, 1000)
    assert b"Submitted batch job" in shown
    os.close(terminal)


def test_a_script_typed_on_a_terminal(served, controller):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(served.bin / "sbatch", ["sbatch"], served.env)
    os.write(terminal, b"#!/bin/sh\ntrue\n\x04")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    assert controller.job.spec.script == b"#!/bin/sh\ntrue\n"
    assert served.starts() == ["sbatch"]


def test_eight_shells_at_a_time(served, controller, tmp_path):
    loop = 'i=0; while [ $i -lt 25 ]; do "$0" --parsable --wrap="shell $1 call $i" || exit 1; i=$((i+1)); done'
    shells = [
        subprocess.Popen(["sh", "-c", loop, served.bin / "sbatch", str(n)], env=served.env, stdout=subprocess.PIPE)
        for n in range(8)
    ]
    ids = [int(word) for shell in shells for word in shell.communicate(timeout=ANSWER_S)[0].split()]
    assert [shell.returncode for shell in shells] == [0] * 8
    assert len(set(ids)) == 200
    scripts = {request.spec.script.rpartition(b"shell ")[2] for _, request in controller.wire.requests}
    assert scripts == {b"%d call %d\n" % (n, i) for n in range(8) for i in range(25)}
    assert served.starts() == []


def test_a_document_names_the_command_however_it_runs(served, tmp_path):
    path = tmp_path / "jobcomp"
    path.touch()
    for call in (served.run, served.plain):
        done = call("sacct", "--json", "-f", str(path))
        assert json.loads(done.stdout)["meta"]["command"] == ["sacct", "--json", "-f", str(path)]
