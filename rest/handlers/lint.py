"""POST jobs/lint: what the rules of `sbatch --lint` find in a script that is being written.

The rules are those of cli/lint, over sbatch's options without those that look something up: a script is text here, and no path in
it is opened, nobody is asked about it. What the controller thinks of the job is the answer of jobs/test.
"""

from itertools import chain, islice
from typing import Final

from cli.base.document import Json
from cli.base.options import OptionValues
from cli.jobs.batchopts import COMMAND
from cli.jobs.script import SCRIPT_BYTES_MAX
from cli.lint.lint import RULES
from cli.lint.lintwords import Finding, read, without_lookups
from rest.answers import RestError
from rest.calling import RestCall
from rest.handlers.submission import BAD_SCRIPT
from rest.limits import LINT_BYTES_MAX, LINT_FINDINGS_MAX, LINT_LINES_MAX

BODY: Final = {"script": "string"}
FINDING: Final = {
    "line": "integer", "column": "integer", "severity": "string", "rule": "string", "text": "string", "fix": "string",
}  # fmt: skip


async def lint(call: RestCall) -> Json:
    """The findings, in the order of lines, and how many lines were read."""
    data = str(call.record().get("script") or "").encode()
    if len(data) > SCRIPT_BYTES_MAX:
        text = f"Batch script too large: the limit is {SCRIPT_BYTES_MAX} bytes"
        raise RestError(422, BAD_SCRIPT, text, source="#/script")
    await call.user_id()
    assert call.share is not None
    begin = beginning(data)
    found = await call.share.in_thread(lambda: findings(begin))
    return {"findings": found, "lines_read": begin.count(b"\n") + (not begin.endswith(b"\n"))}


def beginning(data: bytes) -> bytes:
    """The lines of a script that are looked at: whole ones."""
    end = len(data)
    if end > LINT_BYTES_MAX:
        end = data.rfind(b"\n", 0, LINT_BYTES_MAX) + 1
    lines = data[:end].split(b"\n", LINT_LINES_MAX)
    return data[:end] if len(lines) <= LINT_LINES_MAX else data[: end - len(lines[-1])]


def findings(data: bytes) -> list[Json]:
    """The findings, LINT_FINDINGS_MAX of a rule at most."""
    script = read(data, without_lookups(COMMAND), OptionValues())
    found = chain.from_iterable(islice(rule.find(script), LINT_FINDINGS_MAX) for rule in RULES)
    return [_shown(one) for one in sorted(found, key=lambda one: (one.line, one.rule))]


def _shown(one: Finding) -> Json:
    return {
        "line": one.line, "column": one.column, "severity": one.severity, "rule": one.rule, "text": _unicode(one.text),
        "fix": _unicode(one.fix),
    }  # fmt: skip


def _unicode(text: str) -> str:
    """Without the halves of pairs that stand for bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
