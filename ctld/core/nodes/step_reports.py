"""Dispatches nodes' reports on steps: those on extern steps are handled separately."""

from ctld.core.nodes import extern_steps
from ctld.core.nodes import life as node_life
from ctld.core.records.events import LaunchRefused, StepExited, StepStarted
from ctld.core.state.state import ClusterState
from ctld.core.steps import life as step_life
from penstock.values.jobid import EXTERN_STEP


def step_started(state: ClusterState, now_us: int, event: StepStarted) -> None:
    """Dispatches the start of a step, or of an extern step."""
    (extern_steps if event.step_id == EXTERN_STEP else step_life).step_started(state, now_us, event)


def launch_refused(state: ClusterState, now_us: int, event: LaunchRefused) -> None:
    """Dispatches a node's refusal of a step, or of an extern step."""
    (extern_steps if event.step_id == EXTERN_STEP else step_life).launch_refused(state, now_us, event)


def step_exited(state: ClusterState, now_us: int, event: StepExited) -> None:
    """Dispatches the end of a step: of a job's, or of one that the controller had ended already."""
    (extern_steps if event.step_id == EXTERN_STEP else step_life).step_exited(state, now_us, event)
    node_life.leftover_gone(state, event)
