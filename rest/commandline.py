"""The options of `penstock restd`, apart from the daemon: a shell that completes them imports nothing else. The short ones
are slurmrestd's."""

from penstock.daemonline import LOG_OPTIONS, DaemonLine, DaemonOption

EXAMPLES = """Examples:
  penstock restd --listen 127.0.0.1:6820
  penstock restd --listen 0.0.0.0:6820 --tls-cert cert.pem --tls-key key.pem
  penstock restd --listen unix:/run/penstock/restd.sock"""
ACCEPTED = 'accepted, and has no effect: all versions and plugins are always served; "list" prints them'


def command_line() -> DaemonLine:
    """The whole command line."""
    return DaemonLine(
        "penstock restd",
        "Slurm's REST interface over HTTP (docs/rest.md).",
        (
            DaemonOption(
                ("--listen",),
                "where to listen: ADDR:PORT (port 0: a free one), or unix:PATH; may be repeated, and given as words",
                "WHERE",
                is_repeated=True,
            ),
            DaemonOption(("--tls-cert",), "certificate of the TCP addresses (PEM, with its chain)", "FILE"),
            DaemonOption(("--tls-key",), "its private key (PEM)", "FILE"),
            DaemonOption(("--web",), "serve the web interface at /, too (docs/web.md)"),
            DaemonOption(
                ("--web-templates",), "with --web: a folder with templates of job scripts (docs/web.md)", "FOLDER"
            ),
            DaemonOption(
                ("--oidc-issuer",), "with --web: log users in by this OpenID Connect provider (docs/web.md)", "URL"
            ),
            DaemonOption(("--oidc-client-id",), "the provider's name of this client (default: the cluster's)", "ID"),
            DaemonOption(
                ("--oidc-client-secret-file",),
                "its secret, in a file of this user with mode 0600 (default: none, a public client)",
                "FILE",
            ),
            DaemonOption(
                ("--oidc-user-claim",), "the claim that names the user (default: preferred_username)", "CLAIM"
            ),
            DaemonOption(
                ("--pam-socket",),
                "with --web: log users in by their passwords, which penstock pamd checks at this socket (docs/web.md)",
                "FILE",
            ),
            DaemonOption(("--web-url",), "address of the web interface as browsers have it, behind a proxy", "URL"),
            DaemonOption(
                ("--sessions-listen",),
                "where sessions (notebooks, terminals) are reached: ADDR:PORT, an origin of its own (docs/sessions.md)",
                "WHERE",
            ),
            DaemonOption(
                ("--sessions-url",), "its address as browsers have it (default: that of --sessions-listen)", "URL"
            ),
            DaemonOption(
                ("--sessions-file",), "the kinds of sessions, in YAML or JSON (default: jupyter, code, shell)", "FILE"
            ),
            DaemonOption(
                ("--allow-plain",), "listen without TLS on addresses that are not this machine's own loopback, too"
            ),
            DaemonOption(("--allow-privileged",), "run although this user is root or SlurmUser"),
            DaemonOption(("-f", "--config"), "slurm.conf of the cluster (default: as commands find it)", "FILE"),
            DaemonOption(("-v", "--verbose"), "log every request"),
            *LOG_OPTIONS,
            DaemonOption(("-s",), ACCEPTED, "PLUGINS"),
            DaemonOption(("-d",), ACCEPTED, "PARSERS"),
            DaemonOption(
                ("-a",),
                'accepted, and has no effect: tokens and the kernel\'s word are always taken; "list" prints them',
                "AUTH",
            ),
            DaemonOption(("-V", "--version"), "print the version"),
        ),
        EXAMPLES,
        "[ADDR]:PORT|unix:PATH",
    )
