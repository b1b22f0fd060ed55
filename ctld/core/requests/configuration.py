"""Applies a new configuration: to the nodes and partitions first, then to triggers and the audit trail."""

from ctld.core.accounts import audit_diff
from ctld.core.lifecycle import triggers
from ctld.core.nodes import layout
from ctld.core.records.events import LoadConfig
from ctld.core.state.state import ClusterState


def load_config(state: ClusterState, now_us: int, event: LoadConfig) -> None:
    """Handles a new configuration. Raises Refused."""
    layout.load_config(state, now_us, event)
    triggers.reconfigured(state, now_us)
    audit_diff.config_loaded(state, now_us, event)
