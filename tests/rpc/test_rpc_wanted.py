"""Requests in: every field arrives, nothing too large does, and two specs never share a hash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.events import WantedJob
from ctld.rpc import wanted
from ctld.rpc.refusals import BadRequest
from penstock.client import new_request_key
from penstock.v1.common_pb2 import GresCount, JobRequest, JobSpec
from penstock.values.config import Config
from penstock.values.refusals import Code

CONFIG = Config(max_script_bytes=100, max_environment_bytes=50)
FULL = JobRequest(
    name="n", partitions=["a", "b"], account="acc", qos="q", comment="c", work_dir=b"/\xff", std_out=b"o", std_err=b"e",
    std_in=b"i", open_append=True, open_truncate=True, propagate_asked=True, time_limit_s=-1, begin_at_us=5, nodes_min=1, nodes_max=2,
    ntasks=3, cpus_per_task=4, ntasks_per_node=5, mem_per_node_mb=0, mem_per_cpu_mb=7, features="f",
    gres_per_node=[GresCount(name="gpu", type="a100", count=2)], nodes_required="n1", nodes_excluded="n2",
    exclusive=True, dependency="afterok:1", array="0-3", hold=True, requeue=False, nice=-3, priority=0,
    rlimits={"NOFILE": 5, "CORE": -1}, umask=0, submit_line="sbatch x", kill_on_invalid_dep=True, export_env="ALL",
    submit_host="h", submit_dir=b"/d", command="/x", licenses="l", wckey="w", reservation="r", signal="s", time_min_s=60,
    deadline_at_us=5, exclusive_user=True, switches_max=1, switches_wait_s=9, segment=2, exclusive_topo=True, prefer="f",
    sockets_per_node=1, cores_per_socket=2, threads_per_core=1, mincpus=3, tmp_disk_mb=4, ntasks_per_core=1,
    ntasks_per_socket=2, spread_job=True, use_min_nodes=True, immediate_s=0,
    gres_per_job=[GresCount(name="gpu", count=8)], gres_per_task=[GresCount(name="gpu", count=1)], ntasks_per_gpu=1,
    cpus_per_gpu=2, mem_per_gpu_mb=0, resv_ports=3, distribution="cyclic", overcommit=True, no_kill=True,
    wait_all_nodes=True, node_fail_policy="keep", mpi="pmi2", cpu_bind="cores", mem_bind="local", gpu_bind="closest",
    network="x", kind="SRUN", gpu_mem_mb=1, gpu_freq="low", gres_per_socket=[GresCount(name="gpu", count=1)],
    gres_sockets=2, mail_types=["END"], mail_user="u", contiguous=True, oversubscribe=False, core_spec=0, thread_spec=0,
    extra="e", mcs_label="m", batch_features="b", get_user_env=True, acctg_freq="task=1", oom_kill_step=False, reboot=True,
    delay_boot_s=0, exclusive_mcs=True, run_as_uid=0, run_as_gid=0, expedite=True, container="/c", cpu_freq="low",
)  # fmt: skip


def test_every_field_of_a_request_arrives():
    job = wanted.wanted_job(FULL)
    for field in JobRequest.DESCRIPTOR.fields:
        assert field.name in WantedJob.__struct_fields__, field.name
    for name in WantedJob.__struct_fields__:
        assert getattr(job, name) != getattr(WantedJob(), name), f"{name} was lost"
    assert job.work_dir == b"/\xff" and job.partitions == ("a", "b")
    assert (job.gres_per_node, job.rlimits) == ((("gpu", "a100", 2),), (("CORE", -1), ("NOFILE", 5)))
    assert (job.mem_per_node_mb, job.requeue, job.priority, job.umask) == (0, False, 0, 0)


def test_what_is_not_said_stays_unsaid():
    assert wanted.wanted_job(JobRequest()) == WantedJob()


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        ({"array": "1," * 40_000}, Code.INVALID_ARRAY, "array has 80000 characters"),
        ({"nodes_required": "n" * 70_000}, Code.INVALID_VALUE, "nodes_required has 70000 characters"),
        ({"partitions": ["p"] * 2000}, Code.INVALID_VALUE, "partitions: 2000 entries"),
        ({"rlimits": {str(i): 1 for i in range(2000)}}, Code.INVALID_VALUE, "rlimits: 2000 entries"),
    ],
)
def test_what_is_too_long_is_refused(job, code, words):
    with pytest.raises(BadRequest) as refused:
        wanted.wanted_job(JobRequest(**job))
    assert refused.value.code is code and words in refused.value.text


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ({}, Code.JOB_SCRIPT_MISSING, "Batch job script missing"),
        ({"script": b"x" * 101}, Code.SCRIPT_TOO_LARGE, "101 bytes, the limit is 100"),
        ({"script": b"#", "environment": [b"A=" + b"x" * 49]}, Code.ENVIRONMENT_TOO_LARGE, "51 bytes"),
        ({"script": b"#!\0"}, Code.INVALID_VALUE, "NUL byte at position 2"),
        ({"script": b"#", "argv": [b"a", b"b\0"]}, Code.INVALID_VALUE, "argument 2 has a NUL byte at position 1"),
        ({"script": b"#", "environment": [b"\0"]}, Code.INVALID_VALUE, "environment variable 1 has a NUL"),
        ({"script": b"#", "argv": [b"a" * 131_072]}, Code.INVALID_VALUE, "131072 bytes"),
        ({"script": b"#", "argv": [b"a" * 100_000] * 6}, Code.INVALID_VALUE, "600000 bytes"),
    ],
)
def test_a_spec_that_cannot_run_is_refused(spec, code, words):
    with pytest.raises(BadRequest) as refused:
        wanted.spec_row(JobSpec(**spec), CONFIG)
    assert refused.value.code is code and words in refused.value.text


words_of = st.lists(st.binary(max_size=4), max_size=4).map(tuple)


@given(st.tuples(st.binary(max_size=6), words_of, words_of), st.tuples(st.binary(max_size=6), words_of, words_of))
def test_different_specs_have_different_hashes(one, other):
    assert (wanted.spec_hash(*one) == wanted.spec_hash(*other)) == (one == other)
    assert len(wanted.spec_hash(*one)) == 32


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_a_clients_key_is_read_with_its_time(at_ms, random):
    key = new_request_key(at_ms * 1000, random)
    dashed = f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}"
    assert wanted.submit_key(key) == wanted.submit_key(dashed.upper()) == (key, at_ms * 1000)


@pytest.mark.parametrize("text", ["", "x" * 32, "0" * 32, "0" * 5000, "00000000-0000-4000-8000-000000000000"])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(BadRequest):
        wanted.submit_key(text)


def test_a_change_has_a_limit():
    with pytest.raises(BadRequest):
        wanted.changes_of({"comment": "x" * 70_000})
    with pytest.raises(BadRequest):
        wanted.changes_of({str(i): "" for i in range(2000)})
