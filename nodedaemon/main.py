"""`penstock noded`: read the arguments, take the spool, start the launcher, run the daemon. Exit 78 for a bad set-up.

With --login there are no jobs, no spool and no launcher: only the socket that gives users their tokens.

Everything that can be wrong is looked at before anything is made. What is heavy to import (gRPC, psutil) is imported
after the arguments have been read, so that `--help` and mistakes answer at once.
"""

import argparse
import contextlib
import logging
import os
import platform
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nodedaemon import cgroup, cgroup_find, conffile
from nodedaemon.crash import crash_point  # noqa: F401 (reads and checks PENSTOCK_CRASH_AT before anything runs)
from nodedaemon.launching import start_launcher
from nodedaemon.spool import Spool, SpoolError
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int

if TYPE_CHECKING:
    from nodedaemon import daemon, inventory, link, localauth, wire

log = logging.getLogger("penstock.noded")

EX_CONFIG = 78
#: Slurm's SlurmdPort: what firewalls have open.
STREAM_PORT = 6818
#: A refusal to start that another try may mend (the launcher died, the disk is full).
EX_TEMPFAIL = 75
SPOOL = "/var/spool/penstock/noded"
SEEN_NAME = "spool-seen"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="penstock noded", description="The node daemon: runs this node's jobs.")
    add = parser.add_argument
    add(
        "--node-name",
        default=platform.node().partition(".")[0],
        metavar="NAME",
        help="this node's name (default: %(default)s)",
    )
    add(
        "--controller",
        "--conf-server",
        metavar="HOST[:PORT]",
        help="the controller's port for nodes, or unix:PATH (default: what slurm.conf says)",
    )
    add("--cert-dir", metavar="DIR", help="folder with node.pem, node.key and ca.pem")
    add("--spool", metavar="DIR", help=f"where state is kept (default: what slurm.conf says, else {SPOOL})")
    add("--cpus", metavar="N", help="pretend to have N CPUs")
    add("--real-memory", metavar="MB", help="pretend to have that much memory")
    add("--gpus", metavar="N[:TYPE]", help="pretend to have N GPUs")
    add(
        "--cluster-file",
        metavar="FILE",
        default="",
        help="cluster.json for commands inside jobs (default: the daemon's own, in the spool, with its own tokens)",
    )
    add("--cgroup", choices=("auto", "off"), default="auto", help="put steps into control groups where possible")
    add("--constrain-memory", action="store_true", help="limit memory to the allocation, whatever cgroup.conf says")
    add("--insecure", action="store_true", help="connect to HOST:PORT without TLS, for trying things out")
    add(
        "--stream-port",
        metavar="N",
        help=f"where srun and the like reach steps; 0 = any free port (default: what slurm.conf says, else {STREAM_PORT})",
    )
    add("--stream-bind", metavar="ADDRESS", default="", help="listen for them on this address only")
    add("--join", metavar="TOKEN", help="get this node's certificate with a join token, write it to --cert-dir and end")
    add(
        "--login",
        action="store_true",
        help="a login host: no jobs, only tokens for the users here; --controller is then the port for commands",
    )
    return parser


def main(argv: list[str]) -> int:
    """The daemon's whole life; the exit status."""
    args = _parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s noded %(levelname)s %(message)s")
    if not _complete(args):
        return EX_CONFIG
    if args.join:
        return _join(args)
    if args.login:
        return _login(args)
    if args.cert_dir is None and not args.insecure and not args.controller.startswith("unix:"):
        return _bad("--cert-dir is needed to reach a controller by HOST:PORT (or --insecure, for trying things out)")
    from nodedaemon import daemon
    from nodedaemon.stream_port import PortError, open_port, read_port, write_port

    try:
        port = parse_int(args.stream_port, 0, 65535, "--stream-port")
        node, target, pretended = _settings(args)
        boot_id = os.environ.get("PENSTOCK_BOOT_ID") or _boot_id()  # the variable is for tests of a reboot
        spool = Spool(args.spool, boot_id, secrets.token_hex(8))
        local = _local_auth(args)
        with_tls = args.cert_dir is not None
        listener = open_port(args.stream_bind, port, with_tls, read_port(spool.dir_fd))
        write_port(spool.dir_fd, listener.getsockname()[1])
        settings = daemon.Settings(node, target, pretended, listener, with_tls)
    except (SpoolError, BadValue, BadSetup, PortError) as error:
        return _bad(str(error))
    return _serve(args, settings, spool, local)


def _complete(args: argparse.Namespace) -> bool:
    """What the command line leaves open, from this node's slurm.conf. False: it cannot be, and why has been said."""
    place = conffile.Place()
    if args.controller is None or (args.spool is None and not args.login):
        from penstock.config import ConfigError

        try:
            place = conffile.read_place(args.node_name, platform.node())
        except ConfigError as error:
            if args.controller is None:
                _bad(f"slurm.conf cannot be used, and --controller is not given:\n{error}")
                return False
            log.warning("slurm.conf of this node cannot be used, so it is not: %s", error.problems[0])
    if args.controller is None:
        args.controller = place.commands if args.login or args.join else place.controller
        if not args.controller:
            _bad("--controller HOST:PORT (or --conf-server) is needed: there is no slurm.conf on this node")
            return False
    port = conffile.COMMAND_PORT if args.login or args.join else conffile.NODE_PORT
    args.controller = conffile.first_server(args.controller, port)
    args.spool = args.spool or place.spool or SPOOL
    args.stream_port = args.stream_port or str(place.stream_port or STREAM_PORT)
    return True


class BadSetup(Exception):
    """The daemon cannot be started like this; the message says what to do."""


def _settings(args: argparse.Namespace) -> "tuple[wire.NodeFacts, link.Target, inventory.Pretended]":
    """What the arguments say. Raises BadValue and BadSetup."""
    from nodedaemon import inventory, link, topology_info, wire
    from nodedaemon.site import Site

    try:
        target = link.make_target(args.controller, None if args.insecure else args.cert_dir)
    except link.BadCredentials as error:
        raise BadSetup(str(error)) from error
    pretended = inventory.Pretended(
        cpus=parse_int(args.cpus, 1, inventory.CPUS_MAX, "--cpus") if args.cpus else None,
        real_memory_mb=parse_int(args.real_memory, 1, inventory.MEMORY_MB_MAX, "--real-memory")
        if args.real_memory
        else None,
        gpus=inventory.parse_gpus(args.gpus) if args.gpus else None,
    )
    topology = None if pretended.cpus else topology_info.read_topology(os.sched_getaffinity(0))
    site = Site(topology, args.constrain_memory)
    site.slurm_conf = os.path.abspath(os.path.join(args.spool, conffile.NAME))
    node = wire.NodeFacts(args.node_name, platform.node(), _cluster_file(args), site)
    return node, target, pretended


def _gives_tokens(args: argparse.Namespace) -> bool:
    return (
        bool(args.cert_dir) and not args.cluster_file and not args.insecure and not args.controller.startswith("unix:")
    )


def _cluster_file(args: argparse.Namespace) -> str:
    """What jobs find in PENSTOCK_CLUSTER; "" = nothing."""
    return os.path.abspath(os.path.join(args.spool, "cluster.json")) if _gives_tokens(args) else args.cluster_file


def _local_auth(args: argparse.Namespace) -> "localauth.LocalAuth | None":
    """The daemon's own socket for its users, unless it is told of another's. Raises BadSetup."""
    if not _gives_tokens(args):
        return None
    from nodedaemon import localauth
    from penstock.errors import PenstockError

    try:
        return localauth.of_node(args.spool, args.cert_dir, args.controller)
    except PenstockError as error:
        raise BadSetup(str(error)) from error


def _login(args: argparse.Namespace) -> int:
    """The daemon of a login host."""
    from nodedaemon import localauth
    from penstock.errors import PenstockError

    if args.cert_dir is None:
        return _bad("--login needs --cert-dir, the folder with login.pem, login.key and ca.pem")
    try:
        localauth.serve_logins(Path(args.spool), Path(args.cert_dir), args.controller)
    except PenstockError as error:
        return _bad(str(error))
    return 0


def _serve(
    args: argparse.Namespace, settings: "daemon.Settings", spool: Spool, local: "localauth.LocalAuth | None"
) -> int:
    import asyncio

    from nodedaemon import daemon

    _exempt_from_oom_kill()
    cgroups = cgroup.NONE if args.cgroup == "off" else cgroup_find.detect(args.node_name, args.spool)
    settings.node.site.cgroups = cgroups
    launcher = start_launcher(args.spool, args.node_name, cgroups, args.cert_dir or "")
    lost = _spool_lost(args.cert_dir, spool)
    log.info("node %s: spool %s, control groups %s", args.node_name, args.spool, cgroups.kind)

    async def serve() -> None:
        await daemon.Daemon(settings, spool, launcher, cgroups, lost, local).run()

    try:
        asyncio.run(serve())
    except daemon.Fatal as error:
        log.error("%s", error)
        return EX_TEMPFAIL
    return 0


def _join(args: argparse.Namespace) -> int:
    """Trade a join token for a certificate."""
    from penstock.errors import PenstockError
    from penstock.security.join import join

    if args.cert_dir is None:
        return _bad("--join needs --cert-dir, the folder for the certificate")
    try:
        join(args.join, args.node_name, Path(args.cert_dir), time.time_ns() // 1000, address=args.controller)
    except PenstockError as error:
        return _bad(str(error))
    print(f"{args.node_name} has joined; its certificate is in {args.cert_dir}")  # noqa: T201 (the command's answer)
    return 0


def _spool_lost(cert_dir: str | None, spool: Spool) -> bool:
    """True when the spool is new although this boot had one. The sign is kept with the certificates."""
    if cert_dir is None:
        return False
    seen = Path(cert_dir, SEEN_NAME)
    lost = False
    if spool.is_new:
        with contextlib.suppress(FileNotFoundError):
            lost = seen.read_text("ascii").strip() == spool.boot_id
    try:
        seen.write_text(spool.boot_id + "\n", "ascii")
    except OSError as error:
        log.warning("%s: %s; a lost spool will not be noticed", seen, error.strerror)
    return lost


def _exempt_from_oom_kill() -> None:
    """Short memory is the jobs' trouble, not the daemon's. Needs root; tasks take it back for themselves."""
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("-1000", "ascii")


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _bad(text: str) -> int:
    print(f"penstock noded: error: {text}", file=sys.stderr)  # noqa: T201 (the command's answer)
    return EX_CONFIG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
