"""The form of the web interface reads #SBATCH lines by itself (web/src/lib/options.ts). Of each script of web/cases the job that
it sends is the one that sbatch submits; what it cannot read it refuses (web/src/lib/options.test.ts)."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.base.options import OptionValues, parse
from cli.base.run import CommandError
from cli.jobs.jobrequest import check_conflicts, job_request, merge
from cli.jobs.script import directives
from cli.sbatch import COMMAND
from penstock.v1.common_pb2 import JobRequest
from rest.answers import RestError
from rest.contract.facts import load
from rest.contract.parse import parse as read
from rest.handlers.submission import NO_COMMAND, job_of

CASES = Path(__file__).parents[2] / "web" / "cases"
SCRIPTS: dict[str, list[str]] = json.loads((CASES / "scripts.json").read_text())
JOBS: list[dict[str, Any]] = json.loads((CASES / "jobs.json").read_text())
PATHS = load().versions["v0.0.46"].operations
SUBMIT = next(one["post"] for path, one in PATHS.items() if path.rstrip("/").endswith("job/submit"))
#: What a description needs that no line of these scripts says.
USUAL: dict[str, object] = {"name": "job", "current_working_directory": "/work", "environment": ["A=1"]}


def of_sbatch(script: str) -> JobRequest:
    """Raises CommandError."""
    values = OptionValues()
    for directive in directives(script.encode()):
        line = parse(COMMAND, directive.words)
        if line.positional:
            raise CommandError(line.positional[0])
        values = merge(values, line.values)
    check_conflicts(values)
    request = job_request(values)
    request.name = values.text("job_name", "job")
    request.work_dir = request.submit_dir = values.text("chdir", "/work").encode()
    request.command = NO_COMMAND
    request.gpus_per_node_asked = False  # the interface has one member for --gres and --gpus-per-node
    return request


def of_rest(job: dict[str, object]) -> JobRequest:
    """Raises RestError."""
    assert SUBMIT.body is not None
    body: Any
    body, found = read({"script": "#!/bin/sh\n", "job": USUAL | job}, SUBMIT.body, must_be_complete=False)
    assert not (found.errors or found.warnings)
    return job_of(body["job"], "#/job", lambda text, source: pytest.fail(f"{source}: {text}"))


def test_each_script_has_a_job():
    assert [one["script"] for one in JOBS] == SCRIPTS["read"] and len(JOBS) > 200
    assert len({one["script"] for one in JOBS}) == len(JOBS)


@pytest.mark.parametrize("case", JOBS, ids=lambda one: one["script"].removeprefix("#!/bin/sh\n").strip()[:60])
def test_the_form_sends_what_sbatch_submits(case):
    """Or neither takes it."""
    job = case["job"]
    try:
        request = of_sbatch(case["script"])
    except CommandError:
        if job is not None:
            with pytest.raises(RestError):
                of_rest(job)
        return
    assert job is not None, "sbatch takes it"
    assert of_rest(job) == request
