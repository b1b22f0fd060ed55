"""What a personal token allows (penstock token create --scope)."""

from enum import IntEnum


class Scope(IntEnum):
    """Each scope allows what those before it do, and never more than the user may."""

    READ = 1  # queries that every user may make
    SUBMIT = 2  # and submitting, changing and cancelling the user's own jobs, their steps, scripts and crontab
    ADMIN = 3  # and all other rights of the user, those of their role included
