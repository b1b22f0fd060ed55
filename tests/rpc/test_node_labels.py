"""The MCS label of a node: it can be the name of a user, or an account, whose jobs others may not see."""

import pytest

from ctld.core.records.events import JobSubmission
from ctld.rpc.cluster.clusterinfo import node_info
from ctld.rpc.gate.visibility import job_visibility
from tests.core.world import World, make_config


@pytest.mark.parametrize(("user", "private", "label"), [
    ("bob", (), "ann"), ("bob", ("jobs",), ""), ("ann", ("jobs",), "ann"), ("root", ("jobs",), "ann"),
])  # fmt: skip
def test_a_label_is_shown_to_those_who_see_its_jobs(user: str, private: tuple[str, ...], label: str) -> None:
    made = World(make_config(nodes=1, mcs_plugin="mcs/user", mcs_parameters="enforced,select", private_data=private))
    made.register("n1")
    made.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=60), user="ann")
    state = made.core.state
    shown = node_info(state, state.node_list[0], (), None, "", job_visibility(state, made.actor(user)))
    assert shown.mcs_label == label
