"""Commands of scenarios about GPUs that have names: a part of test_scripts.Script.

A GPU's UUID is GPU-<number, 8 digits>-<node>. Spaces in words are written as _.
"""

from ctld.core.records.events import GpuIdle, GpuReported, GpuWorkDone, LaunchRefused
from ctld.core.records.gpu import GpuAction, GpuFacts, GpuOpinion, WorkKind
from penstock.values.gpustates import GpuState
from tests.core.world import BATCH, World


def uuid_of(node: str, number: int) -> str:
    """The UUID of a node's GPU with that number."""
    return f"GPU-{number:08}-{node}"


def facts(node: str, *numbers: int) -> tuple[GpuFacts, ...]:
    """What a node reports of its GPUs with these numbers."""
    return tuple(GpuFacts(uuid_of(node, number), index, number, "a100", 40_000) for index, number in enumerate(numbers))


def _text(word: str) -> str:
    return word.replace("_", " ").replace("GPU ERROR", "GPU_ERROR")


def opinion(
    node: str, number: int, state: GpuState, reason: str = "", many_only: bool = False, wants_reset: bool = False
) -> GpuOpinion:
    """What a node thinks of the health of one GPU."""
    return GpuOpinion(uuid_of(node, number), state, reason, 1, many_only, wants_reset)


class GpuCommands:
    """Commands about GPUs with names."""

    world: World

    def named(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """named n1 0 1: the node registers with these GPUs, now and from now on; why=: NVML does not answer it.

        by=cgroup/v2: what keeps jobs from GPUs of others."""
        node, *numbers = plain
        self.world.found[node] = facts(node, *map(int, numbers))
        more = {name: _text(keys[key]) for key, name in (("why", "gpu_why"), ("by", "gpu_constraint")) if key in keys}
        return self.world.register(node, **more)

    def gpu(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """gpu n1 1 FAILED [many_only] [wants_reset] reason= action=END jobs=1,2.0 cause= ago=: what the node says of one."""
        node, number, word = plain[:3]
        jobs = []
        for text in filter(None, keys.get("jobs", "").split(",")):
            job_id, _, attempt = text.partition(".")
            jobs.append((int(job_id), int(attempt or self.world.core.state.jobs[int(job_id)].attempt)))
        many_only, wants_reset = "many_only" in plain, "wants_reset" in plain
        said = opinion(node, int(number), GpuState[word], _text(keys.get("reason", "")), many_only, wants_reset)
        self.world.sequence += 1
        event = GpuReported(
            node, f"spool-{node}", self.world.sequence, self.world.links[node],
            self.world.now_us - int(keys.get("ago", 0)) * 1_000_000, (said,),
            GpuAction[keys.get("action", "NONE")], tuple(jobs), _text(keys.get("cause", "")),
        )  # fmt: skip
        return self.world.do(event)

    def gpus(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What is thought of a node's GPUs."""
        lines = []
        for name in plain:
            node = self.world.core.state.nodes[name]
            for gpu in sorted(node.gpus.values(), key=lambda gpu: (gpu.slot < 0, gpu.slot, gpu.uuid)):
                reason = f" ({gpu.reason()})" if gpu.reason() else ""
                closed = " closed" if gpu.is_closed() else " for one" if gpu.is_for_one() else ""
                work = f" {WorkKind(gpu.work_kind).name}" if gpu.work_id else ""
                lines.append(f"{gpu.slot} {gpu.uuid} {gpu.state().name}{reason}{closed}{work}")
        return lines

    def refuse_launch(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The node does not take a job's launch."""
        job_id = int(plain[0])
        node, attempt = self.world.where(job_id)
        del self.world.running[node][job_id, attempt]
        return self.world.do(LaunchRefused(node, job_id, attempt, BATCH, _text(keys["why"])))

    def gpu_work(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """gpu_work w1 ok|failed|untried text=: the node has done it."""
        node, uuid = self.world.works[plain[0]]
        self.world.sequence += 1
        event = GpuWorkDone(
            node, f"spool-{node}", self.world.sequence, self.world.links[node], self.world.work_ids[plain[0]], uuid,
            plain[1] == "ok", _text(keys.get("text", "")), plain[1] == "untried",
        )  # fmt: skip
        return self.world.do(event)

    def gpu_idle(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """gpu_idle n1 JOB NUMBER ... [over] [unused] for=SECONDS: GPUs of a job do nothing."""
        node, job_id, *numbers = (word for word in plain if word not in ("over", "unused"))
        job = self.world.core.state.jobs[int(job_id)]
        self.world.sequence += 1
        event = GpuIdle(
            node, f"spool-{node}", self.world.sequence, self.world.links[node], job.job_id, job.attempt,
            tuple(uuid_of(node, int(number)) for number in numbers),
            self.world.now_us - int(keys.get("for", 0)) * 1_000_000, "over" in plain, "unused" in plain,
        )  # fmt: skip
        return self.world.do(event)

    def told(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What AdminComment says of jobs, and which nodes they do not want."""
        lines = []
        for word in plain:
            job = self.world.core.state.jobs[int(word)]
            lines.append(f"{word} {job.admin_comment or '-'} excluded={','.join(job.request.nodes_excluded)}")
        return lines
