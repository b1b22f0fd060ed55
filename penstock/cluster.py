"""The discovery file: how a command finds its cluster without being told.

`cluster.json` is written by `penstock up`, the controller and the node daemons, and read by every command. It holds
addresses and paths, never a secret. A command must not talk to another cluster by accident: a variable that is set
decides alone; without one, the first file that exists of a short list of places is the cluster; and a file that exists
but cannot be used is an error, never skipped.
Only `local` is free-form: it belongs to `penstock up`, which keeps its processes and folders there.

Paths are texts here: importing pathlib would cost every command some milliseconds.
"""

import json
import os
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.values.refusals import Code

VERSION = 1
#: A discovery file is a dozen lines; `local` grows by a line for every daemon on this machine.
CLUSTER_FILE_BYTES_MAX = 1024 * 1024

#: Where slurm.conf lies on a machine that says nothing else.
CONF_PATHS = ("/etc/penstock/slurm.conf", "/etc/slurm/slurm.conf")
#: What says which cluster is meant; the first that is set decides alone.
_VARIABLES = ("PENSTOCK_CLUSTER", "PENSTOCK_HOME", "SLURM_CONF")

NOT_FOUND = "no cluster found: run `penstock up` to start one, or set PENSTOCK_CLUSTER to a cluster.json"


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """What a command knows of its cluster. Paths are absolute; "" = there is none."""

    cluster_name: str
    host: str = ""
    socket: str = ""  # the controller's Unix socket, when it runs on this machine
    auth_socket: str = ""  # where this machine's users get their tokens
    address: str = ""  # host:port of the controller's command port (TLS)
    ca: str = ""  # the cluster's CA certificate, PEM
    local: dict[str, object] = field(default_factory=dict)
    path: str = ""  # the file this was read from; not stored


def conf_path() -> str:
    """The slurm.conf of this machine: SLURM_CONF, else the usual places; the first of these when there is none."""
    if named := os.environ.get("SLURM_CONF"):
        return named
    return next((path for path in CONF_PATHS if os.path.exists(path)), CONF_PATHS[0])


def own_conf_path() -> str:
    """The slurm.conf that a check without a name means: of the cluster of one's own that commands talk to, else conf_path().

    PENSTOCK_CLUSTER and PENSTOCK_HOME count before SLURM_CONF, as in find_cluster().
    """
    named = next((name for name in _VARIABLES if os.environ.get(name)), "")
    for path in () if named == "SLURM_CONF" else candidate_paths():
        beside = os.path.join(os.path.dirname(path), "slurm.conf")
        if os.path.exists(path) and os.path.exists(beside):
            return beside
    return conf_path()


def candidate_paths() -> list[str]:
    """Where a cluster file may be, in the order in which they are tried. What SLURM_CONF leads to is not among them."""
    if explicit := os.environ.get("PENSTOCK_CLUSTER"):
        return [explicit]
    if home := os.environ.get("PENSTOCK_HOME"):
        return [os.path.join(home, "cluster.json")]
    return [os.path.expanduser("~/.penstock/cluster.json"), "/etc/penstock/cluster.json"]


def find_cluster() -> ClusterFile:
    """The cluster of this user on this machine. Raises PenstockError when there is none or its file is unusable.

    SLURM_CONF, where no variable of Penstock's own is set, names the cluster: its file is beside that slurm.conf, or in
    the StateSaveLocation that it names, or in the usual places if it is a file of the cluster of that name.
    """
    variable = next((name for name in _VARIABLES if os.environ.get(name)), "")
    looked = candidate_paths()
    if variable == "SLURM_CONF":
        from penstock.conffind import cluster_of_conf

        return cluster_of_conf(os.environ[variable], looked)
    for path in looked:
        try:
            return read_cluster(path)
        except FileNotFoundError:
            continue
    if not variable and os.path.exists(CONF_PATHS[1]):
        from penstock.conffind import cluster_of_conf

        try:
            return cluster_of_conf(CONF_PATHS[1], [])
        except PenstockError:
            looked.append(CONF_PATHS[1])  # Slurm's own, on a machine that has both
    places = ", ".join(looked) + (f" (as {variable} says)" if variable else "")
    raise PenstockError(Code.CONFIG_INVALID, NOT_FOUND, f"looked for {places}")


def read_cluster(path: str | os.PathLike[str]) -> ClusterFile:
    """Read one cluster file. FileNotFoundError when it is not there, PenstockError when it cannot be used."""
    try:
        with open(path, "rb") as file:
            data = file.read(CLUSTER_FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(path) from error
    except OSError as error:
        raise PenstockError(Code.CONFIG_INVALID, f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > CLUSTER_FILE_BYTES_MAX:
        raise PenstockError(
            Code.CONFIG_INVALID, f"{path}: larger than {CLUSTER_FILE_BYTES_MAX} bytes, not a cluster file"
        )
    try:
        content = json.loads(data)
    except ValueError as error:
        raise PenstockError(Code.CONFIG_INVALID, f"{path}: not valid JSON: {error}") from error
    return _from_json(content, path)


def _from_json(content: object, path: str | os.PathLike[str]) -> ClusterFile:
    if not isinstance(content, dict) or not isinstance(content.get("controller"), dict):
        raise PenstockError(Code.CONFIG_INVALID, f'{path}: not a cluster file: "controller" is missing')
    if content.get("version") != VERSION:
        found = content.get("version")
        raise PenstockError(
            Code.CONFIG_INVALID, f"{path}: version {found!r} is not known here, this is version {VERSION}"
        )
    controller = content["controller"]
    words = {key: controller.get(key, "") for key in ("host", "socket", "auth_socket", "address", "ca")}
    words["cluster_name"] = content.get("cluster_name", "")
    for key, value in words.items():
        if not isinstance(value, str):
            raise PenstockError(Code.CONFIG_INVALID, f'{path}: "{key}" must be text')
    local = content.get("local", {})
    return ClusterFile(**words, local=local if isinstance(local, dict) else {}, path=str(path))


def write_cluster(path: str | os.PathLike[str], cluster: ClusterFile) -> None:
    """Write the file in one step: a reader sees the old one or the new one. Readable by all, it holds no secret."""
    content = {
        "version": VERSION,
        "cluster_name": cluster.cluster_name,
        "controller": {
            "host": cluster.host,
            "socket": cluster.socket,
            "auth_socket": cluster.auth_socket,
            "address": cluster.address,
            "ca": cluster.ca,
        },
        "local": cluster.local,
    }
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.getpid()}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        os.fchmod(stream.fileno(), 0o644)
        json.dump(content, stream, indent=2)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(draft, path)
