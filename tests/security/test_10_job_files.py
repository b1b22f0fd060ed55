"""Item 10, for `penstock submit FILE`: whatever a file has, it is an error of the file in a line, and none of ours.

Found: a number of thousands of digits in TOML, a character beyond Unicode in YAML, and half of a surrogate pair were internal
errors.
"""

from pathlib import Path

import pytest

from cli.base.run import CommandError
from rest.jobfiles.command import request_of

HOSTILE = {
    "digits.toml": b"[job]\ntasks=" + b"9" * 6000,
    "digits.json": b'{"job": {"tasks": ' + b"9" * 6000 + b"}}",
    "beyond.yaml": b'job: {script: "\\UFFFFFFFF"}',
    "beyond1.yaml": b'job: {script: "\\U00110000"}',
    "infinite.json": b'{"job": {"script": "#!/bin/sh", "tasks": 1e999}}',
    "infinite.toml": b'[job]\nscript="#!/bin/sh"\ntasks=inf\n',
    "deep.yaml": b"[" * 20000,
    "deep.json": b"[" * 200000,
    "deep.toml": b"a=" + b"[" * 20000,
    "half.json": b'{"job": {"script": "#!/bin/sh \\ud800"}}',
    "half.yaml": b'job: {script: "#!/bin/sh \\ud800"}',
    "zero.yaml": b"job: {script: '\0'}",
    "bytes.yaml": b"job: {script: '\xff'}",
    "many.yaml": b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "code.yaml": b"job: !!python/object/apply:os.system ['true']",
    "twice.json": b'{"job": {}, "job": {}}',
    "keys.yaml": b"? [a, b]\n: 1\n",
    "terminal.yaml": b'"\\e]0;owned\\a": 1',
    "tasks.yaml": b"job: {script: '#!/bin/sh', array: '0-4294967295'}",
    "nodes.yaml": b"job: {script: '#!/bin/sh', required_nodes: ['n[0-999999999]']}",
    "parts.yaml": b"script: '#!/bin/sh'\njobs:\n" + b"- {tasks: 1}\n" * 200,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_10_no_file_makes_an_unexpected_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    with pytest.raises(CommandError) as refused:
        request_of(str(path))
    assert len(str(refused.value)) < 2000


def test_10_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(CommandError, match="/dev/zero: larger than"):
        request_of("/dev/zero")
