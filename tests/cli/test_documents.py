"""Documents: JSON and YAML say the same, parsers read what is written, all keys of Slurm's objects with their types."""

import json
import os
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.base.document import rest_of, write_stream
from cli.base.writers import compact_text, json_text, yaml_text
from cli.listings.jsonnode import node_object
from cli.listings.jsonout import job_object
from cli.listings.jsonpart import partitions_document, reservations_document, step_object
from cli.sinfo import body as sinfo
from cli.squeue import body as squeue
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import JobInfo, ListJobsReply, NodeInfo, ReservationInfo
from penstock.v1.steps_pb2 import StepInfo
from penstock.values.jobid import format_sluid
from penstock.values.refusals import Code
from tests.cli import reports
from tests.cli.fake_controller import run_body
from tests.cli.test_listing_fields import ALL

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    (
        "yes",
        "No",
        "null",
        "~",
        "1",
        "1e3",
        "0x1",
        "- a",
        "a: b",
        "#x",
        "",
        " a",
        "a ",
        "2026-11-21",
        "=",
        "<<",
        "\x7f",
        "\x85",
    )
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_each_language_says_the_same(document):
    assert json.loads(json_text(document)) == document
    assert json.loads(compact_text(document)) == document
    loaded = yaml.safe_load("---" + yaml_text(document) + "...\n")
    assert json.loads(json.dumps(loaded)) == document


def test_a_step_has_the_sluid_of_its_job():
    step = StepInfo(job_id=7, step_id=0, job_submit_at_us=1_700_000_000_000_000)
    sluid = format_sluid(step.job_submit_at_us, 7)
    assert '"sluid":"' + sluid + '"' in json.dumps(step_object(step, "c", 0)["id"], separators=(",", ":"))
    assert '"sluid":""' in json.dumps(step_object(StepInfo(job_id=7), "c", 0)["id"], separators=(",", ":"))


def test_the_layout_is_slurms():
    number = {"set": True, "infinite": False, "number": 3}
    document = {"jobs": [{"a": number, "b": []}], "c": "x y", "d": {}}
    assert json_text(document) == json.dumps(document, indent=2)
    assert yaml_text(document) == (
        "\n  jobs:\n  - a:\n      set: true\n      infinite: false\n      number: 3\n    b: []\n  c: x y\n  d: {}\n"
    )


@pytest.fixture
def client(monkeypatch):
    for name in ("SLURM_JSON", "SLURM_YAML"):
        monkeypatch.delenv(name, raising=False)
    return reports.install(monkeypatch)


def out(capsys, name, body, *argv):
    status, shown, wrong = run_body(capsys, name, body, *argv)
    assert (status, wrong) == (0, "")
    return shown


@pytest.mark.parametrize(("name", "body"), [("squeue", squeue), ("sinfo", sinfo)])
def test_json_yaml_and_their_compact_form(client, capsys, monkeypatch, name, body):
    pretty = json.loads(out(capsys, name, body, "--json"))
    assert yaml.safe_load(out(capsys, name, body, "--yaml")) == pretty
    monkeypatch.setenv("SLURM_JSON", "compact")
    monkeypatch.setenv("SLURM_YAML", "compact")
    line = out(capsys, name, body, "--json")
    assert json.loads(line) == pretty and line.count("\n") == 1
    assert yaml.safe_load(out(capsys, name, body, "--yaml")) == pretty


def test_parsers_by_name(client, capsys):
    listed = out(capsys, "squeue", squeue, "--json=list").splitlines()
    assert listed[0] == "Possible data_parser plugins:"
    assert "data_parser/v0.0.43" in listed
    for name, said in (("v0.0.40", "v0.0.40"), ("data_parser/v0.0.42+prefer_refs", "v0.0.42"), ("latest", "v0.0.43")):
        document = json.loads(out(capsys, "squeue", squeue, f"--json={name}"))
        assert document["meta"]["plugin"]["data_parser"] == f"data_parser/{said}"
    status, shown, wrong = run_body(capsys, "squeue", squeue, "--json=v9")
    assert (status, shown) == (1, "")
    assert wrong.startswith("squeue: error: Invalid --json specification\nsqueue: v9 is not one of v0.0.43")


def test_jobs_are_written_as_they_come(client, capsys, monkeypatch):
    """A page is asked for when the jobs of the one before have been written."""
    written = []

    def pages(asked):
        for number in range(1, 4):
            written.append(capsys.readouterr().out)
            yield ListJobsReply(jobs=[reports.job(number, "PENDING")])

    reports.install(monkeypatch, ListJobs=pages)
    rest = out(capsys, "squeue", squeue, "--json")
    assert [text.count('"job_id"') for text in written] == [0, 1, 1]
    assert [job["job_id"] for job in json.loads("".join(written) + rest)["jobs"]] == [1, 2, 3]


@pytest.mark.parametrize("options", [{"json": ""}, {"yaml": ""}])
@pytest.mark.parametrize("compact", [False, True])
def test_nothing_is_written_before_there_is_an_answer(capsys, monkeypatch, options, compact):
    def refused():
        raise PenstockError(Code.CONFIG_INVALID, "no controller")
        yield {}

    for name in ("SLURM_JSON", "SLURM_YAML") if compact else ():
        monkeypatch.setenv(name, "compact")
    with pytest.raises(PenstockError):
        write_stream("jobs", refused(), {}, options)
    assert capsys.readouterr().out == ""


def test_an_empty_answer(client, capsys, monkeypatch):
    reports.install(monkeypatch, ListJobs=[])
    assert json.loads(out(capsys, "squeue", squeue, "--json"))["jobs"] == []
    assert yaml.safe_load(out(capsys, "squeue", squeue, "--yaml"))["jobs"] == []


# ---- keys and types ------------------------------------------------------------------------------------------------

NUMBER: dict[str, Any] = {"set": bool, "infinite": bool, "number": (int, float)}
JOB = {
    str: """account admin_comment allocating_node array_task_string batch_features batch_host burst_buffer
        burst_buffer_state cluster cluster_features command comment container container_id cpus_per_tres
        current_working_directory dependency excluded_nodes extra failed_node features federation_origin
        federation_siblings_active federation_siblings_viable group_name het_job_id_set licenses licenses_allocated
        mail_user mcs_label memory_per_tres name network nodes partition prefer qos required_nodes resv_name
        scheduled_nodes selinux_context standard_error standard_input standard_output state_description state_reason
        stderr_expanded stdin_expanded stdout_expanded submit_line system_comment tres_alloc_str tres_bind tres_freq
        tres_per_job tres_per_node tres_per_socket tres_per_task tres_req_str user_name wckey""",
    int: """association_id core_spec group_id job_id maximum_switch_wait_time nice required_switches restart_cnt
        segment_size sockets_per_board thread_spec user_id""",
    bool: "batch_flag contiguous hold reboot requeue",
    list: "flags gres_detail job_state mail_type priority_by_partition profile shared",
    "number": """accrue_time array_job_id array_max_tasks array_task_id billable_tres cores_per_socket
        cpu_frequency_governor cpu_frequency_maximum cpu_frequency_minimum cpus cpus_per_task deadline delay_boot
        eligible_time end_time het_job_id het_job_offset last_sched_evaluation max_cpus max_nodes memory_per_cpu
        memory_per_node minimum_cpus_per_node minimum_tmp_disk_per_node node_count pre_sus_time preempt_time
        preemptable_time priority resize_time sockets_per_node start_time submit_time suspend_time tasks tasks_per_board
        tasks_per_core tasks_per_node tasks_per_socket tasks_per_tres threads_per_core time_limit time_minimum""",
    dict: "derived_exit_code exit_code job_resources power",
}  # fmt: skip
NODE = {
    str: """address architecture burstbuffer_network_address cluster_name comment extra gpu_spec gres gres_drained
        gres_used hostname instance_id instance_type mcs_label name operating_system owner reason reason_set_by_user
        reservation specialized_cpus topology tres tres_used version""",
    int: """alloc_cpus alloc_idle_cpus alloc_memory boards cores cpu_binding cpu_load cpus effective_cpus port
        real_memory res_cores_per_gpu sockets specialized_cores specialized_memory temporary_disk threads weight""",
    list: "active_features cert_flags features next_state_after_reboot partitions state",
    "number": "boot_time free_mem last_busy reason_changed_at resume_after slurmd_start_time tls_cert_last_renewal",
    dict: "energy external_sensors power",
}  # fmt: skip


def check(found, wanted):
    for kind, names in wanted.items():
        for name in names.split():
            value = found[name]
            if kind == "number":
                assert {key: isinstance(value[key], of) for key, of in NUMBER.items()} == dict.fromkeys(NUMBER, True), (
                    name
                )
            else:
                assert type(value) is kind, name


@pytest.mark.parametrize("job", [*ALL, *reports.jobs(), JobInfo()], ids=lambda job: f"{job.job_id}-{job.state}")
def test_all_keys_of_a_job(job):
    check(job_object(job, "tiny"), JOB)


@pytest.mark.parametrize("node", [*reports.nodes(), NodeInfo()], ids=lambda node: node.name)
def test_all_keys_of_a_node(node):
    check(node_object(node, "tiny"), NODE)


def test_what_a_rich_job_says():
    found: Any = job_object(ALL[0], "tiny")
    assert (found["core_spec"], found["thread_spec"], found["contiguous"], found["reboot"]) == (2, 65534, True, True)
    assert (found["tres_per_task"], found["tres_per_socket"]) == ("cpu=2,gres/gpu=1", "gres/gpu:h100:2")
    assert (found["deadline"]["number"], found["delay_boot"]["number"]) == (reports.at(9000) // 10**6, 1)


def test_partitions_and_reservations():
    document: Any = partitions_document(reports.partitions(), "tiny", reports.NOW_US)
    main = document["partitions"][0]
    assert set(document) == {"partitions", "last_update", "meta", "errors", "warnings"}
    assert (main["name"], main["maximums"]["time"]["infinite"]) == ("main", True)
    assert main["partition"] == {"state": ["UP"], "exclusive": "NO", "oversubscribe": "NO"}
    info = ReservationInfo(name="r", flags="MAINT,SPEC_NODES", node_count=2, users=["ann", "bob"], start_at_us=10**6)
    reserved: Any = reservations_document([info], "tiny", reports.NOW_US)
    (found,) = reserved["reservations"]
    assert (found["name"], found["flags"], found["users"]) == ("r", ["MAINT", "SPEC_NODES"], "ann,bob")
    assert found["start_time"] == {"set": True, "infinite": False, "number": 1}


def test_meta_names_the_command_as_it_was_typed(monkeypatch):
    for program in ("squeue", "/usr/bin/squeue", "/opt/cli/squeue.py"):
        monkeypatch.setattr("sys.argv", [program, "-u", "ann", "--json"])
        meta: Any = rest_of("tiny")["meta"]
        assert meta["command"] == ["squeue", "-u", "ann", "--json"]
        assert meta["client"]["source"] == os.readlink("/proc/self/fd/0")
