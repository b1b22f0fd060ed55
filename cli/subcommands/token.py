"""`penstock token`: personal tokens, for programs that act for a user: create, list, revoke.

A personal token is a JSON web token with a name, a scope and an end, shown once. The controller keeps its record, not the token.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.base.format import DisplayClock, aligned
from cli.base.listing import emit, now_us
from cli.base.run import CommandError
from cli.subcommands.documents import documents, errors_as, put, write
from penstock.client import Client
from penstock.commandline import CommandGroup, CommandLine, invoke
from penstock.values.duration import UNLIMITED, parse_duration_s
from penstock.values.scopes import Scope

if TYPE_CHECKING:
    from penstock.v1.controller_pb2 import PersonalTokenInfo

NAME = "penstock token"
HEADERS = ("USER", "NAME", "SCOPE", "CREATED", "ENDS", "LAST USED", "FROM")
NEVER = "-"

command = CommandGroup(
    "token",
    help="Personal tokens: for programs that act for you, with a scope and an end.",
    wrong_use=2,
    edge=errors_as(NAME),
    examples=(
        ("penstock token create ci --scope submit --lifespan 90-0", "one for a program that submits jobs"),
        ("penstock token list", "yours, and when each was last used"),
        ("penstock token revoke ci", "it is no longer valid"),
    ),
)


def main(argv: list[str]) -> int:
    """Run `penstock token ...`; its status."""
    return invoke(command, NAME, argv)


@command.command(
    "create",
    cls=CommandLine,
    help="Make a token, and print it once: read allows queries, submit also your own jobs, admin all that you may do.",
    examples=(("export $(penstock token create laptop)", "commands of this shell use it"),),
)
@documents
@click.option(
    "--scope",
    type=click.Choice([scope.name.lower() for scope in Scope]),
    default=Scope.READ.name.lower(),
    show_default=True,
    help="What it allows.",
)
@click.option(
    "--lifespan",
    metavar="TIME",
    default="30-0",
    show_default=True,
    help="How long it is valid, as a time limit: days-hours.",
)
@click.argument("name")
def create(name: str, scope: str, lifespan: str, language: str) -> int:
    """Requests a token from the controller."""
    from penstock.v1.controller_pb2 import CreatePersonalTokenRequest

    lifespan_s = parse_duration_s(lifespan)
    if lifespan_s in (0, UNLIMITED):
        raise CommandError(f"--lifespan: {lifespan}: a token has an end, at most 366 days from now")
    wanted = f"TOKEN_SCOPE_{scope.upper()}"
    with Client.open() as client:
        request = CreatePersonalTokenRequest(name=name, scope=wanted, lifespan_s=lifespan_s)
        reply = client.call("CreatePersonalToken", request)
    if language:
        document = {"name": name, "scope": scope, "ends_at_us": reply.ends_at_us, "token": reply.token}
        return write(document, language)
    put(f"SLURM_JWT={reply.token}")
    sys.stdout.flush()
    ends = DisplayClock.of_environment(now_us()).text(reply.ends_at_us, NEVER)
    sys.stderr.write(f"it is shown this once, and valid until {ends} or `penstock token revoke {name}`\n")
    return 0


@command.command(
    "list",
    cls=CommandLine,
    help="List your tokens. Administrators may list those of others.",
    examples=(("penstock token list --all", "those of all users"),),
)
@documents
@click.option("-u", "--user", metavar="USER", default="", help="Those of this user.")
@click.option("-a", "--all", "everybody", is_flag=True, help="Those of all users.")
def listed(user: str, everybody: bool, language: str) -> int:
    """Prints the records."""
    from penstock.v1.controller_pb2 import ListPersonalTokensRequest

    if user and everybody:
        raise CommandError("a user (--user), or all of them (--all)")
    with Client.open() as client:
        reply = client.call("ListPersonalTokens", ListPersonalTokensRequest(user=user, everybody=everybody))
    if language:
        from cli.base.document import message_object

        return write({"tokens": [message_object(one) | {"scope": _scope(one)} for one in reply.tokens]}, language)
    emit(report(reply.tokens, now_us()))
    return 0


@command.command(
    "revoke",
    cls=CommandLine,
    help="End a token at once.",
    examples=(("penstock token revoke ci", "yours"), ("penstock token revoke ci --user ann", "that of another user")),
)
@documents
@click.option("-u", "--user", metavar="USER", default="", help="The token is this user's; administrators only.")
@click.argument("name")
def revoke(name: str, user: str, language: str) -> int:
    """Requests its end."""
    from penstock.v1.controller_pb2 import RevokePersonalTokenRequest

    with Client.open() as client:
        client.call("RevokePersonalToken", RevokePersonalTokenRequest(name=name, for_user=user))
    return write({"name": name, "revoked": True}, language) if language else 0


def report(tokens: "Sequence[PersonalTokenInfo]", at_us: int) -> list[str]:
    """The list as text. `at_us`: now."""
    if not tokens:
        return ["there are no personal tokens"]
    clock = DisplayClock.of_environment(at_us)
    return aligned([HEADERS, *(_cells(token, clock, at_us) for token in tokens)], ())


def _cells(token: "PersonalTokenInfo", clock: DisplayClock, at_us: int) -> tuple[str, ...]:
    ends = clock.text(token.ends_at_us, NEVER)
    return (
        token.user,
        token.name,
        _scope(token),
        clock.text(token.created_at_us, NEVER),
        ends if token.ends_at_us > at_us else f"{ends} (expired)",
        clock.text(token.used_at_us, NEVER) if token.used_at_us else NEVER,
        token.used_from or NEVER,
    )


def _scope(token: "PersonalTokenInfo") -> str:
    return Scope(token.scope).name.lower()
