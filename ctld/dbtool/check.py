"""`penstock db check`: finds damage and rows that are inconsistent, as far as SQL can tell.

Each invariant is a query for violations: how many rows, and one of them. It may run beside the controller: everything
is read in one transaction.
"""

from typing import Final, NamedTuple

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import BigInteger, Connection, column, func, select, text

from ctld.store.dialect import one_moment
from ctld.store.errors import StoreDamaged
from ctld.store.loader import load
from ctld.store.migrate import REVISIONS, revision_of
from ctld.store.schema import METADATA
from penstock.values.numbers import INT64_MAX

_ID = column("id", BigInteger)
#: 10 is schema.ENDED_FROM, as the partial indexes have it. A description, and a query for the keys of such rows.
INVARIANTS: Final = (
    ("meta has not one row of this program",
     "SELECT id AS id FROM meta WHERE id <> 1 OR name <> 'penstock'"),
    ("jobs have a number that has not been assigned",
     "SELECT job_id AS id FROM job WHERE job_id >= (SELECT next_job_id FROM meta)"),
    ("requests have a number that has not been assigned",
     "SELECT request_id AS id FROM job_request WHERE request_id >= (SELECT next_request_id FROM meta)"),
    ("jobs have no request",
     "SELECT job_id AS id FROM job WHERE NOT EXISTS"
     " (SELECT 1 FROM job_request WHERE job_request.request_id = job.request_id)"),
    ("steps have no job",
     "SELECT job_id AS id FROM step WHERE NOT EXISTS"
     " (SELECT 1 FROM job WHERE job.job_id = step.job_id AND job.attempt = step.attempt)"),
    ("jobs that have ended (state 10 and above) have no end",
     "SELECT job_id AS id FROM job WHERE state >= 10 AND end_at_us = 0"),
    ("jobs have ended before they began",
     "SELECT job_id AS id FROM job WHERE end_at_us > 0 AND start_at_us > end_at_us"),
    ("jobs are active in two attempts",
     "SELECT job_id AS id FROM job WHERE state < 10 GROUP BY job_id HAVING count(*) > 1"),
    ("jobs that have ended have live steps",
     "SELECT job.job_id AS id FROM job JOIN step ON step.job_id = job.job_id AND step.attempt = job.attempt"
     " WHERE job.state >= 10 AND step.state < 10"),
    ("active tasks are of an array whose first job is not known",
     "SELECT job_id AS id FROM job AS task WHERE state < 10 AND array_job_id > 0 AND NOT EXISTS"
     " (SELECT 1 FROM job WHERE job.job_id = task.array_job_id)"),
    ("jobs have an association that is not known",
     "SELECT job_id AS id FROM job WHERE assoc_id > 0 AND NOT EXISTS"
     " (SELECT 1 FROM assoc WHERE assoc.assoc_id = job.assoc_id)"),
    ("usage is of an association that is not known",
     "SELECT assoc_id AS id FROM assoc_usage WHERE assoc_id > 1 AND NOT EXISTS"
     " (SELECT 1 FROM assoc WHERE assoc.assoc_id = assoc_usage.assoc_id)"),
    ("associations are of an account that is not known",
     "SELECT assoc_id AS id FROM assoc WHERE deleted = 0 AND account <> 'root' AND NOT EXISTS"
     " (SELECT 1 FROM account WHERE account.name = assoc.account)"),
    ("rolled-up usage (usage_hour) has no owner",
     "SELECT key_id AS id FROM usage_hour WHERE NOT EXISTS"
     " (SELECT 1 FROM usage_key WHERE usage_key.key_id = usage_hour.key_id)"),
    ("rolled-up usage (usage_day) has no owner",
     "SELECT key_id AS id FROM usage_day WHERE NOT EXISTS"
     " (SELECT 1 FROM usage_key WHERE usage_key.key_id = usage_day.key_id)"),
    ("rolled-up usage (usage_month) has no owner",
     "SELECT key_id AS id FROM usage_month WHERE NOT EXISTS"
     " (SELECT 1 FROM usage_key WHERE usage_key.key_id = usage_month.key_id)"),
)  # fmt: skip


class CheckResult(NamedTuple):
    """The result of a check: problems, a line each, or that there are none."""

    problems: list[str]
    summary: str


def check(connection: Connection) -> CheckResult:
    """Checks everything. For a database with another schema only that is reported."""
    one_moment(connection)
    return examine(connection)


def examine(connection: Connection) -> CheckResult:
    """Does the same within the caller's transaction."""
    problems: list[str] = []
    if connection.dialect.name == "sqlite":
        lines = [str(line) for (line,) in connection.execute(text("PRAGMA integrity_check"))]
        problems += [f"the file is damaged: {line}" for line in lines if line != "ok"]
    revision = revision_of(connection)
    if revision != REVISIONS[-1]:
        return CheckResult([*problems, f"the schema is {revision or 'none'}, this program's is {REVISIONS[-1]}"], "")
    problems += [f"the schema differs: {line}" for line in _differences(connection)]
    for words, question in INVARIANTS:
        found = text(question).columns(_ID).subquery()
        count, key = connection.execute(select(func.count(), func.min(found.c.id))).one()
        if count:
            problems.append(f"{words}: {count} rows, for example {key}")
    if not problems:
        problems += _unreadable(connection)
    jobs = connection.execute(text("SELECT count(*) FROM job")).scalar()
    return CheckResult(problems, f"no problem found: schema {revision}, {jobs} records of jobs")


def _unreadable(connection: Connection) -> list[str]:
    """The first row that a controller could not read at its start. History is not read."""
    try:
        load(connection, INT64_MAX, INT64_MAX)
    except StoreDamaged as error:
        return [str(error)]
    return []


def _differences(connection: Connection) -> list[str]:
    found = compare_metadata(MigrationContext.configure(connection), METADATA)
    return [" ".join(str(word) for word in (one if isinstance(one, tuple) else one[0])[:4]) for one in found]
