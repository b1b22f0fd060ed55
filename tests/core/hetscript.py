"""Commands of scenarios about heterogeneous jobs: a part of test_scripts.Script."""

from ctld.core.records.events import JobSubmission, SubmitJob
from tests.core.world import SPEC, World


def wanted(fields: dict[str, str], name: str) -> JobSubmission:
    """What a component asks for; numbers are numbers."""
    values: dict[str, object] = {"name": name, "work_dir": b"/tmp"}
    for key, text in fields.items():
        values[key] = int(text) if text.lstrip("-").isdigit() else {"true": True, "false": False}.get(text, text)
    if "partitions" in fields:
        values["partitions"] = tuple(fields["partitions"].split(","))
    return JobSubmission(**values)  # type: ignore[arg-type]  # keywords of many types


def het_event(world: World, components: list[dict[str, str]], user: str = "ann", key: str = "") -> SubmitJob:
    """One submission of several components."""
    first, *others = [wanted(fields, "job") for fields in components]
    name = key or f"{world.next_reply:032x}"
    reply_to = world.reply_to()
    return SubmitJob(world.actor(user), name, world.now_us, first, SPEC, False, reply_to, tuple(others))


class HetCommands:
    """Commands about heterogeneous jobs."""

    world: World

    def het(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """het 0.ntasks=2 1.ntasks=4 1.partitions=gpu user= key= kind=: components by their numbers."""
        user, key = keys.pop("user", "ann"), keys.pop("key", "")
        common = {name: text for name, text in keys.items() if "." not in name}
        most = max(int(name.partition(".")[0]) for name in keys if "." in name)
        parts = [
            common | {n.partition(".")[2]: text for n, text in keys.items() if n.startswith(f"{i}.")}
            for i in range(most + 1)
        ]
        return self.world.do(het_event(self.world, parts, user, key))

    def ready(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The queue of ready jobs, in the planner's order."""
        state = self.world.core.state
        rows = state.pending.first(len(state.pending.ready))
        return [" ".join(str(job_id) for job_id in state.pending.table.job[rows].tolist()) or "none"]
