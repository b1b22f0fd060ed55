"""What all changes of one line have in common: the target and the mode, the tree as it is, the question, the sending.

The controller first checks a change without making it (check_only); the command prints it in Slurm's words and makes it
after the user confirms (or at once with -i).
"""

from functools import cached_property

from cli.accounts.tree import AssociationTree, with_below
from cli.accounts.words import ParsedLine
from cli.base.confirm import COMMIT, confirmed
from cli.base.options import OptionValues
from cli.base.refusal import split_message
from cli.base.run import CommandError
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import JobFilter, ListJobsRequest
from penstock.v1.governance_pb2 import Change, ChangeManyReply, ChangeManyRequest
from penstock.v1.shares_pb2 import ChangeAccountsReply, ChangeAccountsRequest
from penstock.values.refusals import Code

#: What is said where no record meets the conditions.
NOTHING = {"modify": " Nothing modified", "remove": " Nothing deleted"}
NO_WHERE = "You didn't set any conditions with 'WHERE'.\nAre you sure you want to continue?"


class ChangeContext:
    """The target and the mode of changes: the common part of all changes of one line."""

    def __init__(self, client: Client, options: OptionValues) -> None:
        self.client = client
        self.options = options
        self.cluster = client.cluster.cluster_name

    @cached_property
    def tree(self) -> AssociationTree:
        """The tree before the change, loaded when a line first needs it, and once."""
        return AssociationTree.load(self.client)

    def put(self, *lines: str) -> None:
        """Prints what is about to be done; -Q leaves it out."""
        if not self.options.flag("quiet"):
            for line in lines:
                print(line)  # noqa: T201

    def agreed(self, question: str = COMMIT) -> bool:
        """Whether the user confirms; always true with -i."""
        return self.options.flag("immediate") or confirmed(question)

    def commit(self, requests: list[ChangeAccountsRequest], before: str, question: str = COMMIT) -> int:
        """Asks for confirmation and sends: all requests or none."""
        if not self.agreed(question):
            print(" Changes Discarded")  # noqa: T201
            return 0
        self.send(requests, before, False)
        return 0

    def send(self, requests: list[ChangeAccountsRequest], before: str, check_only: bool) -> list[ChangeAccountsReply]:
        """Sends one request by itself, several as one transaction. `before` precedes the text of a refusal."""
        try:
            if len(requests) == 1:
                request = ChangeAccountsRequest()
                request.CopyFrom(requests[0])
                request.check_only = check_only
                return [self.client.call("ChangeAccounts", request)]
            changes = [Change(accounts=request) for request in requests]
            reply: ChangeManyReply = self.client.call(
                "ChangeMany", ChangeManyRequest(changes=changes, check_only=check_only)
            )
            return list(reply.replies)
        except PenstockError as error:
            raise self._refused(error, before, requests[0]) from error

    def _refused(self, error: PenstockError, before: str, request: ChangeAccountsRequest) -> Exception:
        if not error.code:
            return error
        words, detail = split_message(error)
        lines = [f"{before}{words}"]
        if error.code == Code.JOBS_ON_ASSOCIATION and (jobs := self._active_jobs(request)):
            lines += jobs
            detail = ""
        elif error.code == Code.NO_REMOVE_DEFAULT_ACCOUNT and request.entity == "account":
            users = sorted(self.tree.users.values(), key=lambda one: one.name)
            lines += [
                f"  C = {self.cluster:<15} A = {one.default_account:<10} U = {one.name:<9}"
                for one in users
                if one.default_account in request.names
            ]
            lines += [
                " Please either remove the accounts listed above from list and resubmit,",
                " or change these users' default accounts to remove the account(s).",
                " Changes Discarded",
            ]
            detail = ""
        elif error.code == Code.NO_REMOVE_DEFAULT_ACCOUNT:
            lines.append(" You must change the default account of these users or remove the users completely from the")
            lines[-1] += " affected clusters to allow these changes.\n Changes Discarded"
        return CommandError("\n".join(lines), plain=True, detail=detail.replace("\n", " "))

    def _active_jobs(self, request: ChangeAccountsRequest) -> list[str]:
        """The active jobs that prevent the removal, of the users and accounts that the request names."""
        names = list(request.names)
        if not names:
            return []
        if request.entity == "user":
            which = JobFilter(users=names, accounts=request.accounts)
        else:
            which = JobFilter(accounts=with_below(self.tree, names))
        found = self.client.stream("ListJobs", ListJobsRequest(filter=which))
        jobs = [job for page in found for job in page.jobs][:1000]
        return [
            f"  JobID = {job.job_id:<10} C = {self.cluster:<10} A = {job.request.account:<10} U = {job.user_name:<9}"
            for job in jobs
        ]


def is_elsewhere(said: ParsedLine, own: str) -> bool:
    """Whether a line concerns other clusters alone. What there is none of cannot be changed or removed."""
    named = said.conditions.get("cluster", ())
    return bool(named) and own not in named


def check_cluster(said: ParsedLine, own: str) -> None:
    """Checks the names of clusters in a request to this one: any other name is an error."""
    for name in said.conditions.get("cluster", ()):
        if name != own:
            raise CommandError(
                f" This cluster '{name}' doesn't exist.\n        Contact your admin to add it to accounting.",
                plain=True,
            )


def nothing(text: str) -> int:
    """Says that there is nothing to do; the exit status of that."""
    print(text)  # noqa: T201
    return 1
