"""What `scontrol show config` prints: every parameter in Slurm's spelling and form, in alphabetical order.

Tools decide by these lines what a cluster can do, and take a missing line for a missing feature. So keys that Penstock
reads show the value in force, keys that it ignores show what the file says, and the rest Slurm's own default.
"""

import pwd
import re
from collections.abc import Mapping

from penstock.config.cgroupconf import shown_cgroup
from penstock.config.keys import GLOBALS, SECRET
from penstock.config.policykinds import show_job_defaults
from penstock.values.config import Config

#: The release whose interface Penstock follows.
SLURM_VERSION = "25.05.0"

#: What Slurm shows for a user that the machine does not know: its 32-bit "no value".
_NO_UID = 4294967294

_NUMBER = re.compile(r"[0-9]+")


def shown_parameters(config: Config, ignored: Mapping[str, str], path: str) -> tuple[tuple[str, str], ...]:
    """Pairs for `show config`. `ignored` holds the file's texts for keys that are not used, by lower-case name."""
    pairs = {"SLURM_CONF": path, "SLURM_VERSION": SLURM_VERSION}
    for key in GLOBALS.keys:
        lower = key.name.lower()
        if lower in SECRET:
            continue
        if key.kind is not None:
            if key.field and key.shown is not None:
                pairs[key.name] = key.kind.shown(getattr(config, key.field))
        elif key.fixed and key.shown is not None:
            pairs[key.name] = key.shown
        elif lower in ignored:
            pairs[key.name] = _as_slurm(ignored[lower], key.shown)
        elif key.shown is not None:
            pairs[key.name] = key.shown
    pairs["JobDefaults"] = show_job_defaults(config.def_cpu_per_gpu, config.def_mem_per_gpu_mb) or "(null)"
    pairs |= shown_cgroup(config.cgroup)
    disable = bool(config.partitions) and all(part.disable_root_jobs for part in config.partitions)
    pairs |= {"DisableRootJobs": "yes" if disable else "no", "HASH_VAL": "Match"}
    pairs["SlurmUser"] = show_user(config.slurm_user)
    del pairs["SlurmctldHost"]
    same = config.controller_addr == config.controller_host
    pairs["SlurmctldHost[0]"] = config.controller_host + ("" if same else f"({config.controller_addr})")
    return tuple(sorted(pairs.items(), key=lambda pair: pair[0].lower()))


def show_user(name: str) -> str:
    """`name(uid)`."""
    uid = find_uid(name)
    return f"{name}({_NO_UID if uid is None else uid})"


def find_uid(name: str) -> int | None:
    """The uid of a user given by name or number; None if there is none on this machine."""
    try:
        return int(name) if _NUMBER.fullmatch(name) and len(name) <= 10 else pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return None


def _as_slurm(text: str, default: str | None) -> str:
    """A plain number gets the unit that the default has (`0 sec`)."""
    number, space, unit = (default or "").partition(" ")
    return f"{text} {unit}" if space and _NUMBER.fullmatch(number) and _NUMBER.fullmatch(text) else text
