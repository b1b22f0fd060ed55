"""Steps of srun on a real node daemon: many tasks, their files, their ends, and what they leave."""

import asyncio
import os
import signal
import uuid

import pytest

from penstock.values.packing import unpack
from penstock.values.stepframes import NO_TASK, FrameKind, StreamRole
from tests.node.fakectl import IO_KEY, cluster, eventually, lines, processes_with
from tests.node.streamclient import Client


def run(coroutine):
    return asyncio.run(coroutine)


def port_of(controller) -> int:
    return controller.registrations[-1].stream_port


async def attach(
    controller, job_id: int, role: StreamRole = StreamRole.OWNER, start: int = 0, step_id: int = 0
) -> Client:
    def connect() -> Client:
        client = Client(port_of(controller), (job_id, 1, step_id))
        client.hello(IO_KEY, role, start)
        return client

    return await asyncio.to_thread(connect)


async def finished(client: Client) -> Client:
    """Follow a step to its END."""
    await asyncio.to_thread(client.until, FrameKind.END)
    return client


async def run_step(controller, job_id: int, argv, **fields) -> Client:
    """Launch, follow, and wait for the node's report."""
    assert await controller.acked(controller.launch_step(job_id, argv, **fields)) == ""
    client = await finished(await attach(controller, job_id))
    await controller.exited(job_id)
    return client


def test_many_tasks_with_their_variables_outputs_and_codes(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            said = (
                'echo "$SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURM_NNODES $SLURM_NODEID $SLURM_GTIDS '
                '$SLURM_STEP_ID $SLURM_TASK_PID" $$; echo "err $SLURM_PROCID" >&2; exit $((SLURM_PROCID % 4))'
            )
            ranks = tuple(range(3, 43))
            client = await run_step(
                controller, 7, ["sh", "-c", said], step_id=0, ranks=ranks, tasks=[3, 40], node_index=1
            )
            assert len(client.pids) == 40
            for local, rank in enumerate(ranks):
                *words, pid, own_pid = client.output[rank, 1].decode().split()
                assert words == [str(rank), str(local), "43", "2", "1", ",".join(map(str, ranks)), "0"]
                assert pid == own_pid == str(client.pids[local])
                assert client.output[rank, 2] == b"err %d\n" % rank
                assert os.waitstatus_to_exitcode(client.exits[rank]) == rank % 4
            end = await controller.exited(7)
            assert (end.exit.code, end.exit.signal, end.failure) == (3, 0, "")
            assert [(one.ranks, one.exit.code, one.exit.signal) for one in end.task_ends] == [
                ("3-39:4", 3, 0),
                ("5-41:4", 1, 0),
                ("6-42:4", 2, 0),
            ]
            assert not end.task_ends_left_out and not end.tasks
            assert len(controller.starts(7)) == 1 and controller.starts(7)[0].pid == client.pids[0]

    run(scenario())


def test_a_signal_counts_as_128_and_its_number(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = "[ $SLURM_PROCID = 1 ] && kill -TERM $$; exit 9"
            client = await run_step(controller, 1, ["sh", "-c", script], ranks=(0, 1))
            assert client.exits == {0: 9 << 8, 1: signal.SIGTERM}
            end = await controller.exited(1)
            assert (end.exit.code, end.exit.signal) == (0, signal.SIGTERM)

    run(scenario())


def test_a_program_that_is_not_there_or_may_not_be_executed(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            (tmp_path / "plain").write_text("x")
            (tmp_path / "here").write_text("#!/bin/sh\necho found in $PWD\n")
            (tmp_path / "here").chmod(0o755)
            client = await run_step(controller, 1, ["no-such-prog"])
            assert client.output[0, 2] == b"slurmstepd: error: execve(): no-such-prog: No such file or directory\n"
            assert (await controller.exited(1)).exit.code == 2
            client = await run_step(controller, 2, [str(tmp_path / "plain")])
            assert client.output[0, 2].endswith(b"/plain: Permission denied\n")
            assert (await controller.exited(2)).exit.code == 13
            env = [b"PATH=/nowhere:.:/bin"]
            client = await run_step(controller, 3, ["here"], work_dir=tmp_path, env=env)
            assert client.output[0, 1] == b"found in %s\n" % os.fsencode(tmp_path)

    run(scenario())


def test_files_by_pattern_and_files_that_tasks_share(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            (tmp_path / "node-n1.txt").write_text("old\n")
            script = "echo out $SLURM_PROCID; echo err $SLURM_PROCID >&2"
            spec = {"std_out": b"o-%J-%t-%n-%3t.txt", "std_err": b"e-%t.txt"}
            client = await run_step(controller, 5, ["sh", "-c", script], ranks=(0, 1), spec=spec, work_dir=tmp_path)
            assert client.output == {}
            assert lines(tmp_path / "o-5.0-1-0-001.txt") == ["out 1"]
            assert lines(tmp_path / "e-0.txt") == ["err 0"]
            spec = {"std_out": b"apart-%t.txt"}
            client = await run_step(controller, 9, ["sh", "-c", script], spec=spec, work_dir=tmp_path)
            assert (lines(tmp_path / "apart-0.txt"), client.output) == (["out 0"], {(0, 2): b"err 0\n"})
            spec = {"std_out": b"node-%N.txt", "std_err": b"node-%N.txt"}
            await run_step(controller, 6, ["sh", "-c", script], ranks=range(8), spec=spec, work_dir=tmp_path)
            assert sorted(lines(tmp_path / "node-n1.txt")) == sorted(
                f"{word} {rank}" for rank in range(8) for word in ("out", "err")
            )
            (tmp_path / "in-1").write_text("one\n")
            spec = {"std_in": b"in-%t"}
            client = await run_step(controller, 8, ["cat"], ranks=(1,), tasks=[2], spec=spec, work_dir=tmp_path)
            assert client.output == {(1, 1): b"one\n"}

    run(scenario())


def test_a_task_that_cannot_start_fails_the_step(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            mark = uuid.uuid4().hex
            for present in ("in-0", "in-2"):  # of two that lacked theirs, either might say so first
                (tmp_path / present).write_text("")
            spec = {"std_in": b"in-%t"}
            client = await run_step(
                controller, 1, ["sh", "-c", f"sleep 1000; : {mark}"], ranks=(0, 1, 2), spec=spec, work_dir=tmp_path
            )
            failed = [frame for frame in client.frames if frame[0] == FrameKind.FAILED]
            assert [(task, text) for _, _, task, text in failed] == [
                (1, b"cannot open stdin: in-1: No such file or directory")
            ]
            assert client.frames[-1][3] == failed[0][3]
            end = await controller.exited(1)
            assert (end.start_at_us, end.failure) == (0, failed[0][3].decode())
            assert controller.starts(1) == [] and processes_with(mark) == []

    run(scenario())


@pytest.mark.parametrize(("to", "task", "who"), [(0, 0, [0]), (1, NO_TASK, [0, 1, 2]), (2, NO_TASK, []), (3, 2, [2])])
def test_standard_input_goes_where_it_was_asked_to(tmp_path, to, task, who):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            spec = {"stdin_to": to, "stdin_task": task if to == 3 else 0}
            controller.launch_step(1, ["cat"], ranks=(0, 1, 2), spec=spec)
            client = await attach(controller, 1)
            client.send(FrameKind.STDIN, b"hello ", task)
            client.send(FrameKind.STDIN, b"there\n", task)
            client.send(FrameKind.STDIN, b"", task)
            await finished(client)
            assert client.output == {(rank, 1): b"hello there\n" for rank in who}
            taken = [int(payload) for kind, _, _, payload in client.frames if kind == FrameKind.STDIN_TAKEN]
            assert taken[-1:] == ([12] if who else taken[-1:])

    run(scenario())


def test_output_comes_in_the_order_it_was_written(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done"
            client = await run_step(controller, 1, ["sh", "-c", script], ranks=(0, 1))
            wanted = b"".join(b"%d\n" % number for number in range(2000))
            assert client.output == {(0, 1): wanted, (1, 1): wanted}

    run(scenario())


def test_whole_lines_only_where_they_were_asked_for(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = "printf a; sleep 0.1; printf 'b\\nc'; sleep 0.1; printf 'd\\nend'"
            client = await run_step(controller, 1, ["sh", "-c", script], spec={"line_buffered": True})
            pieces = [payload for kind, _, _, payload in client.frames if kind == FrameKind.DATA]
            assert pieces == [b"ab\n", b"cd\n", b"end"]

    run(scenario())


def test_a_terminal_its_size_and_its_new_size(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = "test -t 0 && test -t 1 && test -t 2 && tty | cut -c1-8; stty size; trap 'stty size; exit' WINCH; echo ok; while :; do sleep 0.05; done"
            spec = {"pty": True, "rows": 31, "columns": 97}
            controller.launch_step(1, ["sh", "-c", script], ranks=(0, 1), spec=spec)
            client = await attach(controller, 1)
            await asyncio.to_thread(client.until_output, b"ok")
            from penstock.values.packing import pack_values

            client.send(FrameKind.WINDOW, pack_values(50, 132))
            await asyncio.to_thread(client.until_output, b"50 132")
            assert client.output[0, 1].replace(b"\r", b"") == b"/dev/pts\n31 97\nok\n50 132\n"
            assert [frame for frame in client.frames if frame[0] == FrameKind.DATA and frame[2] == 1] == []
            controller.terminate(1, step_id=0, grace_ms=0)
            await finished(client)

    run(scenario())


def test_a_terminal_is_typed_into(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch_step(1, ["sh"], spec={"pty": True}, env=[b"PATH=/bin:/usr/bin", b"PS1=$ "])
            client = await attach(controller, 1)
            word = f"1000.{os.getpid()}"
            client.send(FrameKind.STDIN, f"sleep {word}\n".encode())
            await eventually(lambda: processes_with(word))
            client.send(FrameKind.STDIN, b"\x03echo a$((1+1))\n")
            await asyncio.to_thread(client.until_output, b"a2")
            client.send(FrameKind.STDIN)
            await finished(client)
            assert (await controller.exited(1)).failure == ""

    run(scenario())


def test_the_first_failure_ends_the_others_when_that_is_asked_for(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            bad = "if [ $SLURM_PROCID = 1 ]; then while ! test -e $F; do sleep 0.05; done; exit 5; fi; "
            spec = {"kill_on_bad_exit": True}
            rest = "trap '' TERM; touch $F; while :; do sleep 0.05; done"
            argv = ["sh", "-c", f"F={tmp_path}/1; {bad}{rest}"]
            client = await run_step(controller, 1, argv, ranks=(0, 1), spec=spec)
            assert client.exits == {0: signal.SIGKILL, 1: 5 << 8}
            controller.kill_wait_s = 60
            controller.hang_up()
            await controller.connected(2)
            rest = "trap 'echo bye; exit 3' TERM; touch $F; while :; do sleep 0.05; done"
            argv = ["sh", "-c", f"F={tmp_path}/2; {bad}{rest}"]
            client = await run_step(controller, 2, argv, ranks=(0, 1), spec=spec)
            assert client.exits == {0: 3 << 8, 1: 5 << 8}
            assert client.output[0, 1] == b"bye\n"

    run(scenario())


def test_what_tasks_leave_is_killed_and_holds_up_no_end(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            mark = uuid.uuid4().hex
            loop = f"while :; do sleep 0.1; : {mark}; done"
            script = (
                f"echo first; env -i setsid sh -c '{loop}' & sh -c '{loop}' & while ! test -e go; do sleep 0.1; done"
            )
            controller.launch_step(1, ["sh", "-c", script], ranks=(0, 1), work_dir=tmp_path)
            client = await attach(controller, 1)
            await eventually(lambda: len(processes_with(mark)) >= 4)
            (tmp_path / "go").touch()
            await finished(client)
            assert (await controller.exited(1)).exit.code == 0
            assert processes_with(mark) == []
            assert client.output == {(0, 1): b"first\n", (1, 1): b"first\n"}

    run(scenario())


def test_signals_notes_and_suspension_reach_all_tasks(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = "trap 'echo usr1' USR1; trap 'echo usr2; exit 1' USR2; echo ready; while :; do sleep 0.05; done"
            controller.launch_step(1, ["sh", "-c", script], ranks=(0, 1))
            client = await attach(controller, 1)
            for rank in (0, 1):
                await asyncio.to_thread(client.until_output, b"ready", rank)
            assert await controller.acked(controller.signal(1, signal.SIGUSR1, step_id=0)) == ""
            for rank in (0, 1):
                await asyncio.to_thread(client.until_output, b"usr1", rank)
            from penstock.v1 import node_pb2
            from tests.node.fakectl import make_key

            note = node_pb2.NotifyStep(key=make_key(1, 1, 0), text="the lights go out")
            assert await controller.acked(controller.command(notify=note)) == ""
            assert await asyncio.to_thread(client.until, FrameKind.NOTE) == b"the lights go out"
            client.send(FrameKind.SIGNAL, b"%d" % signal.SIGUSR2)
            await finished(client)
            assert client.exits == {0: 1 << 8, 1: 1 << 8}

    run(scenario())


def test_questions_are_answered(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch_step(1, ["sleep", "1000"], ranks=(4, 5), tasks=[4, 2], node_index=1)
            await controller.started(1)
            client = await attach(controller, 1, StreamRole.QUERY)
            said = await asyncio.to_thread(client.ask, "pids")
            assert [rank for rank, _ in said["tasks"]] == [4, 5]
            assert {pid for _, pid in said["tasks"]} <= set(said["pids"])
            assert await asyncio.to_thread(client.ask, "nonsense") == {}
            client.send(FrameKind.SIGNAL, b"9")
            with pytest.raises((EOFError, ConnectionResetError)):
                await asyncio.to_thread(client.take)
            assert controller.exits(1) == []
            controller.launch(2, "sleep 1000", io_key=IO_KEY, work_dir=str(tmp_path).encode())
            await controller.started(2)
            client = await attach(controller, 2, StreamRole.QUERY, step_id=-5)
            said = await asyncio.to_thread(client.ask, "pids")
            assert said["tasks"] == [[0, controller.starts(2)[0].pid]]

    run(scenario())


def test_task_prolog_and_epilog(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            prolog, epilog, bad = (tmp_path / name for name in ("prolog", "epilog", "bad"))
            prolog.write_text(
                "#!/bin/sh\necho export A=b c=d\necho unset GONE\necho print from $SLURM_PROCID $SLURM_SCRIPT_CONTEXT\necho nothing\n"
            )
            epilog.write_text(f"#!/bin/sh\necho $SLURM_PROCID $SLURM_SCRIPT_CONTEXT >> {tmp_path}/done\n")
            bad.write_text("#!/bin/sh\nexit 7\n")
            for path in (prolog, epilog, bad):
                path.chmod(0o755)
            spec = {"task_prolog": os.fsencode(prolog), "task_epilog": os.fsencode(epilog)}
            env = [b"PATH=/bin:/usr/bin", b"GONE=1"]
            client = await run_step(controller, 1, ["sh", "-c", 'echo "$A|$GONE|"'], ranks=(0, 1), spec=spec, env=env)
            assert client.output[1, 1] == b"from 1 prolog_task\nb c=d||\n"
            assert sorted(lines(tmp_path / "done")) == ["0 epilog_task", "1 epilog_task"]
            client = await run_step(controller, 2, ["echo", "never"], spec={"task_prolog": os.fsencode(bad)})
            assert client.output == {(0, 2): b"slurmstepd: error: TaskProlog failed status=7\n"}
            assert (await controller.exited(2)).exit.code == 7

    run(scenario())


def test_limits_and_binding_reach_each_task(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            script = "ulimit -Sn; umask; ls -l /proc/self/fd | wc -l; ps -o pgid= -p $$"
            spec = {"rlimits": {"NOFILE": 99}, "umask": 0o037}
            client = await run_step(controller, 1, ["sh", "-c", script], ranks=range(4), spec=spec)
            for rank in range(4):
                nofile, umask, fds, group = client.output[rank, 1].decode().split()
                assert (nofile, umask, fds) == ("99", "0037", "5")
                assert int(group) == client.pids[rank]

    run(scenario())


def test_a_step_for_several_programs(tmp_path):
    async def scenario():
        from penstock.v1 import steps_pb2

        async with cluster(tmp_path) as (controller, _):
            programs = [
                steps_pb2.RankCommand(ranks="*", argv=[b"echo", b"rest", b"%t"]),
                steps_pb2.RankCommand(ranks="0,2-3", argv=[b"echo", b"%t:%o"]),
            ]
            client = await run_step(controller, 1, [], ranks=range(4), spec={"multi_prog": programs})
            assert [client.output[rank, 1] for rank in range(4)] == [b"0:0\n", b"rest 1\n", b"2:1\n", b"3:2\n"]
            refused = await controller.acked(
                controller.launch_step(2, [], spec={"multi_prog": programs[1:]}, ranks=(1,), tasks=[4])
            )
            assert refused == "--multi-prog: no line says what task 1 runs"

    run(scenario())


def test_250_tasks(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            client = await run_step(controller, 1, ["sh", "-c", "echo $SLURM_PROCID"], ranks=range(250))
            assert client.output == {(rank, 1): b"%d\n" % rank for rank in range(250)}
            assert len(unpack(next(f[3] for f in client.frames if f[0] == FrameKind.STARTED))) == 250

    run(scenario())
