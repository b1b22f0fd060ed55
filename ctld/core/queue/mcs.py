"""Labels of multi-category security (MCSPlugin): which label a job has, and whether jobs of other labels are kept from its
nodes.

    mcs/user      the name of its user          mcs/account   the account that it is charged to
    mcs/group     the first group of MCSParameters that its user is in; without a list, its primary group
    mcs/label     any text of --mcs-label

With `ondemand` (the default) a job has a label if it asks for one, by --mcs-label or --exclusive=mcs; with `enforced` each
job has. With `select` jobs share nodes only within a label, with `ondemandselect` (the default) those with --exclusive=mcs,
with `noselect` none. Jobs without a label share nodes among themselves.

`privatedata` hides nothing here: PrivateData does.
"""

from msgspec.structs import replace

from ctld.core.records.effects import Refused
from ctld.core.records.events import Actor, JobSubmission
from ctld.core.state.state import ClusterState
from penstock.values.config import Config
from penstock.values.refusals import Code


def labelled(state: ClusterState, actor: Actor, wanted: JobSubmission) -> JobSubmission:
    """Returns the submission with its label in place of --mcs-label; "" = it has none. Raises Refused for a label that it
    may not have."""
    plugin = state.config.mcs_plugin
    if plugin == "mcs/none":
        return replace(wanted, mcs_label="") if wanted.mcs_label else wanted
    if plugin == "mcs/label":
        return wanted
    may = _labels_of(state, actor, wanted, plugin)
    if wanted.mcs_label:
        if wanted.mcs_label not in may:
            raise Refused(Code.INVALID_MCS_LABEL)
        return wanted
    if not (_has(state.config, "enforced") or wanted.exclusive_mcs):
        return wanted
    if not may:
        raise Refused(Code.INVALID_MCS_LABEL, "no group of MCSParameters has this user")
    return replace(wanted, mcs_label=may[0])


def _labels_of(state: ClusterState, actor: Actor, wanted: JobSubmission, plugin: str) -> tuple[str, ...]:
    """Returns the labels that the job may have, the default first."""
    if plugin == "mcs/user":
        return (actor.user_name,)
    if plugin == "mcs/account":
        return (wanted.account or state.config.penstock_default_account.lower(),)
    mine = (actor.group_name, *actor.groups)
    listed = tuple(filter(None, state.config.mcs_parameters.partition(":")[2].split("|")))
    return tuple(name for name in listed if name in mine) if listed else tuple(dict.fromkeys(mine))


def is_kept_apart(config: Config, wanted: JobSubmission) -> bool:
    """Whether jobs of other labels, or without one, are kept from the nodes of a submission with its label."""
    if not wanted.mcs_label or config.mcs_plugin == "mcs/none" or _has(config, "noselect"):
        return False
    return wanted.exclusive_mcs or _has(config, "select")


def _has(config: Config, word: str) -> bool:
    words = config.mcs_parameters.partition(":")[0].split(",")
    return word in (one.strip().lower() for one in words)
