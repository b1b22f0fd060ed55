"""sacctmgr modify job where jobid=ID set comment=TEXT: what of a job's record can be changed, also when it has ended.

Through UpdateJobs, as scontrol update does: the controller keeps the records, and knows ended jobs for MinJobAge
seconds. What no call can change (the derived exit code) is refused by name.
"""

from cli.jobids import selector_text
from cli.run import CommandError
from cli.sacctmgr_change import Asker
from cli.sacctmgr_words import Grammar, Said, keywords
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
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
        "Extra:1 NewWCKey:1>wckey SystemComment:1"
    ),
    bare="jobid",
)


def modify_jobs(asker: Asker, said: Said) -> int:
    """One line."""
    if not said.changes:
        raise CommandError(" You didn't give me anything to set", plain=True)
    if "derivedexitcode" in said.changes:
        raise CommandError(
            " Error with request: Requested operation not supported on this system", plain=True,
            detail="DerivedExitCode is what the steps ended with, and cannot be changed; set a comment",
        )  # fmt: skip
    for key in ("endtime", "starttime"):
        if key in said.conditions:
            raise CommandError(
                f" Unknown condition: {key}={said.conditions[key][0]}\n name the jobs with jobid=", plain=True
            )
    ids = _ids(asker, said)
    if not ids:
        print(" Nothing modified")  # noqa: T201
        return 1
    asker.put(" Modified jobs...", *(f"  {one}" for one in ids))
    if not asker.agreed():
        print(" Changes Discarded")  # noqa: T201
        return 0
    try:
        reply = asker.client.call("UpdateJobs", pb.UpdateJobsRequest(ids=ids, changes=said.changes))
    except PenstockError as error:
        if not error.code:
            raise
        raise CommandError(f" Error with request: {error.text}", plain=True) from error
    failed = [result for result in reply.results if result.code]
    if failed:
        raise CommandError("\n".join(f" Error with request: {one.text}: {one.id}" for one in failed), plain=True)
    return 0


def _ids(asker: Asker, said: Said) -> list[str]:
    """The jobs that are named, or those that the other conditions find among those the controller knows."""
    ids: list[str] = []
    for text in said.conditions.get("jobid", ()):
        try:
            ids += [selector_text(selector) for selector in parse_selectors(text)]
        except BadValue as error:
            raise CommandError(f"Invalid job id(s) {text} specified", plain=True, detail=str(error)) from None
    if ids:
        return list(dict.fromkeys(ids))
    which = pb.JobFilter(
        users=said.conditions.get("user", []),
        wckeys=said.conditions.get("wckey", []),
        partitions=said.conditions.get("partition", []),
    )
    if not which.ListFields():
        raise CommandError(" No conditions given to change, not executing.", plain=True)
    pages = asker.client.stream("ListJobs", pb.ListJobsRequest(filter=which, all_states=True))
    return [str(job.job_id) for page in pages for job in page.jobs]
