"""`penstock noded`: reads the arguments, takes the spool, starts the launcher, runs the daemon. Exit 78 for a bad
set-up.

With --login it runs no jobs, and has no spool and no launcher: only the socket that gives users their tokens.

All settings are checked before anything is created. Heavy modules (gRPC, psutil) are imported after the arguments have
been read, so that `--help` and errors are fast.
"""

import argparse
import contextlib
import logging
import os
import platform
import secrets
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nodedaemon.base import conffile
from nodedaemon.cgroups import cgroup
from nodedaemon.cgroups import find as cgroup_find
from nodedaemon.commandline import SPOOL, STREAM_PORT, command_line
from nodedaemon.daemon.launching import start_launcher
from nodedaemon.spool.spool import Spool, SpoolError
from penstock.cluster import conf_path
from penstock.crash import crash_point  # noqa: F401 (reads and checks PENSTOCK_CRASH_AT before anything runs)
from penstock.daemonline import say
from penstock.inherited import begin_empty_session_keyring
from penstock.logfile import flush_logs
from penstock.logs.daemonlog import DaemonLog, LogSettings
from penstock.startwatch import StartWatch
from penstock.storagefaults import advice_of
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.text import check_name

if TYPE_CHECKING:
    from nodedaemon.daemon import daemon, inventory, link, localauth
    from nodedaemon.launch import wire
    from penstock.v1 import node_pb2

log = logging.getLogger("penstock.noded")

NAME = "penstock noded"
EX_CONFIG = 78
#: Exit status of a failure that a retry may resolve (the launcher died, the disk is full).
EX_TEMPFAIL = 75
SEEN_NAME = "spool-seen"
SEEN_BY_ALL = (
    "a join token on a command line can be read by all users of this machine, so it is not used. Make a new one "
    "(`penstock node token NAME`), which voids the old one, and give it on standard input (--join -), or in a file of mode "
    "0600 (--join-file FILE)"
)

#: The most that the controller accepts of a text of the registration.
SAID_BYTES_MAX = 256


def main(argv: list[str]) -> int:
    """Runs the daemon; returns the exit status."""
    args = command_line().parser().parse_args(argv)
    try:
        begin_empty_session_keyring()
    except OSError as error:
        return _bad(str(error.strerror))
    try:
        logs = _log(args)
    except BlockingIOError as error:
        return _no_room(error)
    except OSError as error:
        return _bad(f"log file {args.log_file}: {error.strerror}", error)
    try:
        with StartWatch(partial(say, NAME)) as watch, contextlib.closing(logs):
            return _run(args, watch, logs)
    except BlockingIOError as error:
        return _no_room(error)


def _no_room(error: BlockingIOError) -> int:
    """Says that no process or thread can be started."""
    _bad(f"{error.filename or 'a process'}: {error.strerror}")
    return EX_TEMPFAIL


def _run(args: argparse.Namespace, watch: StartWatch, logs: DaemonLog) -> int:
    if args.cert_dir is not None:
        args.cert_dir = os.path.abspath(args.cert_dir)  # read again when the certificate has been renewed
        watch.at(args.cert_dir)
    if not complete(args):
        return EX_CONFIG
    if args.join is not None or args.join_file is not None:
        watch.over()
        return _join(args)
    if args.login:
        return _login(args, watch, logs)
    if args.cert_dir is None and not args.insecure and not args.controller.startswith("unix:"):
        return _bad("--cert-dir is needed to reach a controller by HOST:PORT (or --insecure, for tests only)")
    from penstock.grpclib import quiet_grpc

    quiet_grpc()  # set before the import: a line for each failed handshake would flood the log, which reports it once
    from nodedaemon.daemon import daemon
    from nodedaemon.daemon.stream_port import PortError, open_port, read_port, write_port

    try:
        port = parse_int(args.stream_port, 0, 65535, "--stream-port")
        metrics_port = parse_int(args.metrics_port, 0, 65535, "--metrics-port") if args.metrics_port else None
        node, target, pretended = _settings(args)
        boot_id = os.environ.get("PENSTOCK_BOOT_ID") or _boot_id()  # the variable is for tests of a reboot
        watch.at(args.spool)
        spool = Spool(args.spool, boot_id, secrets.token_hex(8))
        local = _local_auth(args)
        with_tls = args.cert_dir is not None
        listener = open_port(args.stream_bind, port, with_tls, read_port(spool.dir_fd))
        write_port(spool.dir_fd, listener.getsockname()[1])
        settings = daemon.Settings(node, target, pretended, listener, with_tls, metrics_port)
    except (SpoolError, BadValue, BadNodeSetup, PortError) as error:
        return _bad(str(error), error)
    except BlockingIOError:
        raise
    except OSError as error:  # it is full, or a link is where a file should be
        path = os.path.join(args.spool, os.fsdecode(error.filename)) if error.filename else args.spool
        _bad(f"cannot use {path}: {error.strerror}", error)
        return EX_TEMPFAIL
    watch.at(args.cert_dir or args.spool)
    lost = _spool_lost(args.cert_dir, spool)
    watch.over()
    return _serve(args, settings, spool, local, lost, logs)


def _log(args: argparse.Namespace) -> DaemonLog:
    """Opens the log. Raises OSError."""
    args.log_file = args.log_file and os.path.abspath(args.log_file)
    settings = LogSettings(args.log_file, args.log_format or "text")
    return DaemonLog("noded", "%(asctime)s noded %(levelname)s %(message)s", settings, args.node_name)


def _log_settings(args: argparse.Namespace, settings: "node_pb2.NodeSettings") -> LogSettings:
    """Returns what the controller says of this node's log; the command line goes before it."""
    path = settings.log_file.replace("%n", args.node_name).replace("%h", platform.node().partition(".")[0])
    log_format = args.log_format or settings.log_format or "text"
    return LogSettings(args.log_file or path, log_format, settings.log_level or "info")


def complete(args: argparse.Namespace) -> bool:
    """Completes the command line from this node's slurm.conf. False: that failed, and the error was printed."""
    paths = conffile.ConfigPaths()
    is_command = args.login or args.join is not None or args.join_file is not None
    if os.path.exists(conf_path()):  # else nothing of the reader is loaded
        from penstock.config import ConfigError

        try:
            paths = conffile.read_paths(args.node_name, platform.node())
        except ConfigError as error:
            if args.controller is None:
                _bad(f"slurm.conf cannot be used, and --controller is not given:\n{error}")
                return False
            log.warning("slurm.conf of this node cannot be used, so it is not: %s", error.problems[0])
    if args.controller is None:
        args.controller = paths.commands if is_command else paths.controller
        if not args.controller:
            _bad("--controller HOST:PORT (or --conf-server) is needed: there is no slurm.conf on this node")
            return False
    port = conffile.COMMAND_PORT if is_command else conffile.NODE_PORT
    args.controller = conffile.first_server(args.controller, port)
    args.spool = os.path.abspath(args.spool or paths.spool or SPOOL)  # the launcher has another working directory
    args.stream_port = args.stream_port or str(paths.stream_port or STREAM_PORT)
    args.cli_filters = paths.cli_filters
    return True


class BadNodeSetup(Exception):
    """The daemon cannot be started like this; the message says what to do."""


def _settings(args: argparse.Namespace) -> "tuple[wire.NodeFacts, link.LinkTarget, inventory.Pretended]":
    """Returns the daemon's settings. Raises BadValue and BadNodeSetup."""
    from nodedaemon.base import topology_info
    from nodedaemon.daemon import inventory, link
    from nodedaemon.launch import wire
    from nodedaemon.launch.site import Site

    try:
        target = link.make_target(args.controller, None if args.insecure else args.cert_dir)
    except link.BadCredentials as error:
        raise BadNodeSetup(str(error)) from error
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
    said = (check_name(text, option, SAID_BYTES_MAX) for option, text in (
        ("--instance-id", args.instance_id), ("--instance-type", args.instance_type), ("--extra", args.extra),
    ))  # fmt: skip
    node = wire.NodeFacts(args.node_name, platform.node(), _cluster_file(args), site, *said)
    return node, target, pretended


def _gives_tokens(args: argparse.Namespace) -> bool:
    return (
        bool(args.cert_dir) and not args.cluster_file and not args.insecure and not args.controller.startswith("unix:")
    )


def _cluster_file(args: argparse.Namespace) -> str:
    """Returns the value of PENSTOCK_CLUSTER for jobs; "" = none."""
    return os.path.abspath(os.path.join(args.spool, "cluster.json")) if _gives_tokens(args) else args.cluster_file


def _local_auth(args: argparse.Namespace) -> "localauth.LocalAuth | None":
    """Returns the daemon's own socket for its users, unless --cluster-file names another's. Raises BadNodeSetup."""
    if not _gives_tokens(args):
        return None
    from nodedaemon.daemon import localauth
    from penstock.errors import PenstockError

    try:
        return localauth.of_node(args.spool, args.cert_dir, args.controller, args.cli_filters)
    except PenstockError as error:
        raise BadNodeSetup(str(error)) from error


def _login(args: argparse.Namespace, watch: StartWatch, logs: DaemonLog) -> int:
    """Runs the daemon of a login host."""
    from nodedaemon.daemon import localauth
    from penstock.errors import PenstockError

    if args.cert_dir is None:
        return _bad("--login needs --cert-dir, the folder with login.pem, login.key and ca.pem")
    watch.at(args.spool)
    try:
        localauth.serve_logins(
            Path(args.spool), Path(args.cert_dir), args.controller, logs, watch.over, args.cli_filters
        )
    except PenstockError as error:
        return _bad(str(error), error)
    return 0


def _serve(
    args: argparse.Namespace,
    settings: "daemon.Settings",
    spool: Spool,
    local: "localauth.LocalAuth | None",
    lost: bool,
    logs: DaemonLog,
) -> int:
    import asyncio

    from nodedaemon.daemon import daemon
    from penstock.threads import prepare_loop

    _exempt_from_oom_kill()
    cgroups = cgroup.NONE if args.cgroup == "off" else cgroup_find.detect(args.node_name, args.spool)
    site = settings.node.site
    site.cgroups = cgroups
    site.listeners.append(lambda: logs.set(_log_settings(args, site.settings)))
    launcher = start_launcher(args.spool, args.node_name, cgroups, args.cert_dir or "", spool.clock)
    log.info("node %s: spool %s, control groups %s", args.node_name, args.spool, cgroups.kind)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        prepare_loop(loop)
        logs.handle_signals(loop)
        node = daemon.Daemon(settings, spool, launcher, cgroups, lost, local)
        logs.span_of = node.spans.of
        await node.run()

    try:
        asyncio.run(serve())
    except daemon.Fatal as error:
        log.error("%s", error, extra={"event": "fatal"})
        return EX_TEMPFAIL
    return 0


def _join(args: argparse.Namespace) -> int:
    """Exchanges a join token for a certificate."""
    from penstock.errors import PenstockError
    from penstock.security.join import join

    if args.join not in (None, "-"):
        return _bad(SEEN_BY_ALL)
    if args.join is not None and args.join_file is not None:
        return _bad(
            "the join token comes on standard input (--join -) or in a file (--join-file FILE): say one of them"
        )
    if args.cert_dir is None:
        return _bad("to join needs --cert-dir, the folder for the certificate")
    try:
        join(
            _join_token(args.join_file),
            args.node_name,
            Path(args.cert_dir),
            time.time_ns() // 1000,
            address=args.controller,
        )
    except PenstockError as error:
        return _bad(str(error), error)
    print(f"{args.node_name} has joined; its certificate is in {args.cert_dir}")  # noqa: T201 (the command's answer)
    return 0


def _join_token(path: str | None) -> str:
    """The token from its file, or from standard input. Raises BadSetup, of penstock.errors."""
    from penstock.security.join import TOKEN_TEXT_MAX
    from penstock.security.keyfiles import read_secret

    if path is not None:
        return read_secret(Path(path), "join token").decode("ascii", "replace")
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("join token: ")
    return sys.stdin.readline(TOKEN_TEXT_MAX)


def _spool_lost(cert_dir: str | None, spool: Spool) -> bool:
    """True when the spool is new although this boot had one. The marker is kept with the certificates."""
    if cert_dir is None:
        return False
    from penstock.errors import BadSetup
    from penstock.security.keyfiles import write_public

    seen = Path(cert_dir, SEEN_NAME)
    known = b""
    with contextlib.suppress(OSError):
        known = seen.read_bytes().strip()
    boot_id = spool.boot_id.encode()
    if known != boot_id:
        try:
            write_public(seen, boot_id + b"\n")
        except BadSetup as error:
            log.warning("%s; a lost spool will not be noticed", error)
    return spool.is_new and known == boot_id


def _exempt_from_oom_kill() -> None:
    """Exempts the daemon from the OOM killer. Needs root; tasks revoke it for themselves."""
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("-1000", "ascii")


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _bad(text: str, error: BaseException | None = None) -> int:
    """Says why the daemon cannot run; returns the exit status. `error`: the cause, which may pass."""
    advice = advice_of(error) if error is not None else ""
    flush_logs()
    for line in (text, advice) if advice else (text,):
        say(NAME, f"error: {line}")
    return EX_TEMPFAIL if advice else EX_CONFIG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
