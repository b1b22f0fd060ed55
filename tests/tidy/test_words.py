"""Words: the glossary has them all, documents and code use them, and nothing names a place on somebody's machine."""

import ast
import re
from pathlib import Path

import pytest
import tidytree as tree

DOCUMENTS = sorted([*tree.ROOT.glob("*.md"), *(tree.ROOT / "docs").rglob("*.md")])
GLOSSARY = (tree.ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
#: The words that the design fixed.
WORDS = """
job, step, task, array job, array task, het job, component, partition, node, node state, job state, reason,
allocation, TRES, GRES, association, account, QOS, fair-share, priority, nice, hold, eligible time, begin time,
submit time, start time, end time, time limit, deadline, dependency, reservation, licenses, feature, constraint,
preemption mode, backfill, prolog, epilog, KillWait, requeue, attempt, controller, node daemon, stepd, epoch
"""

#: What the documents do not say, and what they say instead.
UNWANTED = {
    r"\bworker nodes?\b": "node",
    r"\bcompute hosts?\b": "node",
    r"\bjob queues?\b": "partition, or pending jobs",
    r"\bwall ?time\b": "time limit",
    r"\bslave\b": "node daemon",
    r"\bmaster (node|daemon|process)\b": "controller",
    r"\bjob status\b": "job state",
}
#: Endings of names that are not our units, and the unit to use.
BAD_UNITS = {
    **dict.fromkeys(("_sec", "_secs", "_seconds", "_mins"), "_s"),
    **dict.fromkeys(("_msec", "_millis"), "_ms"),
    **dict.fromkeys(("_usec", "_usecs", "_micros"), "_us"),
    **dict.fromkeys(("_megabytes", "_mbytes", "_mib"), "_mb"),
    "_kib": "_kb",
}

#: Folders of a machine that a document or source may name: standard places, and Slurm's.
_PLACES = r"/(?:home|root|work|workspace|mnt|Users|srv|data|scratch)/[\w.-]+"
ALLOWED_PLACES = {"/home/you", "/home/user", "/home/alice", "/home/bob", "/home/ann"}


def prose(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_glossary_has_every_word() -> None:
    assert [w for w in re.split(r",\s+", WORDS.strip()) if f"**{w}**" not in GLOSSARY] == []


def test_the_glossary_is_sorted_and_has_no_word_twice() -> None:
    rows = re.findall(r"^\| (\*\*.*?)\|", GLOSSARY, re.M)
    first = [re.match(r"\*\*(.+?)\*\*", row).group(1).lower() for row in rows]
    assert first == sorted(first)
    words = re.findall(r"\*\*(.+?)\*\*", "\n".join(rows))
    assert len(words) == len(set(words))


@pytest.mark.parametrize("path", DOCUMENTS, ids=tree.name_of)
def test_documents_use_the_words(path: Path) -> None:
    text = re.sub(r"`[^`]*`", "", prose(path))
    if path.name == "glossary.md":
        text = "\n".join(line.rpartition("|")[0].rpartition("|")[0] for line in text.splitlines())
    found = [f"{m.group()!r}: say {better}" for bad, better in UNWANTED.items() for m in re.finditer(bad, text, re.I)]
    assert found == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=tree.name_of)
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", prose(path))
    assert [t for t in targets if not (path.parent / t).exists()] == []


def test_no_path_of_a_machine_in_documents_and_sources() -> None:
    files = [
        *DOCUMENTS,
        *tree.sources(*tree.PACKAGES, *tree.OPTIONAL_PACKAGES, "tools"),
        *(tree.ROOT / "packaging").iterdir(),
    ]
    files += [
        tree.ROOT / "Makefile",
        tree.ROOT / "setup.py",
        tree.ROOT / "pyproject.toml",
        *(path for path in (tree.ROOT / "examples").rglob("*") if path.is_file() and "__pycache__" not in path.parts),
    ]
    found = [
        f"{tree.name_of(path)}: {match}"
        for path in files
        for match in re.findall(rf"(?<![\w$}}.~-]){_PLACES}", prose(path))
        if match not in ALLOWED_PLACES
    ]
    assert found == []


def names_in(module: ast.Module) -> set[str]:
    """Names that a module gives: variables, arguments, attributes, functions."""
    names = {n.id for n in ast.walk(module) if isinstance(n, ast.Name)} | {
        n.arg for n in ast.walk(module) if isinstance(n, ast.arg)
    }
    return names | {
        n.name for n in ast.walk(module) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }


def test_names_end_in_our_units() -> None:
    found = [
        f"{tree.name_of(path)}: {name}: use {better}"
        for path in tree.sources()
        for name in sorted(names_in(tree.tree_of(path)))
        for bad, better in BAD_UNITS.items()
        if name.lower().endswith(bad)
    ]
    assert found == []
