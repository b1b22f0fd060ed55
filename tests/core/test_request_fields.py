"""What a submission and a request have in common is declared once, and what was said is in the request."""

from typing import Any

import msgspec
import pytest
from filled import said

from ctld.core.queue.defaults import complete
from ctld.core.records.job_submission import JobSubmission
from ctld.core.records.request import JobRequest
from ctld.core.records.request_fields import RequestFields
from tests.core.world import START_US, World, make_config

#: What admission uses up.
OF_SUBMISSIONS = {"hold", "propagate_asked", "open_truncate", "run_as_uid", "run_as_gid"}
#: What admission finds out, and what comes from elsewhere: a component's place, an administrator, a reservation, a crontab.
OF_REQUESTS = {
    "nodes_asked", "ntasks_asked", "cpus_per_task_asked", "ntasks_over", "het_job_id", "het_offset", "het_size",
    "memory_asked", "site_factor", "system_comment", "reservation_run", "cron", "apart_label",
}  # fmt: skip
#: Same name, another type or another default.
DIFFERENT = {
    "work_dir", "nodes_min", "nodes_max", "ntasks", "cpus_per_task", "nodes_required", "nodes_excluded", "requeue", "kind",
}  # fmt: skip
GPU = (("gpu", "", 1),)
#: Values with a language of their own, and what must be said with them.
VALUES: dict[str, Any] = {
    "partitions": ("debug",), "qos": "normal", "features": "fast", "prefer": "fast", "batch_features": "fast", "acctg_freq": "task=5", "licenses": "lic:1",
    "signal": "USR1@60", "mail_types": ("END",), "deadline_at_us": 2 * START_US, "gres_per_node": GPU,
    "gres_per_job": GPU, "gres_per_task": GPU, "nodes_required": "n1", "nodes_excluded": "n1", "segment": 1,
    "requeue": False, "trace_parent": f"00-{'a' * 32}-{'b' * 16}-01",
}  # fmt: skip
WITH: dict[str, dict[str, Any]] = {
    "batch_features": {"features": "fast"},
    "nodes_max": {"nodes_min": 1},
    **{name: {"gres_per_node": GPU} for name in ("gpu_mem_mb", "ntasks_per_gpu", "cpus_per_gpu", "mem_per_gpu_mb")},
}
WORLD = World(make_config(gpus=2, licenses=(("lic", 2),), allow_spec_resources_usage=True))
WORLD.register("n1")
OF_BOTH = [field for field in msgspec.structs.fields(JobSubmission) if field.name not in OF_SUBMISSIONS]


def own(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """What a class declares itself."""
    return {field.name: field for field in msgspec.structs.fields(kind) if field.name in vars(kind)["__annotations__"]}


def test_a_field_of_both_is_declared_once() -> None:
    submission, request, shared = own(JobSubmission), own(JobRequest), set(RequestFields.__struct_fields__)
    assert submission.keys() == OF_SUBMISSIONS | DIFFERENT
    assert request.keys() == OF_REQUESTS | DIFFERENT
    assert not shared & (submission.keys() | request.keys())
    for name in DIFFERENT:
        mine, other = submission[name], request[name]
        assert (mine.type, mine.default) != (other.type, other.default), f"{name} belongs into RequestFields"


@pytest.mark.parametrize("field", OF_BOTH, ids=lambda field: field.name)
def test_what_was_said_is_in_the_request(field: Any) -> None:
    name, state = field.name, WORLD.core.state
    value = VALUES[name] if name in VALUES else said(field.type)
    submission = JobSubmission(**{**WITH.get(name, {}), name: value})
    request, _ = complete(state, tuple(state.partition_list), submission)
    found, default = getattr(request, name), getattr(JobRequest(), name)
    assert found != default
    if name in RequestFields.__struct_fields__:
        assert found == value
