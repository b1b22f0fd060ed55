"""Commands of scenarios about allocations and steps: a part of test_scripts.Script."""

import msgspec

from ctld.core.records.events import AwaitAllocation, AwaitStep, CreateStep, EndAllocation, NotifyJob, StopWaiting
from ctld.core.records.job import SpecRow
from ctld.core.records.step import SpreadStep, StepRequest
from ctld.core.steps.waiting import waiting_steps
from penstock.values.taskset import TaskSet
from tests.core.world import World

KINDS = ("gres_per_node", "gres_per_step", "gres_per_task")
FLAGS = (
    "exact", "overlap", "overcommit", "whole", "interactive", "no_gres", "no_kill", "kill_on_bad_exit",
)  # fmt: skip


def request_of(plain: list[str], keys: dict[str, str]) -> StepRequest:
    """ntasks=4 exact gres_per_node=gpu::1 nodes_required=n1,n2."""
    fields: dict[str, object] = {word: True for word in plain if word in FLAGS}
    for name, text in keys.items():
        if name in KINDS:
            entries = (one.split(":") for one in text.split(","))
            fields[name] = tuple((kind, type_, int(count)) for kind, type_, count in entries)
        elif name.startswith("nodes_") and not text.isdigit():
            fields[name] = tuple(text.split(","))
        else:
            fields[name] = int(text) if text.lstrip("-").isdigit() else text
    return msgspec.convert(fields, StepRequest)


class StepCommands:
    """Commands about allocations and steps."""

    world: World
    calls: dict[str, int]  # by a name that the scenario gives

    def salloc(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """salloc FIELD=VALUE: an allocation (fields as for `submit`)."""
        return self.submit(plain, {"kind": "1", **keys})  # type: ignore[attr-defined]  # whoever inherits it has `submit`

    def srun(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """srun FIELD=VALUE: the allocation of an srun outside of a job (fields as for `submit`)."""
        return self.submit(plain, {"kind": "2", **keys})  # type: ignore[attr-defined]  # whoever inherits it has `submit`

    def _call(self, keys: dict[str, str]) -> int:
        reply_to = self.world.reply_to()
        if "call" in keys:
            self.calls = getattr(self, "calls", {})
            self.calls[keys.pop("call")] = reply_to
        return reply_to

    def allocation(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """AwaitAllocation: allocation 1 [now] call=NAME."""
        actor = self.world.actor(keys.pop("user", "ann"))
        return self.world.do(AwaitAllocation(actor, int(plain[0]), "now" not in plain, self._call(keys)))

    def release_allocation(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """release_allocation JOB user=ann code=0 signal=0: its owner is done."""
        actor = self.world.actor(keys.pop("user", "ann"))
        code, signal = int(keys.get("code", 0)), int(keys.get("signal", 0))
        return self.world.do(EndAllocation(actor, int(plain[0]), code, signal, self.world.reply_to()))

    def stop(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The caller of that call goes away."""
        return self.world.do(StopWaiting(self.calls[plain[0]]))

    def step(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """CreateStep: step JOB [now] key=K call=NAME ntasks=2 exact ..."""
        actor, reply_to = self.world.actor(keys.pop("user", "ann")), self._call(keys)
        key = keys.pop("key", f"{reply_to:032x}")
        spec = SpecRow(b"step" + key.encode(), b"", (b"/bin/prog",), ())
        request = request_of(plain[1:], keys)
        return self.world.do(CreateStep(actor, int(plain[0]), key, request, spec, "now" not in plain, reply_to))

    def await_step(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """await_step JOB.STEP [now] attempt=0."""
        actor = self.world.actor(keys.pop("user", "ann"))
        job_id, step_id = map(int, plain[0].split("."))
        attempt, wait = int(keys.pop("attempt", 0)), "now" not in plain
        return self.world.do(AwaitStep(actor, job_id, attempt, step_id, wait, self._call(keys)))

    def step_start(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """step_start JOB.STEP [node ...]."""
        job_id, step_id = map(int, plain[0].split("."))
        return self.world.step_started(job_id, step_id, *plain[1:])

    def step_exit(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """step_exit JOB.STEP [node ...] code= signal= failure= oom rebooted."""
        job_id, step_id = map(int, plain[0].split("."))
        more = {"out_of_memory": "oom" in plain, "rebooted": "rebooted" in plain}
        nodes = [word for word in plain[1:] if word not in ("oom", "rebooted")]
        numbers = {name: int(keys[name]) for name in ("code", "signal") if name in keys}
        return self.world.step_exited(job_id, step_id, *nodes, failure=keys.get("failure", ""), **numbers, **more)

    def step_again(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """A report that comes again: step_again NODE JOB.STEP."""
        job_id, step_id = map(int, plain[1].split("."))
        return self.world.report_step_exit(plain[0], (job_id, int(keys.get("attempt", 0)), step_id))

    def notify(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """notify JOB TEXT... user=ann: scontrol notify."""
        actor = self.world.actor(keys.pop("user", "ann"))
        return self.world.do(NotifyJob(actor, plain[0], " ".join(plain[1:]), self.world.reply_to()))

    def steps(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """Each step of a job, and where its parts are."""
        job = self.world.core.state.jobs[int(plain[0])]
        lines = []
        for step in job.steps.values():
            note = f" ({step.note})" if isinstance(step, SpreadStep) and step.note else ""
            parts = ""
            if isinstance(step, SpreadStep):
                parts = "".join(
                    f" {p.node}:{p.state.name}:{p.cpus}cpu[{TaskSet.of(p.ranks).format()}]" for p in step.all_parts
                )
            exit_ = f" {step.exit_code}:{step.exit_signal}" if step.end_at_us else ""
            lines.append(f"{step.step_id} {step.name} {step.state.name}{exit_}{note}{parts}")
        return lines or ["none"]

    def step_waits(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What the steps of a job wait for that are not there yet."""
        state = self.world.core.state
        found = waiting_steps(state, state.jobs[int(plain[0])])
        return [f"{one.pending.event.request.name} {one.why}" for one in found] or ["none"]

    def held_cpus(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The cpu numbers and devices of each live part."""
        job = self.world.core.state.jobs[int(plain[0])]
        return [
            f"{step.step_id} {part.node} cpus {bin(part.cpu_ids)}" + "".join(f" {n} {bin(m)}" for n, _, m in part.gres)
            for step in job.steps.values()
            if isinstance(step, SpreadStep) and step.live
            for part in step.all_parts
        ]  # fmt: skip

    def ports(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """ports: the ports that jobs and steps have."""
        state = self.world.core.state
        lines = [f"job {job_id} {port}" for job_id, port in state.steps.master_ports.items()]
        for table_id, table in state.steps.by_job.items():
            for step in table.live.values():
                if isinstance(step, SpreadStep) and step.ports:
                    lines.append(f"step {table_id}.{step.step_id} {step.ports}")
        return lines or ["none"]

    def job_exit(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """job_exit JOB: its state, end state, exit status and derived exit status."""
        job = self.world.core.state.jobs[int(plain[0])]
        end = job.end_state.name if job.end_state is not None else "-"
        return [
            f"{job.job_id} {job.state.name} {end} exit {job.exit_code}:{job.exit_signal}"
            f" derived {job.derived_code}:{job.derived_signal}"
        ]
