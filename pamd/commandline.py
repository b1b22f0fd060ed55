"""The options of `penstock pamd`, apart from the daemon: a shell that completes them imports nothing else."""

from penstock.daemonline import LOG_OPTIONS, DaemonLine, DaemonOption

EXAMPLES = """Examples:
  penstock pamd --config /etc/penstock/slurm.conf
  penstock restd --web --pam-socket /run/penstock-pam/pamd.sock --listen 0.0.0.0:6820 --tls-cert cert.pem --tls-key key.pem"""


def command_line() -> DaemonLine:
    """The whole command line."""
    return DaemonLine(
        "penstock pamd",
        "Checks passwords by PAM for the web interface, and has the controller make tokens (docs/web.md). Runs as root.",
        (
            DaemonOption(("-f", "--config"), "slurm.conf of the cluster (default: /etc/penstock/slurm.conf)", "FILE"),
            DaemonOption(("--check",), "check the configuration and the PAM service, and end"),
            *LOG_OPTIONS,
        ),
        EXAMPLES,
    )
