"""Reads the other files beside slurm.conf, for features of Slurm that Penstock lacks or implements differently.

Of slurmdbd.conf some keys apply to the controller, which includes accounting: PrivateData (added to slurm.conf's),
TrackWCKey, and the purge settings (Purge*After, Archive*, ArchiveDir). The other keys and files cause one warning each,
with the reason.
"""

import os
from collections.abc import Container

from penstock.config import notused
from penstock.config.keys import Key, Table, not_used
from penstock.config.kinds import PATH, YES_NO_SMALL, ValueKind
from penstock.config.lines import LineReader
from penstock.config.policykinds import PRIVATE_DATA
from penstock.config.problem import Findings, Ignored, Where
from penstock.config.syntax import read_statements
from penstock.values.fields import Fields
from penstock.values.purging import Age, parse_age

#: Kinds of records, as in the names of the keys.
_PURGED = (
    ("Event", "events"), ("Job", "jobs"), ("Resv", "reservations"), ("Step", "steps"), ("Suspend", "suspend"),
    ("TXN", "transactions"), ("Usage", "usage"),
)  # fmt: skip
AGE = ValueKind(parse_age, Age.text)

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

#: Name: its purpose in Slurm, and why it has no effect here.
_OTHERS = {
    "acct_gather.conf": (
        "how energy, network and file systems are measured, and where profiles are written",
        "not measured; CPU, memory, disk and GPU use of tasks is, and the energy of GPUs",
    ),
    "burst_buffer.conf": ("where data is staged", "there are no burst buffers: jobs with --bb are refused"),
    "cli_filter.lua": ("changes options in sbatch, salloc and srun", "CliFilterPlugins does not name lua"),
    "helpers.conf": ("programs that change features of nodes", "features are those of the node's line"),
    "job_submit.lua": ("changes or refuses jobs when they are submitted", "JobSubmitPlugins does not name lua"),
    "jobcomp_kafka.conf": ("where finished jobs are written", "every job is recorded in the accounting tables (sacct)"),
    "knl.conf": ("modes of a processor that is no longer made", "features are those of the node's line"),
    "mpi.conf": ("settings of PMIx", "srun has its own PMI-2 and PMIx, without settings"),
    "namespace.yaml": ("folders that each job has alone", "PenstockPrivateTmp or job_container.conf set it"),
    "oci.conf": ("how containers are run", "--container is refused"),
    "plugstack.conf": ("SPANK plug-ins", "Slurm's compiled plug-ins cannot be loaded"),
}


#: Files that are used where a list of plug-ins names lua.
LUA_FILES = {"cli_filter.lua": "cli_filter_plugins", "job_submit.lua": "job_submit_plugins"}


def read_side_files(
    folder: str, private_data: tuple[str, ...], used: Container[str], findings: Findings
) -> tuple[Fields, tuple[str, ...]]:
    """Reads the files, of which one adds to PrivateData; returns the fields of `Config` that change, and the files read.
    `used`: names of those that are no concern of this."""
    for name, (does, why) in _OTHERS.items():
        path = os.path.join(folder, name)
        if name not in used and os.path.lexists(path):
            findings.ignore(Ignored(Where(path, 0), name, "", "", does, why))
    path = os.path.join(folder, "slurmdbd.conf")
    if not os.path.lexists(path):
        return {}, ()
    if not os.access(path, os.R_OK):  # Slurm requires that only its own user can read it
        findings.warn(Where(path, 0), "cannot be read; PrivateData and TrackWCKey are taken from slurm.conf alone")
        return {}, ()
    statements, files = read_statements(path, findings)
    values = LineReader(SLURMDBD, findings).read(token for one in statements for token in one.tokens)
    changed: Fields = {}
    if found := values.value("private_data"):
        changed["private_data"] = PRIVATE_DATA.read(",".join((*private_data, *found)), "PrivateData")
    if values.value("track_wckey"):
        changed["track_wckey"] = True
    ages = ((kind, values.value(f"purge_{kind}")) for _, kind in _PURGED)
    changed["purge_after"] = tuple((kind, age.number, age.unit) for kind, age in ages if age is not None)
    changed["archive"] = tuple(kind for _, kind in _PURGED if values.value(f"archive_{kind}"))
    changed["archive_dir"] = values.value("archive_dir") or ""
    return changed, files
