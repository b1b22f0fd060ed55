"""`penstock restd`, also installed as slurmrestd: reads its options, finds the cluster, listens, serves.

Exit status: 0 after a clean stop, 2 for wrong use, 75 for what passes (an address is taken, storage takes no writes), 78 for
what an administrator must change first.
"""

import asyncio
import contextlib
import errno
import gc
import ipaddress
import os
import socket
import ssl
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock import SLURM_VERSION
from penstock.calls import USER_TOKEN_VARIABLE
from penstock.cluster import find_cluster
from penstock.clusterfile import ClusterFile
from penstock.daemonline import refuse, say
from penstock.errors import EXIT_CONFIG, BadSetup, PenstockError
from penstock.logs.daemonlog import DaemonLog, LogSettings
from penstock.security.keyfiles import read_secret
from penstock.startwatch import StartWatch
from penstock.storagefaults import advice_of
from rest.commandline import command_line
from rest.contract.facts import load

if TYPE_CHECKING:
    from rest.interactive.origin import SessionOrigin
    from rest.interactive.proxy import ServedFile
    from rest.oidc import OidcLogin
    from rest.passwords import PasswordLogin
    from rest.server import Tls
    from rest.sitetemplates import SiteTemplates

NAME: Final = "penstock restd"
EXIT_TEMPFAIL: Final = 75
MISSING: Final = "starlette, uvicorn and httptools are not installed: pip install 'penstock[rest]'"
PRIVILEGED: Final = (
    "this user is {}, and its Unix socket acts for this user: run it as a user of its own "
    "(--allow-privileged if you must)"
)
PLAIN: Final = (
    "{}: without TLS, tokens can be read on the way: give --tls-cert and --tls-key, or --allow-plain behind a proxy"
)
NOT_BUILT: Final = "the files of the web interface are not here: install a wheel, or run `make web` in the source tree"
UNIX: Final = "unix:"
#: As the value of -a, -d or -s: say what there is.
LIST: Final = "list"


def main(argv: list[str]) -> int:
    """Runs the daemon; returns the exit status."""
    options = command_line().parser().parse_args(argv)
    if options.version:
        print(f"slurmrestd {SLURM_VERSION}")  # noqa: T201
        return 0
    for option, listed in _plugins().items():
        if getattr(options, option) == LIST:
            print("\n".join(listed))  # noqa: T201
            return 0
    try:
        with StartWatch(partial(say, NAME)) as watch:
            return _run(options, watch)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "httptools"):
            raise
        return refuse(NAME, MISSING, EXIT_CONFIG)
    except ssl.SSLError as error:
        return refuse(NAME, f"{options.tls_cert}, {options.tls_key}: {error.reason or error}", EXIT_CONFIG)
    except OSError as error:
        advice = advice_of(error)
        status = EXIT_TEMPFAIL if advice or error.errno == errno.EADDRINUSE else EXIT_CONFIG
        text = f"{os.fsdecode(error.filename or 'restd')}: {error.strerror or error}"
        return refuse(NAME, f"{text}\n{advice}" if advice else text, status)
    except PenstockError as error:
        return refuse(NAME, f"{error.text}: {error.detail}" if error.detail else error.text, EXIT_CONFIG)


def _plugins() -> dict[str, list[str]]:
    """What slurmrestd's options -d, -s and -a choose from, by their letters: all of it is served."""
    parsers = [f"data_parser/{version}" for version in sorted(load().versions)]
    return {
        "d": parsers,
        "s": [f"openapi/{name}" for name in ("slurmctld", "slurmdbd", "util")],
        "a": ["rest_auth/jwt", "rest_auth/local"],
    }


def _run(options: Namespace, watch: StartWatch) -> int:
    watch.at(os.path.dirname(os.path.abspath(__file__)))
    from rest.app import make_app  # first: what is not installed is said before all else
    from rest.pages import load as load_pages
    from rest.server import Tls, listen_tcp, listen_unix, serve
    from rest.sessions import LoginWays

    files = load_pages() if options.web else {}
    if options.web and not files:
        raise BadSetup(NOT_BUILT)
    templates = _templates(options, watch)
    watch.at(options.config or "the cluster file")
    cluster = _cluster(options.config)
    ways = LoginWays(_oidc(options, cluster.cluster_name), _passwords(options))
    if not options.allow_privileged:
        check_user(cluster)
    where = [*(options.listen or ()), *options.words]
    if not where:
        raise BadSetup("nowhere to listen: give --listen ADDR:PORT or --listen unix:PATH")
    if bool(options.tls_cert) != bool(options.tls_key):
        raise BadSetup("--tls-cert and --tls-key belong together")
    tls = Tls(options.tls_cert or "", options.tls_key or "")
    for path in filter(None, tls):
        watch.at(path)
        open(path, "rb").close()  # an error of the library names no file
    listeners: list[socket.socket] = []
    for one in where:
        watch.at(one)
        if one.startswith(UNIX):
            listeners.append(_named(one, lambda: listen_unix(os.path.abspath(one[len(UNIX) :]))))  # noqa: B023 (called now)
            continue
        host, port = split_where(one)
        if not (tls.certificate or options.allow_plain or is_loopback(host)):
            raise BadSetup(PLAIN.format(one))
        listeners.append(_named(one, lambda: listen_tcp(host, port)))  # noqa: B023 (called now)
    origin = _sessions(options, tls, watch, files)
    os.environ.pop(USER_TOKEN_VARIABLE, None)  # its own calls are its uid's, by the kernel's word
    watch.over()
    for listener in listeners:
        say(NAME, f"listening on {shown(listener, bool(tls.certificate))}")
    if origin is not None:
        say(NAME, f"sessions at {origin.service.url}")
    service = origin and origin.service
    make = partial(make_app, files=files, ways=ways, interactive=service, site_templates=templates)
    with contextlib.closing(_log(options)) as logs:
        if templates is not None:
            templates.read()
        asyncio.run(_serve(cluster, listeners, tls, make, serve, logs, origin))
    return 0


def _templates(options: Namespace, watch: StartWatch) -> "SiteTemplates | None":
    """The site's templates, if their folder is named. Raises BadSetup, OSError."""
    from rest.sitetemplates import SiteTemplates

    if not options.web_templates:
        return None
    if not options.web:
        raise BadSetup("--web-templates belongs to --web: its page Submit shows them")
    folder = Path(os.path.abspath(options.web_templates))
    watch.at(str(folder))
    os.scandir(folder).close()  # an error names the folder
    return SiteTemplates(folder)


def _oidc(options: Namespace, cluster_name: str) -> "OidcLogin | None":
    """The login by an identity provider, if one is named. Raises BadSetup, OSError."""
    from rest.oidc import OidcLogin, OidcSettings, why_no_provider

    if not options.oidc_issuer:
        if options.oidc_client_id or options.oidc_client_secret_file or options.oidc_user_claim:
            raise BadSetup("--oidc-client-id and the like belong to --oidc-issuer URL")
        return None
    if not options.web:
        raise BadSetup("--oidc-issuer belongs to --web: programs bring their tokens in a header")
    for name, url in (("--oidc-issuer", options.oidc_issuer), ("--web-url", options.web_url)):
        if url and (why := why_no_provider(url)):
            raise BadSetup(f"{name} {url}: {why}")
    path = options.oidc_client_secret_file
    settings = OidcSettings(
        options.oidc_issuer,
        options.oidc_client_id or cluster_name,
        read_secret(Path(path), "the client's secret").decode("utf-8", "replace").strip() if path else "",
        options.web_url or "",
        options.oidc_user_claim or "preferred_username",
    )
    return OidcLogin(settings)


def _passwords(options: Namespace) -> "PasswordLogin | None":
    """The login by password, if its helper is named. Raises BadSetup."""
    from rest.passwords import PasswordLogin

    if not options.pam_socket:
        return None
    if not options.web:
        raise BadSetup("--pam-socket belongs to --web: programs bring their tokens in a header")
    path = os.path.abspath(options.pam_socket)
    if not os.path.exists(path):  # it may start later
        say(NAME, f"warning: {path}: is not there, or not for this user: penstock pamd makes it (docs/web.md)")
    return PasswordLogin(path)


def _sessions(
    options: Namespace, tls: "Tls", watch: StartWatch, files: "Mapping[str, ServedFile]"
) -> "SessionOrigin | None":
    """The origin of sessions, if it has an address. Raises BadSetup, OSError."""
    if not options.sessions_listen:
        if options.sessions_url or options.sessions_file:
            raise BadSetup("--sessions-url and --sessions-file belong to --sessions-listen ADDR:PORT")
        return None
    from rest.interactive.kinds import DEFAULT_KINDS, read_kinds
    from rest.interactive.origin import SessionOrigin
    from rest.interactive.service import SessionService, checked_url
    from rest.server import listen_tcp

    watch.at(options.sessions_file or options.sessions_listen)
    kinds = read_kinds(options.sessions_file) if options.sessions_file else DEFAULT_KINDS
    host, port = split_where(options.sessions_listen)
    if not (tls.certificate or options.allow_plain or is_loopback(host)):
        raise BadSetup(PLAIN.format(options.sessions_listen))
    url = checked_url(options.sessions_url) if options.sessions_url else ""
    listener = _named(options.sessions_listen, lambda: listen_tcp(host, port))
    service = SessionService(kinds, url or shown(listener, bool(tls.certificate)))
    return SessionOrigin(service, listener, tls.certificate, tls.key, files)


def _log(options: Namespace) -> DaemonLog:
    """Opens the log. Raises OSError."""
    path = options.log_file and os.path.abspath(options.log_file)
    settings = LogSettings(path, options.log_format or "text", "debug" if options.verbose else "info")
    return DaemonLog("restd", "[%(asctime)s] %(levelname)s %(name)s: %(message)s", settings, logger="restd")


async def _serve(
    cluster: ClusterFile,
    listeners: list[socket.socket],
    tls: object,
    make_app: Callable[..., object],
    serve: Callable[..., object],
    logs: DaemonLog,
    sessions: "SessionOrigin | None",
) -> None:
    from penstock.aclient import AsyncClient
    from rest.contract.facts import load
    from rest.events import EventStreams

    logs.handle_signals(asyncio.get_running_loop())
    async with AsyncClient(cluster, retry=False, limited_max_s=0) as client:
        streams = EventStreams(client)
        app = make_app(client, cluster.cluster_name, load(), streams=streams)
        gc.collect()
        gc.freeze()  # the contract and the modules stay: to look through them again stops a request for tens of milliseconds
        async with AsyncExitStack() as held:
            if sessions is not None:
                await held.enter_async_context(sessions.served(client))
            await serve(app, listeners, tls, streams.stop)  # type: ignore[misc]


def check_user(cluster: ClusterFile) -> None:
    """Raises BadSetup for root and SlurmUser: the owner of the controller's socket."""
    if os.geteuid() == 0:
        raise BadSetup(PRIVILEGED.format("root"))
    for path in (cluster.call_socket, cluster.socket):
        try:
            owner = os.stat(path).st_uid if path else -1
        except OSError:
            continue
        if owner == os.geteuid():
            raise BadSetup(PRIVILEGED.format("SlurmUser"))


def split_where(text: str) -> tuple[str, int]:
    """ADDR:PORT, [ADDR]:PORT or :PORT (all addresses). Raises BadSetup."""
    host, colon, digits = text.rpartition(":")
    if not (colon and digits.isascii() and digits.isdigit() and int(digits) < 65536):
        raise BadSetup(f"{text}: expected ADDR:PORT or unix:PATH")
    return host.strip("[]") or "0.0.0.0", int(digits)  # noqa: S104 (as slurmrestd; without TLS it is refused)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def shown(listener: socket.socket, is_tls: bool) -> str:
    """The address of a socket, as a URL."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"{'https' if is_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _cluster(config: str | None) -> ClusterFile:
    if config is None:
        return find_cluster()
    from penstock.cluster import candidate_paths
    from penstock.conffind import cluster_of_conf

    return cluster_of_conf(config, candidate_paths())


def _named(where: str, listen: Callable[[], socket.socket]) -> socket.socket:
    """The socket; an error names the address."""
    try:
        return listen()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise OSError(error.errno, why, where) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
