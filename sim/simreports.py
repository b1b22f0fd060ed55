"""Reports of a node of a fault world, as its link makes events of them (ctld/agents/link.py)."""

from collections.abc import Callable

from ctld.core.records.events import GpuReported, NodeNotice, StepExited, StepStarted
from nodedaemon.base.lease import LAPSED
from nodedaemon.core import messages as core
from nodedaemon.core.steps import StepKey
from sim.simgpus import decode


def event_of(
    effect: core.SendReport, node: str, spool_id: str, even_us: Callable[[int], int]
) -> Callable[[int], StepStarted | StepExited | NodeNotice | GpuReported]:
    """Returns the event of a report, given the number of its stream. `even_us` translates a time of the node to that which
    passes for all."""
    report = effect.report
    sequence = effect.sequence
    if isinstance(report, core.Started):
        key = report.key
        at_us = even_us(report.at_us)
        return lambda link: StepStarted(node, key.job_id, key.attempt, key.step_id, at_us, spool_id, sequence, link)
    if isinstance(report, core.Noticed):
        at_us = even_us(report.at_us)
        said = report.notice
        key = said.key or StepKey(0, 0, 0)
        return lambda link: NodeNotice(
            node, spool_id, sequence, link, at_us, said.reason, said.drain, said.fail, said.clear,
            key.job_id, key.attempt, key.step_id,
        )  # fmt: skip
    if isinstance(report, core.ForwardedReport):
        opinions, facts = decode(report.body)
        return lambda link: GpuReported(node, spool_id, sequence, link, 0, opinions, gpus=facts)
    assert isinstance(report, core.Exited)
    end = report.end
    return lambda link: StepExited(
        node, end.key.job_id, end.key.attempt, end.key.step_id, spool_id, sequence, link,
        even_us(end.start_at_us), even_us(end.end_at_us), end.exit_code,
        end.exit_signal, end.failure, end.out_of_memory, end.user_cpu_us,
        untried=end.untried, rebooted=end.rebooted, lease_lapsed=end.failure == LAPSED,
    )  # fmt: skip
