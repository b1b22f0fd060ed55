"""sacctmgr modify job where jobid=ID set comment=TEXT: changes the records of jobs, also long after their end.

The controller lists the selected jobs (ModifyRecords without making the change), the user confirms, and it is made.
"""

from cli.accounts.context import ChangeContext
from cli.accounts.words import Grammar, ParsedLine, keywords
from cli.base.jobids import selector_text
from cli.base.run import CommandError
from penstock.errors import PenstockError
from penstock.v1.accounting_pb2 import ListRecordsRequest
from penstock.v1.governance_pb2 import ModifiedRecord, ModifyRecordsRequest
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue
from penstock.values.jobid import parse_selectors

GRAMMAR = Grammar(
    keywords(
        "Jobs:1>jobid JobID:1>jobid Clusters:1>cluster EndTime:1 StartTime:1 Users:1>user WCKeys:1>wckey "
        "Partitions:1>partition"
    ),
    keywords(
        "AdminComment:1 Comment:1 DerivedExitCode:12 DerivedEC:9>derivedexitcode DerivedExitString:12>comment "
        "DerivedES:9>comment "
        "Extra:1 NewWCKey:1 SystemComment:1"
    ),
    bare="jobid",
)


def modify_jobs(context: ChangeContext, said: ParsedLine) -> int:
    """Runs one line."""
    if not said.changes:
        raise CommandError(" You didn't give me anything to set", plain=True)
    request = ModifyRecordsRequest(
        which=_which(said), changes=said.changes, started_from_us=_time(said, "starttime"),
        ended_until_us=_time(said, "endtime"),
    )  # fmt: skip
    found = _send(context, request, check_only=True)
    if not found:
        print(" Nothing modified")  # noqa: T201
        return 1
    context.put(" Modified jobs...", *(f"  {record.job_id}" for record in found))
    if not context.agreed():
        print(" Changes Discarded")  # noqa: T201
        return 0
    _send(context, request, check_only=False)
    return 0


def _send(context: ChangeContext, asked: ModifyRecordsRequest, check_only: bool) -> list[ModifiedRecord]:
    request = ModifyRecordsRequest(check_only=check_only)
    request.MergeFrom(asked)
    try:
        return list(context.client.call("ModifyRecords", request).records)
    except PenstockError as error:
        if not error.code:
            raise
        raise CommandError(f" Error with request: {error.text}", plain=True) from error


def _which(said: ParsedLine) -> ListRecordsRequest:
    ids: list[str] = []
    for text in said.conditions.get("jobid", ()):
        try:
            ids += [selector_text(selector) for selector in parse_selectors(text)]
        except BadValue as error:
            raise CommandError(f"Invalid job id(s) {text} specified", plain=True, detail=str(error)) from None
    which = ListRecordsRequest(
        ids=dict.fromkeys(ids),
        users=said.conditions.get("user", ()),
        wckeys=said.conditions.get("wckey", ()),
        partitions=said.conditions.get("partition", ()),
    )
    if not which.ListFields():
        raise CommandError(" No conditions given to change, not executing.", plain=True)
    return which


def _time(said: ParsedLine, name: str) -> int:
    """A point in time; 0 = not given."""
    from cli.base.listing import now_us

    for text in said.conditions.get(name, ()):
        try:
            return parse_date_us(text, now_us(), past=True)
        except BadValue as error:
            raise CommandError(f"Invalid time specification (pos=0): {text}", plain=True, detail=str(error)) from None
    return 0
