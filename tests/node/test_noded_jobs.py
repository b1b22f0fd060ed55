"""Real scripts through a real node daemon: output files, exits, signals, limits, and nothing left behind."""

import asyncio
import os
import signal
import uuid

import pytest

from penstock.v1 import common_pb2, node_pb2
from tests.node.fakectl import cluster, eventually, lines, processes_with


def run(coroutine):
    return asyncio.run(coroutine)


def where(tmp_path, **fields):
    return {"work_dir": str(tmp_path).encode(), **fields}


def test_a_script_runs_with_arguments_environment_and_exit_code(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            script = 'echo "$0|$1|$2|$X"; echo err >&2; exit 7'
            launch = controller.launch(
                5, script, argv=[b"a b", b"\xff"], env=[b"X=\xfe y"], **where(tmp_path, std_err=b"e-%j.txt")
            )
            assert await controller.acked(launch) == ""
            end = await controller.exited(5)
            assert (end.exit.code, end.exit.signal, end.failure) == (7, 0, "")
            assert 0 < end.start_at_us <= end.end_at_us
            (start,) = controller.starts(5)
            assert start.at_us == end.start_at_us and start.pid > 0
            out = (tmp_path / "slurm-5.out").read_bytes()
            path = daemon.spool / "steps" / "5.1.-5" / "slurm_script"
            assert out == str(path).encode() + b"|a b|\xff|\xfe y\n"
            assert (tmp_path / "e-5.txt").read_bytes() == b"err\n"
            assert path.stat().st_mode & 0o777 == 0o500
            assert await controller.acked(controller.forget(5)) == ""
            await eventually(lambda: not daemon.folders())
            assert len(controller.exits(5)) == 1

    run(scenario())


def test_death_by_signal_is_told_as_a_signal(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch(1, "kill -SEGV $$", **where(tmp_path))
            end = await controller.exited(1)
            assert (end.exit.code, end.exit.signal) == (0, signal.SIGSEGV)

    run(scenario())


def test_output_patterns_array_tasks_and_open_modes(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            facts = node_pb2.JobFacts(job_name="../x", array_job_id=40, array_task_id=3, array_task_count=9)
            controller.launch(42, "echo one", facts=facts, **where(tmp_path))
            controller.launch(43, "echo two", facts=facts, **where(tmp_path, std_out=b"%x-%A-%5a-%N-%u-%%.txt"))
            await controller.exited(42)
            await controller.exited(43)
            assert (tmp_path / "slurm-40_3.out").read_text() == "one\n"
            safe_name = next(p.name for p in tmp_path.iterdir() if p.name.endswith("-40-00003-n1-user-%.txt"))
            assert "/" not in safe_name and not safe_name.startswith(".")
            (tmp_path / "kept").write_text("old\n")
            (tmp_path / "cut").write_text("old\n")
            controller.launch(44, "echo new", **where(tmp_path, std_out=b"kept", open_append=True))
            controller.launch(45, "echo new", **where(tmp_path, std_out=b"cut"))
            await controller.exited(44)
            await controller.exited(45)
            assert lines(tmp_path / "kept") == ["old", "new"]
            assert lines(tmp_path / "cut") == ["new"]

    run(scenario())


def test_stdin_is_a_file_or_nothing(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            (tmp_path / "in-6").write_text("hello\n")
            controller.launch(6, "cat", **where(tmp_path, std_in=b"in-%j"))
            controller.launch(7, "cat; echo end", **where(tmp_path))
            await controller.exited(6)
            await controller.exited(7)
            assert lines(tmp_path / "slurm-6.out") == ["hello"]
            assert lines(tmp_path / "slurm-7.out") == ["end"]

    run(scenario())


def test_a_folder_with_the_jobs_number_is_made_as_nobody_could_make_it_before(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            fields = where(tmp_path, std_out=b"logs/%j/out-%j", std_err=b"logs/%j/err-%j")
            controller.launch(6, "echo here; echo there >&2", **fields)
            assert (await controller.exited(6)).failure == ""
            assert lines(tmp_path / "logs" / "6" / "out-6") == ["here"]
            assert lines(tmp_path / "logs" / "6" / "err-6") == ["there"]

    run(scenario())


@pytest.mark.parametrize(
    ("fields", "failure"),
    [
        ({"std_out": b"no/such/dir/x"}, "cannot open stdout: no/such/dir/x: No such file or directory"),
        ({"std_err": b"/dev/null/x"}, "cannot open stderr: /dev/null/x: Not a directory"),
        ({"std_in": b"absent"}, "cannot open stdin: absent: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_opened_fails_the_step_before_it_starts(tmp_path, fields, failure):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch(1, f"touch {tmp_path}/ran", **where(tmp_path, **fields))
            end = await controller.exited(1)
            assert (end.failure, end.start_at_us, end.exit.code) == (failure, 0, 0)
            assert controller.starts(1) == []
            assert not (tmp_path / "ran").exists()

    run(scenario())


def test_a_script_without_interpreter_and_a_missing_work_folder(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch(1, "#!/no/such/shell\n", **where(tmp_path))
            assert (await controller.exited(1)).failure == "cannot execute the script: No such file or directory"
            output = str(tmp_path / "o").encode()
            controller.launch(2, "pwd", work_dir=b"/no/such", std_out=output)
            assert (await controller.exited(2)).exit.code == 0
            message = (
                "slurmstepd: error: couldn't chdir to `/no/such': No such file or directory: going to /tmp instead"
            )
            assert lines(tmp_path / "o") == [message, "/tmp"]

    run(scenario())


def test_launches_that_break_a_limit_are_refused(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            refused = await controller.acked(controller.launch(1, "true", argv=[b"a\0b"]))
            assert refused == "argument 0 contains a NUL byte at position 1"
            refused = await controller.acked(controller.launch(1, b"#!/bin/sh\n" + b"#" * (4 << 20)))
            assert "the limit is 4194304" in refused
            assert controller.reports == [] and daemon.folders() == []

    run(scenario())


def test_limits_umask_and_clean_descriptors_and_signals(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = (
                "ulimit -Sn; ulimit -Sf; ulimit -Sc; umask; ls -l /proc/self/fd | wc -l; grep SigIgn /proc/self/status"
            )
            limits = {"NOFILE": 77, "FSIZE": -1, "CORE": 0, "UNKNOWN": 5}
            controller.launch(1, script, rlimits=limits, umask=0o027, **where(tmp_path))
            assert (await controller.exited(1)).exit.code == 0
            nofile, fsize, core, umask, fds, ignored = lines(tmp_path / "slurm-1.out")
            assert (nofile, fsize, core, umask) == ("77", "unlimited", "0", "0027")
            assert int(fds) == 5  # a headline, 0, 1, 2 and the folder that ls reads
            of_libc = 3 << 31  # 32 and 33 belong to the C library; whoever started us may have them ignored
            assert int(ignored.split()[1], 16) & ~of_libc == 0
            assert (tmp_path / "slurm-1.out").stat().st_mode & 0o777 == 0o640

    run(scenario())


def test_gpus_and_memory_of_the_allocation_reach_the_environment(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            gres = [common_pb2.GresIndices(name="gpu", type="fake", index=[1])]
            part = common_pb2.NodeAllocation(node="n1", cpus=2, mem_mb=50, tasks=1, gres=gres)
            said = "echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS $SLURM_GPUS_ON_NODE $SLURM_CPUS_ON_NODE"
            controller.launch(1, said + "; [ $SLURM_TASK_PID = $$ ]", allocation=part, **where(tmp_path))
            assert (await controller.exited(1)).exit.code == 0
            assert lines(tmp_path / "slurm-1.out") == ["1 1 1 2"]
            inventory = controller.registrations[0].inventory
            assert (inventory.cpus, inventory.real_memory_mb, inventory.pretended) == (4, 1000, True)
            assert [gpu.type for gpu in inventory.gpus] == ["fake", "fake"]

    run(scenario())


def test_terminate_asks_first_notes_it_and_then_kills(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            polite = "trap 'echo got term; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
            controller.launch(1, polite, **where(tmp_path))
            controller.launch(2, "trap '' TERM; echo ready; while :; do sleep 0.05; done", **where(tmp_path))
            for job in (1, 2):
                await eventually(lambda job=job: lines(tmp_path / f"slurm-{job}.out") == ["ready"])
            controller.terminate(1, grace_ms=30_000, note="*** JOB 1 CANCELLED ***")
            controller.terminate(2, grace_ms=200)
            end = await controller.exited(1)
            assert (end.exit.code, end.exit.signal) == (5, 0)
            assert {"*** JOB 1 CANCELLED ***", "got term"} <= set(lines(tmp_path / "slurm-1.out"))
            assert (await controller.exited(2)).exit.signal == signal.SIGKILL

    run(scenario())


def test_signals_to_the_script_alone_and_to_all(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = """
            trap "echo script" USR1
            sh -c 'trap "echo child; exit" USR1; echo ready; while :; do sleep 0.05; done' &
            while kill -0 $! 2>/dev/null; do wait $!; done
            """
            controller.launch(1, script, **where(tmp_path))
            out = tmp_path / "slurm-1.out"
            await eventually(lambda: lines(out) == ["ready"])
            assert await controller.acked(controller.signal(1, signal.SIGUSR1, batch_only=True)) == ""
            await eventually(lambda: lines(out) == ["ready", "script"])
            controller.signal(1, signal.SIGUSR1, full=True)
            await controller.exited(1)
            assert "child" in lines(out)

    run(scenario())


def test_what_escapes_into_a_session_of_its_own_is_killed_at_the_end(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            mark = uuid.uuid4().hex
            escape = f"(env -i setsid sh -c '(setsid sleep 1000.{os.getpid()} {mark} 2>/dev/null || :; while :; do sleep 1; : {mark}; done) &') &"
            script = f"{escape}\nsleep 0.2\nexit 0"
            controller.launch(1, script, **where(tmp_path))
            await eventually(lambda: processes_with(mark))
            assert (await controller.exited(1)).exit.code == 0
            assert processes_with(mark) == []

    run(scenario())


def test_a_supervisor_that_is_killed_loses_its_step_and_its_processes(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            mark = uuid.uuid4().hex
            loop = f"while :; do sleep 0.1; : {mark}; done"
            controller.launch(1, f"env -i setsid sh -c '{loop}' & sh -c '{loop}'", **where(tmp_path))
            start = await controller.started(1)
            await eventually(lambda: len(processes_with(mark)) >= 2)
            with open(f"/proc/{start.pid}/stat") as file:
                stepd_pid = int(file.read().rpartition(")")[2].split()[1])
            os.kill(stepd_pid, signal.SIGKILL)
            end = await controller.exited(1)
            assert (end.failure, end.exit.signal) == ("supervisor lost", signal.SIGKILL)
            assert end.start_at_us == start.at_us
            await eventually(lambda: processes_with(mark) == [])
            controller.launch(2, "echo fine", **where(tmp_path))
            assert (await controller.exited(2)).exit.code == 0

    run(scenario())


def test_a_script_that_ends_with_its_last_command_hides_nobody_from_the_launcher(tmp_path):
    """Without a supervisor it would end before those in sessions of their own are reached, and they have no other name."""

    async def scenario():
        async with cluster(tmp_path, "--cgroup", "off") as (controller, _):
            mark = uuid.uuid4().hex
            os.mkfifo(tmp_path / "never")
            stay = f"read x <never; : {mark}"
            escapes = f"i=0; while [ $i -lt 50 ]; do env -i setsid sh -c '{stay}' & i=$((i+1)); done"
            controller.launch(1, f"{escapes}; sh -c 'echo there; {stay}'", **where(tmp_path))
            start = await controller.started(1)
            await eventually(lambda: lines(tmp_path / "slurm-1.out") == ["there"])
            with open(f"/proc/{start.pid}/stat") as file:
                os.kill(int(file.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
            assert (await controller.exited(1)).failure == "supervisor lost"
            await eventually(lambda: processes_with(mark) == [])

    run(scenario())


def test_commands_that_come_again_or_too_early_start_nothing(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            touch = f"echo ran >> {tmp_path}/runs"
            for _ in range(3):
                assert await controller.acked(controller.launch(1, touch, **where(tmp_path))) == ""
            await controller.exited(1)
            assert await controller.acked(controller.launch(1, touch, **where(tmp_path))) == ""
            controller.terminate(2)
            never = await controller.exited(2)
            assert (never.start_at_us, never.failure) == (0, "ended before it was started")
            assert "ended before" in await controller.acked(controller.launch(2, touch, **where(tmp_path)))
            refused = await controller.acked(controller.launch(3, touch, epoch=0, **where(tmp_path)))
            assert refused == "epoch 0 is lower than 1, which this node has seen"
            assert lines(tmp_path / "runs") == ["ran"]
            assert [len(controller.exits(job)) for job in (1, 2, 3)] == [1, 1, 0]

    run(scenario())


def test_a_big_script_and_environment_arrive_byte_for_byte(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            body = b'#!/bin/sh\nwc -c < $0; printf %s "$BIG" | wc -c; exit 0\n' + b"\xff\xfe#" * 1_000_000
            controller.launch(1, body, env=[b"PATH=/bin:/usr/bin", b"BIG=" + b"x" * 100_000], **where(tmp_path))
            assert (await controller.exited(1)).exit.code == 0
            assert lines(tmp_path / "slurm-1.out") == [str(len(body)), "100000"]

    run(scenario())


def test_a_supervisor_serves_again_and_keeps_nothing_of_the_step_before(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            (tmp_path / "in").write_text("x")
            script = "readlink /proc/$PPID/fd/* | grep -c .; echo $PPID; cat; ls $(dirname $0)"
            for job in range(1, 6):
                controller.launch(job, script, **where(tmp_path, std_in=b"in" if job == 3 else b""))
                assert (await controller.exited(job)).exit.code == 0
                await controller.acked(controller.forget(job))
                await eventually(lambda: not daemon.folders())
            said = [lines(tmp_path / f"slurm-{job}.out") for job in range(1, 6)]
            said[2][2] = said[2][2].removeprefix("x")
            files = [int(words.pop(0)) for words in said]
            # One descriptor that each step left open would be two at least. A supervisor that has not run since its spawn has
            # two more, and one that samples in that moment has one more.
            assert min(files[3:]) - min(files[:3]) <= 1
            assert said == [[said[0][0], "record", "slurm_script"]] * 5
            assert len(os.listdir(daemon.spool / "steps")) == 1  # the folder, too, serves again

    run(scenario())


def test_many_steps_at_once(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            jobs = range(1, 101)
            for job in jobs:
                controller.launch(job, f"exit {job % 3}", std_out=b"/dev/null", **where(tmp_path))
            for job in jobs:
                assert (await controller.exited(job)).exit.code == job % 3
                controller.forget(job)
            await eventually(lambda: not daemon.folders())
            assert all(len(controller.starts(job)) == len(controller.exits(job)) == 1 for job in jobs)

    run(scenario())
