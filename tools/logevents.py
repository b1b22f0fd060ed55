"""Collects the daemons' calls of the log, and writes the tables of events into docs/logs.md.

Run it after a change of penstock/logs/events.py, or of a word of a job's history; a tidy test compares.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from penstock.logs.events import BY_DAEMON, NAMED, job_event  # noqa: E402

PAGE = ROOT / "docs" / "logs.md"
BEGIN, END = "<!-- written by tools/logevents.py -->\n", "<!-- end of what is written -->\n"
#: The packages whose code a daemon runs.
PACKAGES: Final = {
    "ctld": ("ctld", "penstock"),
    "noded": ("nodedaemon", "penstock"),
    "restd": ("rest", "penstock"),
    "pamd": ("pamd", "penstock"),
}
#: What the only event that is put together is (ctld/core/nodes/extern_steps.py).
_STAGES: Final = ("prolog failed", "epilog failed", "holder failed")
_METHODS: Final = ("debug", "info", "warning", "error", "exception", "critical", "log")
_TITLES: Final = {
    "ctld": "The controller",
    "noded": "The node daemon",
    "restd": "The REST daemon",
    "pamd": "The daemon that checks passwords",
}


class LogCall(NamedTuple):
    """A call of the log: where it is, and its text or its name; None = neither is constant."""

    where: str
    text: str | None
    event: str | None
    arguments: int


def calls(packages: Iterable[str]) -> Iterator[LogCall]:
    """Yields the calls of the log in the code."""
    for path, node in _nodes(packages):
        function = node.func
        if not (
            isinstance(function, ast.Attribute) and function.attr in _METHODS and ast.unparse(function.value) == "log"
        ):
            continue
        words = node.args[1:] if function.attr == "log" else node.args
        text = words[0].value if isinstance(words[0], ast.Constant) else None
        where = f"{path.relative_to(ROOT)}:{node.lineno}"
        yield LogCall(where, str(text) if text is not None else None, _event(node), len(words) - 1)


def job_words() -> set[str]:
    """Returns the events of jobs: what the core writes into their histories."""
    found = {"restored"}
    for _, node in _nodes(("ctld/core",)):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "record" and len(node.args) > 2:
            found |= _texts(node.args[2])
    return {job_event(word) for word in found}


def page() -> str:
    """The page with fresh tables."""
    text = PAGE.read_text()
    head, tail = text.partition(BEGIN)[0], text.partition(END)[2]
    return "".join((head, BEGIN, *(f"{line}\n" for line in _tables()), END, tail))


def _tables() -> Iterator[str]:
    for daemon, title in _TITLES.items():
        yield from ("", f"### {title}", "", "| event | fields | message |", "|---|---|---|")
        rows = sorted((event.name, text, event.fields) for text, event in BY_DAEMON[daemon].items())
        for name, text, fields in rows:
            yield f"| `{name}` | {', '.join(field for field in fields if field != '-')} | `{text}` |"
    yield from ("", "### Without a text of their own", "", "| event | tells |", "|---|---|")
    yield from (f"| `{name}` | {text} |" for name, text in sorted(NAMED.items()))
    yield from ("", "### Of jobs", "", "Each with the fields job, attempt and detail:", "")
    yield from (", ".join(f"`{name}`" for name in sorted(job_words())) + ".", "")


def _nodes(packages: Iterable[str]) -> Iterator[tuple[Path, ast.Call]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    yield path, node


def _event(call: ast.Call) -> str | None:
    for keyword in call.keywords:
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
            pairs = zip(keyword.value.keys, keyword.value.values, strict=True)
            return next((str(ast.literal_eval(v)) for k, v in pairs if k and ast.literal_eval(k) == "event"), None)
    return None


def _texts(word: ast.expr) -> set[str]:
    """The texts that an expression may be."""
    if isinstance(word, ast.Constant):
        return {str(word.value)}
    if isinstance(word, ast.IfExp):
        return _texts(word.body) | _texts(word.orelse)
    if isinstance(word, ast.JoinedStr):
        return set(_STAGES)
    raise SystemExit(f"tools/logevents.py: a job's event that is not constant: {ast.unparse(word)}")


def main() -> int:
    """Write the tables."""
    PAGE.write_text(page())
    print(f"{PAGE} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
