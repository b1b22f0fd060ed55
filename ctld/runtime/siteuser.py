"""The user without rights as whom a controller that is root runs programs for jobs' users: MailProg, jobcomp/script."""

import os

from ctld.runtime.lookups import Lookups
from ctld.runtime.programs import UserIdentity


class NoIdentity(Exception):
    """A program cannot be run as that user; the text says why."""


async def site_user(lookups: Lookups, user_name: str, key: str) -> UserIdentity | None:
    """Returns the user that `key` of slurm.conf names; None = the controller's user, which is not root. Raises NoIdentity,
    LookupFailed."""
    if os.geteuid() != 0:
        return None
    identity = await lookups.identity(user_name, os.geteuid())
    if identity is None:
        raise NoIdentity(f"user {user_name} is not known on this machine")
    if identity.uid == 0 or identity.gid == 0 or 0 in identity.groups:
        raise NoIdentity(f"{key}={user_name} is root, or in root's group: name a user without rights")
    return identity
