"""The built-in QOS, and the numbers of all. Changes to them are in accounts/qos.py."""

from ctld.core.records.qos import Qos
from ctld.core.state.state import ClusterState

#: The QOS of jobs that name none. Slurm's first QOS has this name and description.
DEFAULT_QOS = "normal"
NORMAL = Qos(DEFAULT_QOS, "Normal QOS default", qos_id=1)


def number_qos(state: ClusterState) -> None:
    """Numbers QOS of earlier versions, which had no number."""
    for record in list(state.qos.values()):
        if not record.qos_id:
            state.qos[record.name] = record._replace(qos_id=1 if record.name == DEFAULT_QOS else next_qos_id(state))
            state.outputs.dirty_qos[record.name] = None
            state.registry.entities_changed = True


def next_qos_id(state: ClusterState) -> int:
    """Returns a number that no QOS has or had."""
    everything = (*state.qos.values(), *state.registry.qos_deleted.values())
    return max(1, *(record.qos_id for record in everything)) + 1
