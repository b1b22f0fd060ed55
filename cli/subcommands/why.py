"""`penstock why JOB`: lists everything that holds back a waiting job, and what would start it sooner.

The controller queries its planner; this module formats the answer.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from cli.base.format import DisplayClock
from cli.base.listing import emit, now_us
from cli.subcommands.documents import documents, write
from penstock.client import Client
from penstock.commandline import CommandLine, invoke
from penstock.values.jobid import parse_selector
from penstock.values.memory import format_mb
from penstock.values.reasons import sentence

if TYPE_CHECKING:
    from penstock.v1.explain_pb2 import NodesNeeded, WhyJobReply

#: The timeout: a full plan takes seconds on the largest clusters, and requests are served in turn.
TIMEOUT_S = 60.0
INDENT = "  "


@click.command(
    cls=CommandLine,
    help="Explain why JOB waits, and which changes would start it sooner.",
    examples=(("penstock why 12", "of a job"), ("penstock why --json 12_3", "for a task of an array, as JSON")),
)
@documents
@click.argument("job")
def command(job: str, language: str) -> int:
    """One run of `penstock why`."""
    parse_selector(job)
    from penstock.v1.explain_pb2 import WhyJobRequest

    with Client.open(TIMEOUT_S) as client:
        reply = client.call("WhyJob", WhyJobRequest(id=job))
    if language:
        from cli.base.document import message_object

        return write(message_object(reply), language)
    emit(report(reply, DisplayClock.of_environment(now_us())))
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock why ...`; its status."""
    return invoke(command, "penstock why", argv)


def report(why: "WhyJobReply", clock: DisplayClock) -> list[str]:
    """The report as text."""
    title = f"Job {why.shown_id} ({why.name}, {why.user_name})"
    if why.state != "PENDING" or why.last_event:
        last = f"; last: {why.last_event} at {clock.text(why.last_event_at_us)}" if why.last_event else ""
        lines = [f"{title} is {why.state}{last}"]
        return lines + _section("Its steps that wait:", _steps(why, clock))
    word = sentence(why.reason)
    lines = [f"{title} waits: {why.reason}{'. ' + word if word else ''}"]
    lines += _section("In its way:", _obstacles(why, clock))
    lines += _planned(why, clock)
    lines += _section(
        "What it needs:", [*_needs(why, clock), *_licenses(why, clock), *_reservations(why, clock), *_leaves(why)]
    )
    lines += _section("In front of it, for the same nodes:", _in_front(why, clock))
    lines += _preemption(why)
    return lines + _section("It would start sooner:", _hints(why, clock))


def _section(title: str, items: Iterator[str] | list[str]) -> list[str]:
    found = [INDENT + item for item in items]
    return [title, *found] if found else []


def _steps(why: "WhyJobReply", clock: DisplayClock) -> Iterator[str]:
    for one in why.steps:
        yield f"{one.name} {one.waits_for} (since {clock.text(one.since_us)})"


def _obstacles(why: "WhyJobReply", clock: DisplayClock) -> Iterator[str]:
    for one in why.obstacles:
        yield f"{one.reason}: {one.text}" + (f" {clock.text(one.at_us)}" if one.at_us else "")


def _planned(why: "WhyJobReply", clock: DisplayClock) -> list[str]:
    if not why.HasField("planned"):
        return ["No start is planned for it."]
    plan = why.planned
    text = f"{clock.text(plan.start_at_us)} on {plan.node_list} in partition {plan.partition}"
    if plan.if_released:
        return [f"Without that it would start at {text}."]
    return [f"Planned to start at {text}."]


def _needs(why: "WhyJobReply", clock: DisplayClock) -> Iterator[str]:
    for n in why.needs:
        yield (
            f"partition {n.partition}: {_nodes(n.nodes_wanted)}; of {n.nodes_total}, "
            f"{_do(n.nodes_qualify, 'qualifies', 'qualify')}, "
            f"{_do(n.nodes_up, 'of these is', 'of these are')} up, "
            f"{_do(n.nodes_free, 'has', 'have')} all of this free now"
        )
        for r in n.resources:
            amount = format_mb(r.amount) if r.name == "mem" else str(r.amount)
            yield f"{INDENT}{r.name}={amount} on each: free on {_nodes(r.nodes_free)}"
        if n.next_free_at_us:
            later = f"; on {n.nodes_wanted} at {clock.text(n.enough_free_at_us)}" if _later(n) else ""
            yield f"{INDENT}next free on {n.next_free_node} at {clock.text(n.next_free_at_us)}{later}"


def _later(needs: "NodesNeeded") -> bool:
    return bool(needs.enough_free_at_us > needs.next_free_at_us and needs.nodes_wanted > 1)


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _do(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _licenses(why: "WhyJobReply", clock: DisplayClock) -> Iterator[str]:
    for one in why.licenses:
        when = f"; enough at {clock.text(one.enough_at_us)}" if one.enough_at_us else ""
        yield f"license {one.name}: {one.wanted}, {_do(one.free, 'is', 'are')} free{when}"


def _reservations(why: "WhyJobReply", clock: DisplayClock) -> Iterator[str]:
    for one in why.reservations:
        times = f"from {clock.text(one.start_at_us)} to {clock.text(one.end_at_us)}"
        yield f"reservation {one.name} keeps {_nodes(one.nodes)} of these {times}"


def _leaves(why: "WhyJobReply") -> Iterator[str]:
    for one in why.leaves:
        jobs = [f"job {job_id}" for job_id in one.jobs]
        if one.jobs_more:
            jobs.append(_do(one.jobs_more, "other job", "other jobs"))
        alone = ", which has it for itself alone" if one.is_owned and len(jobs) == 1 else ""
        yield f"leaf {one.name} is used by {', '.join(jobs)}{alone}: {_nodes(one.nodes)} of these"


def _in_front(why: "WhyJobReply", clock: DisplayClock) -> Iterator[str]:
    for one in why.in_front:
        when = f"planned for {clock.text(one.start_at_us)} on {one.node_list}" if one.start_at_us else "no start known"
        yield f"{one.shown_id} of {one.user_name or '?'}, {_nodes(one.nodes)}, {when}"
    if why.in_front_more:
        yield f"and {why.in_front_more} more"


def _preemption(why: "WhyJobReply") -> list[str]:
    if why.victims:
        return [f"Preempted for it: {', '.join(map(str, why.victims))}."]
    return ["It may preempt running jobs, but those would not suffice now."] if why.may_preempt else []


def _hints(why: "WhyJobReply", clock: DisplayClock) -> Iterator[str]:
    for hint in why.hints:
        without = [text for text in hint.options if text.startswith("without ")]
        others = " ".join(text for text in hint.options if text not in without)
        change = ", ".join([*without, *([f"with {others}"] if others else [])])
        yield f"{change}: {'now' if hint.starts_now else 'at ' + clock.text(hint.start_at_us)} on {hint.node_list}"
