"""Our side without processes: the real code from sbatch's parser to the task's environment, in one process.

    sbatch -> SubmitJobRequest -> the core -> LaunchStep -> the node's order -> the script's environment
    srun   -> CreateStepRequest -> the core -> LaunchStep -> the node's order -> the tasks' ranks and GPUs

What lies between (gRPC, a database, processes) is left out; tests/e2e and the sample in tests/clients/test_grants.py have it.
"""

import contextlib
import io
import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cli.sbatch
import cli.srun
import cli.steps.request
import penstock.client
from cli.base.run import status_of
from ctld.agents.launch import launch_message
from ctld.core.records.effects import LaunchStep, Refusal, StepCreated, Submitted
from ctld.core.records.events import CreateStep, SubmitJob
from ctld.core.records.job import JobRow
from ctld.rpc.jobs import submission
from ctld.rpc.jobs.step_request import wanted_step
from ctld.runtime.errors import BadRequest
from differential.grants import answers, cluster
from nodedaemon.launch.site import Site
from nodedaemon.launch.wire import NodeFacts, launch_order
from penstock.clusterfile import ClusterFile
from penstock.config import load
from penstock.errors import PenstockError
from penstock.v1 import common_pb2, controller_pb2, steps_pb2
from penstock.values.config import Config
from penstock.values.states import JobState
from tests.core.world import World

HEAD = "SlurmctldHost=localhost(127.0.0.1)\nSlurmUser=root\n"
SCRIPT = b"#!/bin/sh\n"


class Waits(BaseException):
    """A step waits for resources: its srun is left there."""


class Cluster(World):
    """A core with all nodes, which keeps what it launches."""

    def __init__(self, config: Config) -> None:
        self.launched: list[LaunchStep] = []
        self.environment: tuple[bytes, ...] = ()  # of the last submission
        super().__init__(config)
        self.core.check = lambda: None  # type: ignore[method-assign]  # property tests count the state; here it is small, and often new
        for node in config.nodes:
            shape = {name: getattr(node, name) for name in ("sockets", "cores_per_socket", "threads_per_core", "tmp_disk_mb")}  # fmt: skip
            self.register(node.name, **shape)

    def _deliver(self, effect: object) -> list[str]:
        if isinstance(effect, LaunchStep):
            self.launched.append(effect)
        return super()._deliver(effect)


class Caller:
    """Stands for penstock.client.Client: a call goes straight to the core."""

    cluster = ClusterFile(cluster_name="grants", host="localhost", socket="", auth_socket="")

    def __init__(self, world: Cluster) -> None:
        self.world = world

    def open(self, *_: object, **__: object) -> "Caller":
        return self

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, method: str, request: Any, timeout_s: float | None = None) -> Any:
        try:
            return getattr(self, f"_{method}")(request)
        except BadRequest as error:
            raise PenstockError(error.code, error.text) from error

    def _ask(self, event: Any) -> Any:
        self.world.do(event)
        body = self.world.replies.get(event.reply_to)
        if isinstance(body, Refusal):
            raise PenstockError(body.code, body.text)
        return body

    def _SubmitJob(self, request: Any) -> Any:
        key, _ = submission.submit_key(request.request_key)
        spec = submission.spec_row(request.spec, self.world.config)
        self.world.environment = spec.environment
        job = submission.decode_submission(request.job)
        event = SubmitJob(self.world.actor("root"), key, self.world.now_us, job, spec, False, self.world.reply_to())
        body: Submitted = self._ask(event)
        return controller_pb2.SubmitJobReply(job_id=body.job_id, warnings=body.warnings)

    def _CreateStep(self, request: Any) -> Any:
        key, _ = submission.submit_key(request.step_key)
        step = wanted_step(request.step)
        spec = submission.spec_row(request.spec, self.world.config, has_script=False)
        job_id, reply_to = request.job_id, self.world.reply_to()
        event = CreateStep(self.world.actor("root"), job_id, key, step, spec, True, reply_to)
        body: StepCreated | None = self._ask(event)
        if body is None:
            raise Waits
        row = body.step
        return steps_pb2.CreateStepReply(
            step_id=row.step_id, attempt=row.attempt, warnings=body.warnings, job_id=job_id
        )


class Ours:
    """Answers requests, each on a cluster where nothing runs."""

    def __init__(self, site: str = "", topology: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="grants-")
        self.folder = Path(self._folder.name)
        conf = self.folder / "slurm.conf"
        conf.write_text(HEAD + (site or cluster.node_lines(lambda name: "NodeAddr=127.0.0.1") + cluster.CONF))
        (self.folder / "topology.conf").write_text(topology)
        self.config = load(str(conf)).config
        self.script = self.folder / "job"
        self.script.write_bytes(SCRIPT)
        self.world = Cluster(self.config)

    def close(self) -> None:
        self._folder.cleanup()

    def ask(self, line: str, steps: Sequence[str]) -> tuple[answers.Job, list[answers.Step]]:
        """What the request gets, and what steps get in its job one after the other; no steps = an srun that says nothing."""
        self.world = Cluster(self.config)
        job, env = self._submit(line)
        return job, [self._step(one, env) for one in steps or [""]] if job.said == answers.RUNS else []

    def submitted(self, line: str) -> tuple[int, str]:
        """sbatch's exit status and messages, of a line with --wrap."""
        self.world = Cluster(self.config)
        status, _, err = self._run(cli.sbatch, ["--parsable", *shlex.split(line)], {})
        return status, err

    # ---- jobs ------------------------------------------------------------------------------------------------------

    def _submit(self, line: str) -> tuple[answers.Job, dict[str, str]]:
        words = ["--parsable", "-J", "job", "-o", "/dev/null", *shlex.split(line), str(self.script)]
        status, out, err = self._run(cli.sbatch, words, {})
        told = answers.lines(err)
        if status:
            return answers.Job(answers.REFUSED, told, {}, {}), {}
        job_id = int(out)
        row = self.world.jobs[job_id, 0]
        if row.state is JobState.PENDING:
            return answers.Job(answers.WAITS, [*told, f"({row.reason.value})"], {}, {}), {}
        self.world.started(job_id)
        effect = self.world.launched_with[job_id, 0]
        spec = self.world.environment
        env = self._order(effect, SCRIPT, (), spec).environment
        shown = {name.decode(): value.decode() for name, value in env.items()}
        return answers.Job(answers.RUNS, told, _nodes(row), answers.environment(shown.items())), shown

    def _order(
        self, effect: LaunchStep, script: bytes, argv: tuple[bytes, ...], environment: tuple[bytes, ...] = ()
    ) -> Any:
        spec = common_pb2.JobSpec(script=script, argv=argv, environment=environment)
        message = launch_message(effect, spec, "grants")
        return launch_order(message, NodeFacts(effect.node, effect.node, "", Site()))

    # ---- steps -----------------------------------------------------------------------------------------------------

    def _step(self, line: str, env: dict[str, str]) -> answers.Step:
        before = len(self.world.launched)
        try:
            status, _, err = self._run(cli.srun, [*shlex.split(line), "true"], env)
        except Waits:
            self._stop_waiting()
            return answers.Step(answers.WAITS, [], [])
        if status:
            return answers.Step(answers.REFUSED, answers.lines(err), [])
        tasks: dict[int, tuple[str, int, int]] = {}
        launched = self.world.launched[before:]
        for effect in launched:
            order = self._order(effect, b"", (b"true",))
            of_node = order.environment.get(b"CUDA_VISIBLE_DEVICES", b"").decode()
            for local, task in enumerate(order.tasks):
                gpus = task.environment.get(b"CUDA_VISIBLE_DEVICES", of_node.encode()).decode()
                tasks[task.rank] = (effect.node, local, answers.number_of(gpus))
        step_id = launched[0].step_id
        self.world.step_started(launched[0].job_id, step_id)
        self.world.step_exited(launched[0].job_id, step_id)
        return answers.Step(answers.RUNS, answers.lines(err), answers.ranks(tasks))

    def _stop_waiting(self) -> None:
        from ctld.core.records.events import StopWaiting

        self.world.do(StopWaiting(self.world.next_reply))

    # ---- commands --------------------------------------------------------------------------------------------------

    def _run(self, module: Any, words: list[str], env: dict[str, str]) -> tuple[int, str, str]:
        """One command of ours: status, stdout, stderr."""
        out, err = io.StringIO(), io.StringIO()
        caller: Any = Caller(self.world)
        with (
            _instead(module, "Client", caller, missing_ok=True),
            _instead(cli.steps.request, "Client", caller),
            _instead(penstock.client, "Client", caller),
            _instead(module, "_serve", _nothing, missing_ok=True),
            _environment(env),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            status = status_of(module.COMMAND.name, module.body, words)
        return status, out.getvalue(), err.getvalue()


def _nothing(*_: object) -> int:
    return 0


@contextlib.contextmanager
def _instead(module: Any, name: str, value: object, missing_ok: bool = False) -> Iterator[None]:
    if missing_ok and not hasattr(module, name):
        yield
        return
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextlib.contextmanager
def _environment(env: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update({"PATH": "/usr/bin:/bin", "HOME": "/", **env})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _nodes(row: JobRow) -> dict[str, list[int]]:
    return {
        part.node: [part.cpus, part.mem_mb, sum(mask.bit_count() for name, _, mask in part.gres if name == "gpu")]
        for part in row.alloc
    }
