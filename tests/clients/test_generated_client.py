"""Clients that a generator in common use makes of our OpenAPI documents: openapi-python-client, unmodified, without a warning."""

import json
import re
import subprocess
from pathlib import Path

from clientvenv import CASES, group_of, python_of
from effort import FULL
from livecluster import ClusterConf, LiveCluster, logs_if_failed
from liverest import JWT, LiveRest
from patience import END_S, LONGEST_S

CASE = CASES / "generated_client.py"
GROUP = group_of(CASE)
CONF = ClusterConf(gpus=1, more=JWT.more)
#: The package that is made, by the document.
DOCUMENTS = {"slurm_client": "/openapi.json", "penstock_client": "/penstock/v1/openapi.json"}


def of_newest(document: bytes) -> bytes:
    """The document of Slurm's interface without its older versions, of which the client here calls none: most of it, and of what
    it takes to make a client. `make test-full` makes one of all."""
    older = re.compile(r"v0\.0\.(?!46)\d+")
    found = json.loads(document)
    parts = (found["paths"], found["components"]["schemas"], found["components"]["responses"])
    for part in () if FULL else parts:
        for name in [one for one in part if older.search(one)]:
            del part[name]
    return json.dumps(found).encode()


def generate(document: bytes, folder: Path, package: str) -> None:
    """Makes the package. The formatter that the generator would start is not installed."""
    source = folder / f"{package}.json"
    source.write_bytes(document)
    config = folder / "generator.json"
    config.write_text('{"post_hooks": []}')
    generator = python_of(GROUP).with_name("openapi-python-client")
    words: list[str | Path] = [
        generator,
        "generate",
        "--path",
        source,
        "--output-path",
        folder / package,
        "--meta",
        "none",
        "--config",
        config,
    ]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.returncode == 0 and "arning" not in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_client_made_of_our_documents_works(tmp_path: Path, request) -> None:
    with LiveCluster(2, CONF) as cluster, logs_if_failed(cluster, request.session):
        rest = LiveRest(cluster)
        rest.start()
        token = rest.token()
        with rest.as_user(token=token) as client:
            for package, path in DOCUMENTS.items():
                generate(of_newest(client.get(path).raise_for_status().content), tmp_path, package)
        done = subprocess.run(
            [python_of(GROUP), CASE], cwd=tmp_path, text=True, timeout=LONGEST_S, check=False,
            input=json.dumps({"url": rest.url, "token": token}), env={"CASE_LIMIT_S": f"{END_S}"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0 and done.stdout.splitlines()[-1] == "ok generated_client", done.stdout
