"""Filters of options in sbatch, salloc and srun: what a script sees and changes, and what becomes of one that is wrong."""

import contextlib
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.base.run import CommandError
from cli.filters import beside
from cli.filters.hooks import OptionFilters
from cli.filters.texts import texts_of
from cli.jobs.components import parse_components
from cli.sbatch import COMMAND as SBATCH
from cli.steps.stepopts import COMMAND as SRUN
from penstock.clusterfile import ClusterFile, read_cluster, write_cluster


def cluster(tmp_path: Path, *names: str) -> ClusterFile:
    path = tmp_path / "cluster.json"
    write_cluster(path, ClusterFile("here", cli_filters=names))
    return read_cluster(path)


def script(tmp_path: Path, text: str, name: str = "cli_filter.lua") -> str:
    path = tmp_path / name
    path.write_text(text)
    path.chmod(0o644)
    return f"{'lua' if name.endswith('lua') else 'python'}:{path}"


def lua(tmp_path: Path, body: str, function: str = "slurm_cli_pre_submit(options, offset)") -> ClusterFile:
    return cluster(tmp_path, script(tmp_path, f"function {function}\n{body}\nreturn slurm.SUCCESS\nend\n"))


def plain_stderr() -> contextlib.AbstractContextManager[object]:
    """The file of the descriptor, as commands have it: a script's process keeps no other."""
    return contextlib.redirect_stderr(io.TextIOWrapper(io.FileIO(2, "w", closefd=False), line_buffering=True))


def run(file: ClusterFile, *words: str, command: Any = SBATCH) -> dict[str, str]:
    lines, _ = parse_components(command, list(words))
    with plain_stderr(), OptionFilters(command, file) as filters:
        found = filters.applied(lines)
        filters.submitted(7)
    return texts_of(command, found[0].values)


def failure(file: ClusterFile, *words: str) -> str:
    with pytest.raises(CommandError) as error:
        run(file, *words)
    return f"{error.value.text}\n{error.value.detail}".strip()


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def children() -> set[str]:
    """The processes of this one, with those that have ended; some are of other tests."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_a_common_script(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    function slurm_cli_setup_defaults(options, early)
        options['threads-per-core'] = 1
        if not early then options['time'] = '10' end
        options['array'] = '1-2'
        return slurm.SUCCESS
    end
    function slurm_cli_pre_submit(options, offset)
        local function unset(x) return x == nil or x == '-2' or x == 'unset' end
        if unset(options['gres']) and tonumber(options['cpus-per-task']) > 1 and unset(options['cores-per-socket']) then
            options['mem-per-cpu'] = math.floor(100.5)
        end
        if options['mem'] == '0?' then options.mem = nil end
        if options.hold == 'set' then options.hold = 'unset' end
        slurm.cli_store(1, options.type .. ' ' .. tostring(options.partition) .. ' ' .. options.time .. offset)
        slurm.log_info("%s", slurm.json_cli_options(options))
        assert(slurm.json_env():find('"PATH"'))
        options['no such option'] = 'x'
        options.requeue = true
        return slurm.SUCCESS
    end
    function slurm_cli_post_submit(offset, job_id, step_id)
        print(slurm.cli_retrieve(1), offset, job_id, step_id == slurm.NO_VAL)
        slurm.log_debug("not shown")
        return slurm.SUCCESS
    end
    """
    file = cluster(tmp_path, script(tmp_path, text))
    assert run(file, "-c2", "--mem=0", "--hold", "--time=2:00:00", "x.sh") == {
        "threads-per-core": "1", "array": "1-2", "cpus-per-task": "2", "mem-per-cpu": "100M", "time": "02:00:00",
        "requeue": "set",
    }  # fmt: skip
    said = capfd.readouterr()
    assert said.out == "sbatch nil 02:00:000\t0\t7\ttrue\n" and said.err.startswith("sbatch: lua: {")
    shown = json.loads(said.err.removeprefix("sbatch: lua: "))
    assert shown["type"] == "sbatch" and shown["cpus-per-task"] == "2" and "ntasks" not in shown
    # srun has no arrays; a script that asks is told so
    body = "slurm.log_error(options.array .. options.type)\ndo return slurm.ERROR end"
    lines, _ = parse_components(SRUN, ["x"])
    file = lua(tmp_path, body)
    with plain_stderr(), OptionFilters(SRUN, file) as filters, pytest.raises(CommandError) as error:
        filters.applied(lines)
    assert error.value.text == beside.TERMINATED and error.value.status == 1
    assert capfd.readouterr().err == "srun: error: lua: invalid-contextsrun\n"


def test_a_script_in_python_and_the_order_of_filters(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
from penstock.clifilter import Refuse, log_user
def setup_defaults(options, call):
    options["partition"] = "gpu"
def pre_submit(options, call):
    if "account" not in options:
        raise Refuse("name an account")
    log_user(f"{call.command} {call.component} {options}")
    options["comment"] = "seen"
    del options["qos"]
    options["time"] = None
def post_submit(call):
    log_user(f"job {call.job_id} {call.step_id}")
"""
    python = script(tmp_path, text, "filter.py")
    second = script(tmp_path, "function slurm_cli_pre_submit(o, n) o.comment = o.comment .. n return 0 end", "b.lua")
    file = cluster(tmp_path, python, second)
    assert run(file, "-Aa", "-qq", "-t5") == {"partition": "gpu", "account": "a", "comment": "seen0"}
    assert capfd.readouterr().err.splitlines() == [
        "sbatch: sbatch 0 {'partition': 'gpu', 'account': 'a', 'qos': 'q', 'time': '00:05:00'}", "sbatch: job 7 None",
    ]  # fmt: skip
    assert failure(file) == f"name an account\n{beside.TERMINATED}"
    # each component has its own
    lines, _ = parse_components(SBATCH, ["-Aa", "-qq", ":", "-Ab", "-qq", "x"])
    with OptionFilters(SBATCH, file) as filters:
        found = filters.applied(lines)
    assert [texts_of(SBATCH, one.values)["comment"] for one in found] == ["seen0", "seen1"]
    assert [sorted(one.given) for one in found] == [["comment"], ["comment"]]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("local x = options.nothing.at", "cli_filter.lua:2: attempt to index a nil value"),
        ("while true do end", "cli_filter.lua: pre_submit took longer than 1 s"),
        ("('x'):rep(1e7):find(('a*'):rep(30)..'b')", "cli_filter.lua: pre_submit took longer than 1 s"),
        ("os.exit(3)", "its process ended with status 3 in pre_submit"),
        ("options.partition = {}", "options['partition'] is neither a text nor a number"),
        ("do return 'x' end", "slurm_cli_pre_submit returned no number"),
        ("options.time = 'soon'", "a filter of options gives a wrong value"),
        ("options.mem, options['mem-per-cpu'] = 1, 1", "mutually exclusive"),
        ("options.container = 'x'", "not supported yet"),
    ],
)
def test_what_a_script_does_wrong_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    monkeypatch.setattr(beside, "CALL_S", 1.0 if "took" in said else 30.0)  # what is called before has to answer
    assert said in failure(lua(tmp_path, body), "x.sh")


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    gone = cluster(tmp_path, f"lua:{tmp_path}/gone.lua")
    assert "gone.lua: No such file or directory" in failure(gone)
    bad = script(tmp_path, "function (")
    assert "cli_filter.lua:1: " in failure(cluster(tmp_path, bad))
    assert "has none of slurm_cli_setup_defaults" in failure(cluster(tmp_path, script(tmp_path, "x = 1")))
    (tmp_path / "cli_filter.lua").chmod(0o666)
    assert "chmod go-w" in failure(cluster(tmp_path, bad))
    assert "SyntaxError" not in failure(cluster(tmp_path, script(tmp_path, "def (", "a.py")))
    assert "no filter of options 'lua'" in failure(cluster(tmp_path, "lua"))
    (tmp_path / "cluster.json").write_text('{"version": 1, "controller": {}, "cli_filters": "lua"}')
    with pytest.raises(Exception, match="must be a list of texts"):
        read_cluster(tmp_path / "cluster.json")


FAULTS = {
    "raises": "error('broken')", "hangs": "while true do end", "ends": "os.exit(3)", "value": "options.time = 'soon'",
    "type": "options.partition = {}",
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_a_site_may_continue_without_a_script_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    """It is reported once, the other filters are asked, and a refusal holds."""
    monkeypatch.setattr(beside, "CALL_S", 1.0 if kind == "hangs" else 30.0)  # the other filters have to answer, too
    told = "function slurm_cli_post_submit(o, j, s) print('told') return 0 end"
    first = script(
        tmp_path,
        f"function slurm_cli_pre_submit(options, n)\noptions.qos = 'x'\n{FAULTS[kind]}\nreturn 0 end\n{told}",
        "a.lua",
    )
    second = script(tmp_path, "function slurm_cli_pre_submit(o, n) o.comment = 'seen' return 0 end", "b.lua")
    file = cluster(tmp_path, f"accept:{first}", f"accept:{second}")
    assert run(file, "-n2", ":", "-n3", "x.sh") == {"ntasks": "2", "comment": "seen"}
    said = capfd.readouterr()
    assert "told" not in said.out and said.err.count("\n") == 1
    assert said.err.startswith(
        f"sbatch: warning: the filter of options {tmp_path}/a.lua has failed, and is not asked: "
    )
    failure(cluster(tmp_path, first, second), "x.sh")  # as Slurm's
    monkeypatch.setattr(beside, "CALL_S", 30.0)
    refusing = script(tmp_path, "function slurm_cli_pre_submit(o, n) return slurm.ERROR end", "c.lua")
    assert beside.TERMINATED in failure(cluster(tmp_path, f"accept:{refusing}"), "x.sh")


def test_a_script_that_cannot_be_loaded_may_be_passed_over(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    open_to_others = script(tmp_path, "x = 1", "open.lua")
    (tmp_path / "open.lua").chmod(0o666)
    for name, why in (
        (f"lua:{tmp_path}/gone.lua", "No such file"), (open_to_others, "chmod go-w"), (script(tmp_path, "function ("), "cli_filter.lua:1: "),
        (script(tmp_path, "def (", "a.py"), "a.py"),
    ):  # fmt: skip
        assert run(cluster(tmp_path, f"accept:{name}"), "-n2", "x.sh") == {"ntasks": "2"}
        said = capfd.readouterr().err
        assert said.count("\n") == 1 and "has failed, and is not asked: " in said and why in said, said


def test_a_script_that_ends_between_two_calls(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = lua(tmp_path, "error('too late')", "slurm_cli_post_submit(offset, job_id, step_id)")
    assert run(file) == {}  # the job stays
    assert "too late" in capfd.readouterr().err
    process = beside.BesideProcess(SBATCH, "lua", file.cli_filters[0].removeprefix("lua:"), 0)
    process.ask("pre_submit", options={}, component=0)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(CommandError, match="was ended by signal 9 in post_submit"):
        process.ask("post_submit", component=0, job_id=1, step_id=None)
    process.close()


def test_defaults_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = cluster(tmp_path, "user_defaults")
    assert run(file, "-n2") == {"ntasks": "2"}
    (tmp_path / ".slurm").mkdir()
    path = tmp_path / ".slurm" / "defaults"
    path.write_text(
        "# mine\npartition = gpu\nsalloc:qos=x\nsbatch:here:time=2:00\n*:there:account=a\nhere:comment = a=b\n"
        "hold=\nmpi=pmix\nntasks=9\n"
    )
    assert run(file, "-n2") == {
        "partition": "gpu", "time": "00:02:00", "comment": "a=b", "hold": "set", "ntasks": "2",
    }  # fmt: skip
    path.write_text("partition=a\na:b:c:d=1\n")
    assert failure(file).startswith(f"{path}:2: expected [COMMAND:][CLUSTER:]OPTION=VALUE")
    path.write_text("sbatch:mpi=pmix\n")
    assert failure(file).startswith(f"{path}:1: sbatch has no option --mpi")
    path.write_text("time=soon\n")
    assert "~/.slurm/defaults" in failure(file)
    path.write_text("x" * 70_000)
    assert "larger than 65536 bytes" in failure(file)


def test_the_machines_log_gets_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[tuple[int, str]] = []
    monkeypatch.setattr("syslog.syslog", lambda level, text: lines.append((level, text)))
    run(cluster(tmp_path, "syslog"), "-n2", "x.sh")
    assert [json.loads(text) for _, text in lines] == [
        {"command": "sbatch", "jobid": 7, "options": {"ntasks": "2"}}
    ]  # fmt: skip


def test_nothing_is_done_without_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("cli.filters.texts.texts_of", fail)
    assert run(cluster(tmp_path), "-n2") == {"ntasks": "2"}
