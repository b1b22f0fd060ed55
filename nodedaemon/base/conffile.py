"""slurm.conf on a node: read for paths where the site installs one; written for jobs where it does not.

A node daemon gets its settings from the controller ("configless" in Slurm's words), so a node needs no file. Settings
that it needs before it can reach the controller come from the command line, else from the node's own slurm.conf, where
Slurm's daemons look for it: the controller's address, the spool, the port. For jobs the daemon writes a short one into
its spool, beside cluster.json; their SLURM_CONF names it, so that tools which look there find their cluster's name.
"""

import contextlib
import os
from typing import NamedTuple

from penstock.cluster import conf_path

#: The controller's ports, where an address has none (slurm.conf(5), PenstockNodePort, SlurmctldPort).
NODE_PORT, COMMAND_PORT = 6819, 6817
NAME = "slurm.conf"


class ConfigPaths(NamedTuple):
    """The settings of a slurm.conf on this node; "" and 0 = not set."""

    controller: str = ""  # HOST:PORT of the port for nodes
    commands: str = ""  # of the port for commands
    spool: str = ""
    stream_port: int = 0
    cli_filters: tuple[str, ...] = ()  # of the options of commands, as a cluster file names them


def read_paths(node: str, hostname: str) -> ConfigPaths:
    """Reads the file that SLURM_CONF names or that lies in its usual place. Raises ConfigError; no file is no error."""
    path = conf_path()
    if not os.path.exists(path):
        return ConfigPaths()
    from penstock.config import load
    from penstock.config.filterfiles import cli_filters

    config = load(path).config
    own = next((one for one in config.nodes if one.name == node), None)
    spool = config.slurmd_spool_dir.replace("%n", node).replace("%h", hostname)
    return ConfigPaths(
        _address(config.controller_addr, config.penstock_node_port),
        _address(config.controller_addr, config.slurmctld_port),
        spool,
        own.port if own else config.slurmd_port,
        cli_filters(config, os.path.dirname(path)),
    )


def first_server(text: str, port: int) -> str:
    """The first of `HOST[:PORT],...` with its port, as slurmd --conf-server takes it. unix:PATH stays as it is."""
    if text.startswith("unix:"):
        return text
    first = text.split(",")[0].strip()
    host, colon, number = first.rpartition(":")
    if colon and number.isdigit() and (":" not in host or host.endswith("]")):
        return first
    return _address(first.strip("[]"), port)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def write_conf(path: str, text: str) -> None:
    """Replaces the file in one step, unless it has the same content already. Raises OSError."""
    data = text.encode()
    try:
        with open(path, "rb") as file:
            if file.read(len(data) + 1) == data:
                return
    except FileNotFoundError:
        pass
    draft = f"{path}.{os.getpid()}"
    number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    try:
        with os.fdopen(number, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
