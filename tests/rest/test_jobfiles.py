"""Job files: what a text means in each format, where its errors are, and the request that becomes of it."""

import contextlib
import json
import os
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import NotKnown
from penstock.v1.controller_pb2 import SubmitJobReply
from rest.jobfiles import command
from rest.jobfiles.places import FilePlace, place_of, toml_places
from rest.jobfiles.reading import FileError, parse_text
from tests.cli.fake_controller import FakeClient, run_body

YAML = """\
job:
  name: train
  nodes: 2
  tasks: 4
  time_limit: 90
  memory_per_node: {set: true, number: 4096}
  tres_per_node: gres/gpu:2
  current_working_directory: /work
  environment:
    PATH: /bin:/usr/bin
    EPOCHS: 3
script: |
  #!/bin/sh
  srun train.py
"""
TOML = """\
script = '''
#!/bin/sh
name = "not a key"
srun train.py
'''
[job]
name = "train"
nodes = "2"
tasks = 4
time_limit = 90
memory_per_node = 4096
tres_per_node = "gres/gpu:2"
current_working_directory = "/work"
environment = [
  "PATH=/bin:/usr/bin",
  "EPOCHS=3",
]
"""
JSON = json.dumps(
    {
        "job": {
            "name": "train", "nodes": "2", "tasks": 4, "time_limit": {"number": 90, "set": True}, "memory_per_node": 4096,
            "tres_per_node": "gres/gpu:2", "current_working_directory": "/work",
            "environment": ["PATH=/bin:/usr/bin", "EPOCHS=3"],
        },
        "script": "#!/bin/sh\nsrun train.py\n",
    },
    indent=1,
)  # fmt: skip
#: What JSON escapes with one \\u.
BMP = st.characters(codec="utf-8", max_codepoint=0xD7FF)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.text(BMP, max_size=12)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(BMP, max_size=8), inner, max_size=3)),
    max_leaves=12,
)


def submit(capsys: Any, monkeypatch: Any, path: Path | str, *words: str, reply: Any = None) -> tuple[Any, Any]:
    client = FakeClient(SubmitJob=reply or SubmitJobReply(job_id=7)).install(monkeypatch)
    return client, run_body(capsys, "penstock submit", command.main, *words, str(path))


# ---- one meaning


@pytest.mark.parametrize(
    ("suffix", "text"), [(".yaml", YAML), (".yml", YAML), (".toml", TOML), (".json", JSON), (".txt", YAML)]
)
def test_each_format_makes_the_same_request(capsys, monkeypatch, tmp_path, suffix, text):
    path = tmp_path / f"job{suffix}"
    path.write_text(text)
    client, answer = submit(capsys, monkeypatch, path)
    assert answer == (0, "Submitted batch job 7\n", "")
    sent = client.request
    job = sent.job
    assert (job.name, job.nodes_min, job.ntasks, job.time_limit_s, job.mem_per_node_mb) == ("train", 2, 4, 5400, 4096)
    assert [(one.name, one.count) for one in job.gres_per_node] == [("gpu", 2)]
    assert (job.work_dir, job.submit_dir, job.command) == (b"/work", os.getcwdb(), str(path))
    assert list(sent.spec.environment) == [b"PATH=/bin:/usr/bin", b"EPOCHS=3"]
    assert sent.spec.script.startswith(b"#!/bin/sh\n") and sent.spec.script.endswith(b"srun train.py\n")
    assert job.submit_line == f"penstock submit {path}" and job.rlimits["NOFILE"] and len(sent.request_key) == 32


def test_what_the_file_does_not_say_is_the_shells(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINE", "of the shell")
    monkeypatch.setenv("SLURM_JWT", "secret")
    (tmp_path / "sweep.toml").write_text(
        "script = '''#!/bin/sh\n'''\n[job]\narray = '1-3'\ncurrent_working_directory = 'out'\n"
    )
    client, (status, _, _) = submit(capsys, monkeypatch, "sweep.toml")
    assert status == 0
    job, spec = client.request.job, client.request.spec
    assert (job.name, job.array, job.work_dir) == ("sweep", "1-3", os.fsencode(tmp_path / "out"))
    assert b"MINE=of the shell" in spec.environment
    assert not any(line.startswith(b"SLURM_JWT=") for line in spec.environment)


def test_components_and_standard_input(capsys, monkeypatch):
    text = b"script: '#!/bin/sh'\njobs:\n- {name: a, tasks: 1}\n- {name: b, tasks: 2}\n"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text)))
    client, (status, out, _) = submit(capsys, monkeypatch, "-", "--parsable")
    assert (status, out) == (0, "7\n")
    assert [(one.name, one.ntasks) for one in (client.request.job, *client.request.components)] == [("a", 1), ("b", 2)]


def test_a_test_and_a_lost_answer(capsys, monkeypatch, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(YAML)
    reply = SubmitJobReply(job_id=7, start_at_us=1_800_000_000_000_000, node_list="n1", partition="main", cpus=4)
    client, (status, out, err) = submit(capsys, monkeypatch, path, "--test-only", reply=reply)
    assert (status, out) == (0, "") and client.request.test_only
    assert err.startswith("penstock submit: Job 7 to start at ") and err.endswith(
        "using 4 processors on nodes n1 in partition main\n"
    )
    client, (status, out, err) = submit(capsys, monkeypatch, path, reply=NotKnown())
    assert (status, out) == (1, "")
    assert (
        "It is not known whether the job was submitted" in err and f"--request-key={client.request.request_key}" in err
    )
    key = client.request.request_key
    client, _ = submit(capsys, monkeypatch, path, f"--request-key={key}")
    assert client.request.request_key == key


# ---- what is wrong, and where


@pytest.mark.parametrize(("suffix", "text", "lines"), [
    (".yaml", YAML.replace("  tasks: 4", "  task: 4"), ["4:3: job/task: unknown member: is tasks meant?"]),
    (".yaml", YAML.replace("nodes: 2", "nodes: [2"), ["4:8: not YAML: expected ',' or ']', but got ':'"]),
    (".yaml", YAML.replace("tasks: 4", "tasks: many"), ['4:3: job/tasks: expected a number, found "many"']),
    (".yaml", YAML.replace("tasks: 4", "tasks: 4\n  tasks: 5"), ["5:3: tasks is there twice"]),
    (".yaml", YAML.replace("tasks: 4", "tasks: !!python/object:os.system 4"), ["4:10: tags are not read: tag:yaml.org,2002:python/object:os.system"]),
    (".yaml", YAML.replace("nodes: 2", "nodes: &n 2").replace("tasks: 4", "tasks: *n"),
     ["3:10: references to anchors (*name) are not read: write the value again"]),
    (".yaml", YAML.replace("name: train", "nme: 1\n  nam: 2"), ["2:3: job/nme: unknown member: is name meant?",
                                                                "3:3: job/nam: unknown member: is name meant?"]),
    (".yaml", YAML.replace("#!/bin/sh", "echo"), ["12:1: script: This does not look like a batch script.*"]),
    (".yaml", "job: {}\n", [": script: script is missing"]),
    (".yaml", "- a\n", [": expected an object, found a list"]),
    (".yaml", "", [": job: the request has neither job nor jobs"]),
    (".toml", TOML.replace("tasks = 4", "task = 4"), ["9:1: job/task: unknown member: is tasks meant?"]),
    (".toml", TOML.replace("tasks = 4", "tasks = "), ["9:9: not TOML: Invalid value"]),
    (".toml", TOML.replace("tasks = 4", "tasks = 2026-01-01"), ['9:1: job/tasks: expected a number, found "2026-01-01"']),
    (".json", JSON.replace('"tasks"', '"task"'), ["5:3: job/task: unknown member: is tasks meant?"]),
    (".json", JSON.replace('"tasks": 4,', '"tasks": 4'), ["6:3: not JSON: Expecting ',' delimiter"]),
    (".json", JSON.replace('"tasks": 4,', '"tasks": NaN,'), [": not JSON: NaN is no number"]),
    (".json", JSON.replace('"tasks": 4,', '"tasks": 4, "tasks": 5,'), [": tasks is there twice"]),
    (".yaml", "[" * 2_000, [": nested too deep"]),
    (".json", "[" * 100_000, [": nested too deep"]),
])  # fmt: skip
def test_an_error_has_its_place_and_nothing_is_sent(capsys, monkeypatch, tmp_path, suffix, text, lines):
    path = tmp_path / f"job{suffix}"
    path.write_text(text)
    client, (status, out, err) = submit(capsys, monkeypatch, path)
    assert (status, out, client.calls) == (1, "", [])
    told = err.splitlines()
    for line, wanted in zip(told, lines, strict=True):
        begin = f"penstock submit: error: {path}{'' if wanted.startswith(':') else ':'}"
        assert line.startswith(begin)
        said = line.removeprefix(begin)
        assert said == wanted or (wanted.endswith("*") and said.startswith(wanted[:-1]))


def test_files_that_cannot_be_read(capsys, monkeypatch, tmp_path):
    (tmp_path / "job.yaml").write_bytes(b"job:\n  name: \xff\n")
    for path, why in ((tmp_path / "job.yaml", f"{tmp_path}/job.yaml:2: not UTF-8"), (tmp_path, f"{tmp_path}: Is a directory"),
                      (tmp_path / "no", f"{tmp_path}/no: No such file or directory")):  # fmt: skip
        _, answer = submit(capsys, monkeypatch, path)
        assert answer == (1, "", f"penstock submit: error: {why}\n")


def test_plain_words_of_yaml_mean_themselves():
    text = "{a: yes, b: 1:30:00, c: 2026-01-01, d: 0x10, e: 007, f: 1e3, g: null, h: ~, i: '5', j: on, k: -3, l: <<}"
    assert parse_text(text, ".yaml").value == {
        "a": "yes", "b": "1:30:00", "c": "2026-01-01", "d": "0x10", "e": 7, "f": 1000.0, "g": None, "h": None, "i": "5",
        "j": "on", "k": -3, "l": "<<",
    }  # fmt: skip


@given(VALUES)
def test_json_in_a_yaml_file_means_the_same(value):
    text = json.dumps(value)
    assert parse_text(text, ".json").value == parse_text(text, ".yaml").value == value


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.sampled_from([".yaml", ".toml", ".json"]))
def test_any_text_is_a_value_or_an_error(text, suffix):
    with contextlib.suppress(FileError):  # no other error
        parse_text(text, suffix)


def test_places_of_tables():
    text = 'a = 1\n[[jobs]]\nname = "a"\n[jobs.rlimits]\nnofile = 5\n[[jobs]]\n  name = "b"\nlist = [\n  "x = 1",\n]\n"q.r".s = 2\n'
    places = toml_places(text)
    assert places["a",] == FilePlace(1, 1)
    assert (places["jobs", "0"], places["jobs", "1"]) == (FilePlace(2, 1), FilePlace(6, 1))
    assert places["jobs", "0", "rlimits", "nofile"] == FilePlace(5, 1)
    assert places["jobs", "1", "name"] == FilePlace(7, 3)
    assert places["jobs", "1", "q.r", "s"] == FilePlace(11, 1)
    assert place_of("#/jobs/1/list/0", places) == FilePlace(8, 1) and place_of("#/other", places) is None
    assert not any("x" in path for path in places)
