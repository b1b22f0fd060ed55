"""The modules that a command in plain Python does not import before it knows its options: each costs every start."""

import subprocess
import sys

import pytest
from patience import ANSWER_S

#: In the order of their cost. What h2 and protobuf import themselves (inspect, dataclasses, logging, re) is not here.
HEAVY = (
    "numpy", "grpc", "sqlalchemy", "asyncio", "cryptography", "multiprocessing", "ssl", "importlib.metadata",
    "google.protobuf.text_format", "google.protobuf.internal.decoder", "google.protobuf.json_format", "email", "http",
    "urllib.request", "concurrent.futures", "unittest", "click", "msgspec", "subprocess", "argparse", "pathlib", "tempfile",
    "random", "uuid", "decimal", "ctld", "nodedaemon", "accounting", "cli.penstock",
)  # fmt: skip


@pytest.mark.parametrize("name", ["sbatch", "squeue", "srun", "salloc", "scancel", "sinfo"])
def test_what_a_plain_start_does_not_import(name: str) -> None:
    code = f"import sys; import cli.{name}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=ANSWER_S)
    assert sorted(set(done.stdout.split()) & set(HEAVY)) == []


def test_messages_work_without_the_implementation_in_python() -> None:
    code = (
        "import sys; from penstock.v1 import controller_pb2 as pb; from google.protobuf import text_format, json_format;"
        "one = pb.SubmitJobReply(job_id=7); print(text_format.MessageToString(one), one, json_format.MessageToDict(one))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=ANSWER_S)
    assert done.stdout.split() == ["job_id:", "7", "job_id:", "7", "{'jobId':", "7}"]
