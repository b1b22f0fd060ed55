"""Reads `job_container.conf`, beside `slurm.conf`: the folder of private /tmp and /dev/shm of jobs.

It is read if JobContainerType=job_container/tmpfs or NamespaceType=namespace/tmpfs is set, unless PenstockPrivateTmp in
slurm.conf sets the same. BasePath and Dirs are used; AutoBasePath is always in effect. Settings apply to all nodes:
BasePath on NodeName lines and the newer namespace.yaml are reported as errors.
"""

import os

from penstock.config.keys import CONTAINER
from penstock.config.lines import LineReader, Values
from penstock.config.problem import Findings, Where
from penstock.config.syntax import read_statements
from penstock.values.fields import Fields

_WANTS = {"job_container_type": "job_container/tmpfs", "namespace_type": "namespace/tmpfs"}


def read_container_conf(
    folder: str, fields: Fields, values: Values, findings: Findings
) -> tuple[Fields, tuple[str, ...]]:
    """Reads the file; returns fields of `Config`, and the files read. Private folders without a base path are an error."""
    asked = [values[name].where for name, word in _WANTS.items() if fields.get(name) == word]
    if not asked or fields.get("private_tmp"):
        return {}, ()
    path = os.path.join(folder, "job_container.conf")
    if not os.path.lexists(path):
        findings.error(
            asked[0],
            "private folders need a place: write PenstockPrivateTmp=/FOLDER here, or BasePath=/FOLDER in "
            "job_container.conf beside this file (namespace.yaml is not read)",
        )
        return {}, ()
    statements, files = read_statements(path, findings)
    reader = LineReader(CONTAINER, findings)
    found: Fields = {}
    for statement in statements:
        first = statement.tokens[0]
        if first.key.lower() == "nodename":
            findings.error(first.where, "lines for single nodes are not read: give one BasePath for all")
            continue
        found |= {name: value.value for name, value in reader.read(statement.tokens).items()}
    if "private_tmp" not in found:
        findings.error(Where(path, 0), "BasePath is not set")
    return found, files
