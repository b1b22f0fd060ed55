"""A REST daemon of a real cluster, and requests to it with curl's means.

rest = LiveRest(cluster); rest.start()
rest.as_user("nobody").get("/slurm/v0.0.46/jobs")
"""

import json
import re
import ssl
from collections.abc import Mapping

import httpx
from livecluster import ClusterConf, Daemon, LiveCluster
from patience import ANSWER_S, START_S
from warmprocess import CONSTANTS

JWT = ClusterConf(more=("AuthAltTypes=auth/jwt",))
RESTD = "restd"
#: Of connections without TLS: to read all authorities of the web takes most of the time of a client that asks once.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
PREFIX = "/slurm/v0.0.46"


class LiveRest:
    """The daemon, on a TCP port and a Unix socket."""

    def __init__(self, cluster: LiveCluster, *options: str) -> None:
        self.cluster = cluster
        self.options = options
        self.socket = cluster.home / "restd.sock"
        self.url = ""
        self.constants: Mapping[str, object] = {}  # of the daemon: "MODULE:NAME" -> value

    @property
    def daemon(self) -> Daemon:
        return self.cluster.daemons[RESTD]

    def start(self, name: str = RESTD) -> None:
        """Starts it and waits until it listens; on the port of its first start."""
        where = self.url.partition("://")[2] or "127.0.0.1:0"
        words = [RESTD, "--listen", where, "--listen", f"unix:{self.socket}", "--allow-privileged", "--verbose"]
        words += self.options
        log = self.cluster.home / "log" / f"{name}.log"
        before = log.stat().st_size if log.exists() else 0
        daemon = self.cluster.launch(
            name, words, {CONSTANTS: json.dumps(dict(self.constants))} if self.constants else {}
        )

        def listens() -> bool:
            return log.read_text()[before:].count("listening on") == 2

        self.cluster.wait(listens, "the REST daemon listens", START_S, alive=(daemon,))
        found = re.search(r"https?://\S+", log.read_text()[before:])
        assert found is not None
        self.url = found[0]

    def token(self, user: str = "") -> str:
        """A token of this user, by the administrator; "" = of the user who runs the tests."""
        words = [f"username={user}"] if user else []
        return self.cluster.run("scontrol", "token", "lifespan=3600", *words).ok().out.strip().partition("=")[2]

    def as_user(self, user: str = "", *, token: str | None = None) -> httpx.Client:
        """A connection with the token of that user."""
        headers = {"X-SLURM-USER-TOKEN": self.token(user) if token is None else token}
        return httpx.Client(base_url=self.url, headers=headers, timeout=ANSWER_S, verify=NO_AUTHORITIES)

    def by_socket(self) -> httpx.Client:
        """A connection over the Unix socket, without a token."""
        transport = httpx.HTTPTransport(uds=str(self.socket), verify=NO_AUTHORITIES)
        return httpx.Client(transport=transport, base_url="http://localhost", timeout=ANSWER_S)

    def log(self) -> str:
        """All that the daemon wrote until now."""
        return self.daemon.log.read_text()

    def logged(self, text: str) -> str:
        """All that the daemon wrote, once this text is in it: a thread writes the log."""
        self.cluster.wait(lambda: text in self.log(), f"restd logs {text!r}", show=lambda: self.log()[-2000:])
        return self.log()
