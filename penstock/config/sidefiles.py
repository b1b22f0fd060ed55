"""Files that lie beside slurm.conf and belong to parts of Slurm that Penstock has not, or has in another way.

Of slurmdbd.conf some keys apply to the controller, since accounting is a part of it: PrivateData adds to slurm.conf's,
TrackWCKey, and what is purged when (Purge*After, Archive*, ArchiveDir). The others, and the other
files, draw one warning each that says why, so that nobody looks for their effect.
"""

import os
from typing import Any

from penstock.config import notused
from penstock.config.keys import Key, Table, not_used
from penstock.config.kinds import PATH, YES_NO_SMALL, Kind
from penstock.config.lines import LineReader
from penstock.config.policykinds import PRIVATE_DATA
from penstock.config.problem import Findings, Ignored, Where
from penstock.config.syntax import read_statements
from penstock.values.purging import Age, parse_age

#: Kinds of records, as the keys about them are named.
_PURGED = (
    ("Event", "events"), ("Job", "jobs"), ("Resv", "reservations"), ("Step", "steps"), ("Suspend", "suspend"),
    ("TXN", "transactions"), ("Usage", "usage"),
)  # fmt: skip
AGE = Kind(parse_age, Age.text)

#: Lines of slurmdbd.conf.
SLURMDBD = Table(
    "slurmdbd.conf",
    (
        Key("PrivateData", "private_data", PRIVATE_DATA),
        Key("TrackWCKey", "track_wckey", YES_NO_SMALL),
        Key("ArchiveDir", "archive_dir", PATH),
        *(Key(f"Archive{word}s", f"archive_{kind}", YES_NO_SMALL) for word, kind in _PURGED[:4]),
        *(Key(f"Archive{word}", f"archive_{kind}", YES_NO_SMALL) for word, kind in _PURGED[4:]),
        *(Key(f"Purge{word}{end}", f"purge_{kind}", AGE) for word, kind in _PURGED for end in ("After", "Months")),
        *not_used(notused.SLURMDBD),
    ),
)

#: Name: what it says in Slurm, and why it does not here.
_OTHERS = {
    "acct_gather.conf": (
        "how energy, network and file systems are measured, and where profiles are written",
        "these are not measured; CPU, memory, disk and GPU use of tasks is",
    ),
    "burst_buffer.conf": ("where data is staged", "there is none: jobs with --bb are refused"),
    "cli_filter.lua": ("changes options in sbatch, salloc and srun", "options are taken as they are given"),
    "helpers.conf": ("programs that change features of nodes", "features are what the node's line says"),
    "job_submit.lua": ("changes or refuses jobs when they are submitted", "jobs are taken as they are"),
    "jobcomp_kafka.conf": ("where finished jobs are written", "every job is kept in the accounting tables (sacct)"),
    "knl.conf": ("modes of a processor that is no longer made", "features are what the node's line says"),
    "mpi.conf": ("settings of PMIx", "srun has its own PMI-2 and PMIx, without settings"),
    "namespace.yaml": ("folders that each job has alone", "PenstockPrivateTmp or job_container.conf say it"),
    "oci.conf": ("how containers are run", "--container is refused"),
    "plugstack.conf": ("SPANK plug-ins", "Slurm's compiled plug-ins cannot be loaded"),
}


def read_side_files(folder: str, fields: dict[str, Any], findings: Findings) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of `Config` that change, and the files that were read."""
    for name, (does, why) in _OTHERS.items():
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            findings.ignore(Ignored(Where(path, 0), name, "", "", does, why))
    path = os.path.join(folder, "slurmdbd.conf")
    if not os.path.lexists(path):
        return {}, ()
    if not os.access(path, os.R_OK):  # Slurm wants it readable for its own user alone
        findings.warn(Where(path, 0), "cannot be read; PrivateData and TrackWCKey are taken from slurm.conf alone")
        return {}, ()
    statements, files = read_statements(path, findings)
    values = LineReader(SLURMDBD, findings).read(token for one in statements for token in one.tokens)
    changed: dict[str, Any] = {}
    if found := values.value("private_data"):
        own = fields.get("private_data", ())
        changed["private_data"] = PRIVATE_DATA.read(",".join((*own, *found)), "PrivateData")
    if values.value("track_wckey"):
        changed["track_wckey"] = True
    ages = ((kind, values.value(f"purge_{kind}")) for _, kind in _PURGED)
    changed["purge_after"] = tuple((kind, age.number, age.unit) for kind, age in ages if age is not None)
    changed["archive"] = tuple(kind for _, kind in _PURGED if values.value(f"archive_{kind}"))
    changed["archive_dir"] = values.value("archive_dir") or ""
    return changed, files
