"""The cluster file, `cluster.json`: the addresses and keys by which a command reaches its cluster; read and written
here, found in cluster.py.

It is written by `penstock up`, the controller and the node daemons, and read by every command. It holds addresses and
paths, never a secret. Only `local` is free-form: it belongs to `penstock up`, which keeps its processes and folders there.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from penstock.boundedfile import read_bounded
from penstock.errors import PenstockError
from penstock.values.refusals import Code

VERSION = 1
#: A cluster file has a dozen lines; `local` has a line for every daemon on this machine.
CLUSTER_FILE_BYTES_MAX = 1024 * 1024


class ClusterFile(NamedTuple):
    """The content of a cluster file. Paths are absolute; "" = there is none. No data class: their module takes 12 ms to
    import, a quarter of a command's start.
    """

    cluster_name: str
    host: str = ""
    socket: str = ""  # the controller's Unix socket, when it runs on this machine
    auth_socket: str = ""  # where this machine's users get their tokens
    address: str = ""  # host:port of the controller's command port (TLS)
    ca: str = ""  # the cluster's CA certificate, PEM
    local: Mapping[str, object] = MappingProxyType({})
    path: str = ""  # the file this was read from; not stored
    call_socket: str = ""  # the controller's socket for calls without tokens (penstock/frames.py), on its machine
    conf: str = ""  # the slurm.conf that the controller read, on its machine
    #: of the options of sbatch, salloc and srun: names, [accept:]lua:PATH, python:PATH
    cli_filters: tuple[str, ...] = ()


def split_address(address: str) -> tuple[str, int]:
    """Splits host:port, with IPv6 hosts in brackets."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise PenstockError(Code.CONFIG_INVALID, f"the cluster file's address {address!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def read_cluster(path: str | os.PathLike[str]) -> ClusterFile:
    """Reads one cluster file. FileNotFoundError when it does not exist, PenstockError when it cannot be used."""
    try:
        data = read_bounded(path, CLUSTER_FILE_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(path) from error
    except OSError as error:
        raise PenstockError(Code.CONFIG_INVALID, f"{path}: cannot be read: {error.strerror}") from error
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
    words = {
        key: controller.get(key, "")
        for key in ("host", "socket", "call_socket", "auth_socket", "address", "ca", "conf")
    }
    words["cluster_name"] = content.get("cluster_name", "")
    for key, value in words.items():
        if not isinstance(value, str):
            raise PenstockError(Code.CONFIG_INVALID, f'{path}: "{key}" must be text')
    filters = content.get("cli_filters", [])
    if not isinstance(filters, list) or not all(isinstance(one, str) for one in filters):
        raise PenstockError(Code.CONFIG_INVALID, f'{path}: "cli_filters" must be a list of texts')
    local = content.get("local", {})
    return ClusterFile(
        **words, local=local if isinstance(local, dict) else {}, path=str(path), cli_filters=tuple(filters)
    )


def write_cluster(path: str | os.PathLike[str], cluster: ClusterFile) -> None:
    """Replaces the file atomically. Readable by all, as it contains no secret."""
    from penstock.storagefaults import naming  # daemons write it, commands only read

    content: dict[str, object] = {
        "version": VERSION,
        "cluster_name": cluster.cluster_name,
        "controller": {
            "host": cluster.host,
            "socket": cluster.socket,
            "call_socket": cluster.call_socket,
            "auth_socket": cluster.auth_socket,
            "address": cluster.address,
            "ca": cluster.ca,
            "conf": cluster.conf,
        },
        "local": dict(cluster.local),
    }
    if cluster.cli_filters:
        content["cli_filters"] = cluster.cli_filters
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.getpid()}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    try:
        with naming(os.fspath(path)), os.fdopen(file, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), 0o644)
            json.dump(content, stream, indent=2)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
