"""The output of `scontrol show config`: all parameters in Slurm's spelling and format, in alphabetical order.

Tools use these lines to detect a cluster's features, and take a missing line for a missing feature. So keys that
Penstock uses have their current value, keys that it ignores have the file's value, and the others have Slurm's default.
"""

import pwd
import re
from collections.abc import Mapping

from penstock import SLURM_VERSION, __version__
from penstock.config.cgroupconf import shown_cgroup
from penstock.config.keys import GLOBALS, SECRET
from penstock.config.policykinds import show_job_defaults
from penstock.values.config import Config
from penstock.values.names import why_no_login

#: Slurm's value for a user that does not exist on the machine: its 32-bit "no value".
_NO_UID = 4294967294

_NUMBER = re.compile(r"[0-9]+")


def shown_parameters(config: Config, ignored: Mapping[str, str], path: str) -> tuple[tuple[str, str], ...]:
    """Returns the pairs of `show config`. `ignored`: the file's values of unused keys, by lower-case name."""
    pairs = {"SLURM_CONF": path, "SLURM_VERSION": SLURM_VERSION, "PenstockVersion": __version__}
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
    """Formats a user as `name(uid)`."""
    uid = find_uid(name)
    return f"{name}({_NO_UID if uid is None else uid})"


def find_uid(name: str) -> int | None:
    """Returns the uid of a user given by name or number; None if it does not exist on this machine."""
    if _NUMBER.fullmatch(name) and len(name) <= 10:
        return int(name)
    if why_no_login(name):
        return None
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _as_slurm(text: str, default: str | None) -> str:
    """Adds the unit of the default to a plain number (`0 sec`)."""
    number, space, unit = (default or "").partition(" ")
    return f"{text} {unit}" if space and _NUMBER.fullmatch(number) and _NUMBER.fullmatch(text) else text
