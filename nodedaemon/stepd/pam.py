"""A PAM session of the user, opened in the task's own process before it gives up root (UsePAM=1).

pam_limits then sets the process's resource limits, and so on for other modules. The service is `slurm`
(/etc/pam.d/slurm), as in Slurm. The session is not closed: the process that opened it becomes the user's program. So
modules do not run their cleanup at the session's end; use the extern step's epilog for that.
"""

from penstock.libpam import ESTABLISH_CRED, RUSER, SILENT, Pam

SERVICE = "slurm"


def open_session(user_name: str) -> None:
    """Opens a session for the rest of the calling process's life. Raises PamError."""
    pam = Pam(SERVICE, user_name)  # whose questions are refused: no user can answer them
    pam.set_item(RUSER, user_name, "set the user")
    pam.check(pam.call("pam_setcred", SILENT | ESTABLISH_CRED), "set credentials")
    pam.check(pam.call("pam_open_session"), "open the session")
