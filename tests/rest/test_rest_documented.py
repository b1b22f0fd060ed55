"""Slurm's documented examples of its REST interface, as they stand but for server, port, path and version."""

import json
import subprocess
from pathlib import Path

import pytest
from livecluster import LAUNCHERS
from liverest import LiveRest
from patience import ANSWER_S

VERSION = "v0.0.46"
BY_PORT = """curl -s -o "$OUT" -k -vvvv \\
-H X-SLURM-USER-TOKEN:$SLURM_JWT \\
-X GET '{url}/slurm/{version}/diag'
"""
BY_SOCKET = """curl -s -o "$OUT" -k -vvvv \\
-H X-SLURM-USER-TOKEN:$SLURM_JWT \\
--unix-socket {socket} \\
'http://localhost/slurm/{version}/diag'
"""
BY_NAME = """curl -s -o "$OUT" -v -H "X-SLURM-USER-NAME:$(id -un)" -H X-SLURM-USER-TOKEN:$SLURM_JWT {url}/slurm/{version}/diag
"""
ESCAPED = """curl -s -o "$OUT" -v -H X-SLURM-USER-TOKEN:$SLURM_JWT -X GET "{url}/slurmdb/{version}/jobs?submit_time=02%2F28%2F24"
"""
DOCUMENT = """curl -s -o "$OUT" -k -vvvv -H X-SLURM-USER-TOKEN:$SLURM_JWT -X GET '{url}/openapi/v3'
"""
SUBMIT = """curl -s -o "$OUT" -v -X POST "{url}/slurm/{version}/job/submit" -H "X-SLURM-USER-NAME:$(id -un)" \\
-H "X-SLURM-USER-TOKEN:$SLURM_JWT" -H "Content-Type: application/json" -d @job.json
"""
#: The member that the answer has.
EXAMPLES = {
    "port": (BY_PORT, "statistics"), "socket": (BY_SOCKET, "statistics"), "name": (BY_NAME, "statistics"),
    "escaped": (ESCAPED, "jobs"), "document": (DOCUMENT, "paths"), "submit": (SUBMIT, "job_id"),
}  # fmt: skip
JOB = {
    "script": "#!/bin/bash\nsrun hostname\n",
    "job": {
        "environment": ["PATH=/bin/:/usr/bin/:/sbin/"], "current_working_directory": "/tmp", "name": "test", "tasks": 1, "hold": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_curl(rest: LiveRest, tmp_path: Path, name: str) -> None:
    text, member = EXAMPLES[name]
    (tmp_path / "job.json").write_text(json.dumps(JOB))
    environment = f'unset SLURM_JWT; export $("{LAUNCHERS}/scontrol" token)\n'
    out = tmp_path / "curl.log"
    done = subprocess.run(
        ["sh", "-ec", environment + text.format(url=rest.url, socket=rest.socket, version=VERSION)],
        env={**rest.cluster.environment(), "OUT": str(out)}, cwd=tmp_path, capture_output=True, text=True, timeout=ANSWER_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "HTTP/1.1 200 OK" in done.stderr, done.stderr
    document = json.loads(out.read_text())
    assert document[member] is not None and document.get("errors", []) == []


@pytest.mark.parametrize(
    ("option", "listed"),
    [
        ("-d", ["data_parser/v0.0.43", "data_parser/v0.0.44", "data_parser/v0.0.45", "data_parser/v0.0.46"]),
        ("-s", ["openapi/slurmctld", "openapi/slurmdbd", "openapi/util"]),
        ("-a", ["rest_auth/jwt", "rest_auth/local"]),
    ],
)
def test_what_there_is_to_choose_is_listed(rest: LiveRest, option: str, listed: list[str]) -> None:
    """slurmrestd -d list: how the newest version is found."""
    assert rest.cluster.run("slurmrestd", option, "list").ok().out.splitlines() == listed
