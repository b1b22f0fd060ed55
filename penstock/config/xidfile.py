"""Reads the site's classes of XIDs (PenstockXidFile), TOML beside `slurm.conf`, and checks the GPU keys for
consistency.

    [[xid]]
    number = 13
    class = "ignore"      # a key of penstock.values.gpustates.XID_CLASSES

Entries of the file override the node daemon's built-in table; other XIDs keep their class. The controller reads the
file and sends it to the nodes.
"""

import os
import tomllib
from typing import Final

from penstock.boundedfile import read_bounded
from penstock.config.lines import Values
from penstock.config.problem import Findings, Where
from penstock.values.fields import Fields
from penstock.values.gpustates import XID_CLASSES

#: The driver's numbers are currently below 200.
XID_MAX: Final = 65_535
#: Maximum size of the file; a table of all XIDs has about ten thousand bytes.
FILE_BYTES_MAX: Final = 1024 * 1024
_KEYS: Final = ("number", "class")


def read_gpu_keys(folder: str, values: Values, findings: Findings) -> tuple[Fields, tuple[str, ...]]:
    """Reads the fields of `Config` that slurm.conf does not set directly; returns them and the files read."""
    _check(values, findings)
    name = values.value("gpu_xid_file", "")
    if not name:
        return {}, ()
    path = os.path.join(folder, name)
    try:
        table = tomllib.loads(read_bounded(path, FILE_BYTES_MAX).decode())
    except OSError as error:
        findings.error(values["gpu_xid_file"].where, f"PenstockXidFile: {path}: {error.strerror}")
        return {}, ()
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        findings.error(Where(path, 0), f"it is no TOML: {error}")
        return {}, (path,)
    return {"gpu_xids": _rules(table, Where(path, 0), findings)}, (path,)


def _rules(table: dict[str, object], where: Where, findings: Findings) -> tuple[tuple[int, str], ...]:
    for key in table:
        if key != "xid":
            findings.error(where, f"unknown key {key}; write [[xid]] tables with number= and class=")
    entries = table.get("xid", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        findings.error(where, "xid: write [[xid]] above number= and class=")
        return ()
    rules: dict[int, str] = {}
    for place, entry in enumerate(entries, 1):
        number, name = entry.get("number"), entry.get("class")
        for key in entry:
            if key not in _KEYS:
                findings.error(where, f"xid no. {place}: unknown key {key}; known: {', '.join(_KEYS)}")
        if type(number) is not int or not 0 <= number <= XID_MAX:
            findings.error(where, f"xid no. {place}: number: expected 0 to {XID_MAX}, not {number!r}")
        elif not isinstance(name, str) or name not in XID_CLASSES:
            findings.error(where, f"xid {number}: class: expected one of {', '.join(XID_CLASSES)}, not {name!r}")
        elif number in rules:
            findings.error(where, f"xid {number} is given twice")
        else:
            rules[number] = name
    return tuple(rules.items())


def _check(values: Values, findings: Findings) -> None:
    """Reports settings that require another one to have an effect."""
    for field, key, other, needs in (
        ("gpu_check_interval_h", "PenstockGpuCheckInterval", "gpu_check_program", "PenstockGpuCheckProgram"),
        ("gpu_idle_limit_s", "PenstockGpuIdleLimit", "gpu_idle_warn_s", "PenstockGpuIdleWarn"),
        ("gpu_idle_action", "PenstockGpuIdleAction", "gpu_idle_limit_s", "PenstockGpuIdleLimit"),
    ):
        if values.value(field, 0) not in (0, "warn") and not values.value(other, 0):
            findings.warn(values[field].where, f"{key} does nothing without {needs}")
