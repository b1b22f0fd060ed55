"""Parses dependency expressions: `afterok:123:124,after:125+10`, `afterany:1_4?afternotok:2`, `singleton`, and jobs by
their SLUIDs: `afterok:s35AFRG0000007`.

An expression is a list of terms, all (`,`) or any (`?`) of which must hold; like Slurm, no mixture is accepted. Each
job id becomes a term of its own. `+minutes` belongs to `after` only. The core decides whether a term holds, or never
can.
"""

from collections.abc import Container
from dataclasses import dataclass

from penstock.values.allowance import Allowance
from penstock.values.errors import BadValue
from penstock.values.jobid import JOB_ID_MAX, SLUID_LENGTH, parse_sluid
from penstock.values.numbers import parse_int
from penstock.values.taskset import TASK_ID_MAX
from penstock.values.text import shown

DEPENDENCY_TERMS_MAX = 10_000  # every end of a job visits the terms that name it
TERM_COST = 6  # in names of an allowance
DELAY_MINUTES_MAX = 366 * 24 * 60  # a year
_TEXT_MAX = DEPENDENCY_TERMS_MAX * 40  # the longest term is shorter

#: Slurm's suffixes of terms that do not hold yet, or cannot hold.
UNFULFILLED, FAILED = "(unfulfilled)", "(failed)"
SINGLETON = "singleton"
KINDS = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer", SINGLETON)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. `job_id` is 0 for a singleton; `task_id` is None for a whole job or array. `submitted_s`: of a SLUID,
    the submission of the record in seconds since 1970; the core replaces such a term by one without.
    """

    kind: str
    job_id: int = 0
    task_id: int | None = None
    delay_s: int = 0
    submitted_s: int | None = None


@dataclass(frozen=True, slots=True)
class Dependency:
    any_of: bool
    terms: tuple[Term, ...]


def parse_dependency(text: str, allowance: Allowance | None = None) -> Dependency:
    """Parses a dependency; "" has no terms. `allowance`: that of the request."""
    if not text:
        return Dependency(False, ())
    if len(text) > _TEXT_MAX:
        raise BadValue(f"Invalid dependency: {len(text)} characters, the limit is {_TEXT_MAX}")
    any_of = "?" in text
    number = text.count(":")
    if number > DEPENDENCY_TERMS_MAX:  # before any term is created
        raise BadValue(f"Invalid dependency: more than {DEPENDENCY_TERMS_MAX} terms")
    if allowance is not None:
        allowance.spend(TERM_COST * number)
    if any_of and "," in text:
        raise BadValue(f"Invalid dependency {shown(text)}: use ',' (all) or '?' (any), not both")
    terms: list[Term] = []
    for item in text.split("?" if any_of else ","):
        terms.extend(_parse_item(item))
        if len(terms) > DEPENDENCY_TERMS_MAX:
            raise BadValue(f"Invalid dependency: more than {DEPENDENCY_TERMS_MAX} terms")
    return Dependency(any_of, tuple(terms))


def _parse_item(item: str) -> list[Term]:
    kind, *ids = item.split(":")
    kind = kind.lower()
    if kind not in KINDS:
        raise BadValue(f"Invalid dependency {shown(item)}: write one of {', '.join(KINDS)}, as in afterok:123")
    if kind == SINGLETON:
        if ids:
            raise BadValue(f"Invalid dependency {shown(item)}: singleton takes no job id")
        return [Term(SINGLETON)]
    if not ids:
        raise BadValue(f"Invalid dependency {shown(item)}: a job id is missing, as in {kind}:123")
    return [_parse_term(kind, one) for one in ids]


def _parse_term(kind: str, text: str) -> Term:
    what = f"dependency {shown(text)}"
    target, plus, delay = text.partition("+")
    if plus and kind != "after":
        raise BadValue(f"Invalid {what}: a delay in minutes goes with 'after' only")
    delay_s = 60 * parse_int(delay, 0, DELAY_MINUTES_MAX, f"delay in {what}") if plus else 0
    if len(target) == SLUID_LENGTH and target[0] == "s":
        try:
            submitted_s, job_id = parse_sluid(target)
        except BadValue as error:
            raise BadValue(f"Invalid {what}: {error}") from None
        return Term(kind, job_id, None, delay_s, submitted_s)
    job, underscore, task = target.partition("_")
    whole = not underscore or task == "*"  # squeue writes a whole array as 123_*
    return Term(
        kind,
        parse_int(job, 1, JOB_ID_MAX, f"job id in {what}"),
        None if whole else parse_int(task, 0, TASK_ID_MAX, f"task id in {what}"),
        delay_s,
    )


def format_dependency(dependency: Dependency, failed: Container[Term] | None = None) -> str:
    """Formats a dependency as Slurm does, one item per job; with `failed`, each item has its state in parentheses."""
    items = []
    for term in dependency.terms:
        state = "" if failed is None else FAILED if term in failed else UNFULFILLED
        items.append(_format_term(term) + state)
    return ("?" if dependency.any_of else ",").join(items)


def without_states(text: str) -> str:
    """Returns the text of a dependency without the states of its terms."""
    return text.replace(UNFULFILLED, "").replace(FAILED, "")


def _format_term(term: Term) -> str:
    if term.kind == SINGLETON:
        return SINGLETON
    task = "" if term.task_id is None else f"_{term.task_id}"
    delay = f"+{term.delay_s // 60}" if term.delay_s else ""
    return f"{term.kind}:{term.job_id}{task}{delay}"
