"""schemathesis against every path of both OpenAPI documents: no 5xx, and each answer has a status, a content type and a form
that the document states.

A controller and a REST daemon, as their administrator, so that what is drawn reaches beyond the rights; no node, so that nothing
that is drawn is run. The draws are seeded. Left out: the stream of events, which has no end.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from clientvenv import python_of
from effort import FULL
from livecluster import LiveCluster
from liverest import JWT, LiveRest
from patience import LONGEST_S

from rest.handlers.own import OWN_PATHS

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance",
)  # fmt: skip


@pytest.fixture(scope="module")
def rest() -> Iterator[LiveRest]:
    cluster = LiveCluster(2, JWT)
    try:
        cluster.start_controller()
        rest = LiveRest(cluster)
        rest.start()
        yield rest
    finally:
        cluster.close()


def draw(rest: LiveRest, folder: Path, document: str, *options: str) -> str:
    """Runs schemathesis; returns what it prints."""
    token = rest.token()
    with rest.as_user(token=token) as client:
        (folder / "document.json").write_bytes(client.get(document).raise_for_status().content)
    program = python_of("openapi").with_name("schemathesis")
    words: list[str | Path] = [
        program, "--no-color", "run", folder / "document.json", "--url", rest.url, "--phases", "fuzzing", "--seed", "1",
        "--header", f"X-SLURM-USER-TOKEN: {token}", "--checks", ",".join(CHECKS), "--suppress-health-check", "all",
        "--generation-database", "none", "--continue-on-failure", "--no-shrink", *options,
    ]  # fmt: skip
    done = subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:] + rest.log()[-2000:]
    return done.stdout


def operations(said: str) -> tuple[int, int]:
    """How many operations were chosen, and how many were tested."""
    found = re.search(r"Selected: (\d+)/\d+\s+Tested: (\d+)", said)
    assert found, said
    return int(found[1]), int(found[2])


class Draw(NamedTuple):
    """What one test draws. `examples`: requests of each operation."""

    document: str
    options: tuple[str, ...]
    operations: int
    examples: int


DRAWS = {
    "newest": Draw("/openapi.json", ("--include-path-regex", r"/v0\.0\.46/"), 74, 1),
    # The same handlers: what differs is the form of the answers.
    "older": Draw(
        "/openapi.json",
        ("--exclude-path-regex", r"/v0\.0\.46/"),
        204,
        1,
    ),
    "own": Draw("/penstock/v1/openapi.json", ("--exclude-path-regex", "^/penstock/v1/events$"), len(OWN_PATHS), 1),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "older" else name for name in DRAWS]
)
def test_no_5xx_and_nothing_that_the_document_lacks(rest: LiveRest, tmp_path: Path, name: str) -> None:
    wanted = DRAWS[name]
    said = draw(rest, tmp_path, wanted.document, *wanted.options, "-n", f"{50 if FULL else wanted.examples}")
    assert operations(said) == (wanted.operations, wanted.operations)
