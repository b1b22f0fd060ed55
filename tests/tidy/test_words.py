"""Words: the glossary has them all, documents and code use them, and nothing names a place on somebody's machine."""

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import tidytree as tree

DOCUMENTS = sorted([*tree.ROOT.glob("*.md"), *(tree.ROOT / "docs").rglob("*.md")])
MANUAL_PAGES = tree.ROOT / "tools" / "manual" / "pages.toml"
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
        *(path for path in (tree.ROOT / "packaging").rglob("*") if path.is_file()),
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


@dataclass
class Words:
    """What a module says, without its code."""

    names: set[str] = field(default_factory=set)  # of variables, arguments, functions and classes
    defined: set[str] = field(default_factory=set)  # functions and classes
    stored: set[str] = field(default_factory=set)  # variables and attributes that are assigned
    docstrings: list[tuple[str, str]] = field(default_factory=list)  # the first is the module's


@cache
def words_of(path: Path) -> Words:
    """The words of a source. A walk through all sources takes seconds, so there is one for all tests."""
    module = tree.tree_of(path)
    words = Words(docstrings=[("the module", ast.get_docstring(module) or "")])
    for node in tree.nodes_of(module):
        if isinstance(node, ast.Name):
            words.names.add(node.id)
            if isinstance(node.ctx, ast.Store):
                words.stored.add(node.id)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                words.stored.add(node.attr)
        elif isinstance(node, ast.arg):
            words.names.add(node.arg)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words.defined.add(node.name)
            words.docstrings.append((node.name, ast.get_docstring(node) or ""))
    words.names |= words.defined
    return words


#: Words that these packages do not use in any name, those of modules included, and what to say.
SERVER_PACKAGES = ("ctld", "sim", "accounting", "_fastsched")
SERVER_BANNED_PARTS = {
    "dealing": "distribution",
    "dealt": "distributed",
    "meddle": "affect, or change",
    "meddles": "affects, or changes",
    "meddling": "changes of others' records",
    "misfit": "conflict, or what does not fit",
    "misfits": "conflicts, or what does not fit",
    "namesakes": "jobs by name",
    "pasts": "past intervals",
    "somebody": "a user, a caller",
    "spared": "what was refused, or kept",
    "strangers": "what is unknown",
    "telling": "what is printed, reported or sent",
    "thinker": "what it executes",
    "told": "reported, sent, terminated, acknowledged",
}
#: Names with these parts that stay: of metrics and of the wire.
SERVER_PARTS_ALLOWED = {"spared"}
#: A hold is what a user or an administrator sets on a job, so that it does not start. Modules that have it, and names of
#: other things that are called so outside of the code: on the wire, and in the words of leases.
HOLD_MODULES = {
    "ctld/core/jobs/holds.py",
    "ctld/core/lifecycle/obstacles.py",
    "ctld/core/nodes/extern_steps.py",
    "ctld/core/requests/control.py",
    "ctld/core/requests/crontabs.py",
    "sim/people.py",
}
HOLD_NAMES = {"HeldStep", "LeaseHeld"}
HOLD_PARTS = {"held", "hold", "holder", "holders", "holding", "holdings", "holds"}


def parts_of(name: str) -> list[str]:
    """Returns the words of a name: `hold_back`, `HeldStep`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def test_no_name_or_module_of_the_server_has_a_banned_word() -> None:
    found = [
        f"{tree.name_of(path)}: {name}: say {SERVER_BANNED_PARTS[part]}"
        for path in tree.sources(*SERVER_PACKAGES)
        for name in sorted({path.stem, *words_of(path).names, *words_of(path).stored} - SERVER_PARTS_ALLOWED)
        for part in parts_of(name)
        if part in SERVER_BANNED_PARTS
    ]
    assert found == []


def test_a_hold_is_what_a_user_sets_on_a_job() -> None:
    names = [
        (tree.name_of(path), name)
        for path in tree.sources(*SERVER_PACKAGES)
        for name in sorted({path.stem, *words_of(path).defined})
        if HOLD_PARTS.intersection(parts_of(name))
    ]
    found = [f"{module}: {name}" for module, name in names if module not in HOLD_MODULES and name not in HOLD_NAMES]
    assert sorted(found) == []
    assert {module for module, name in names if name not in HOLD_NAMES} == HOLD_MODULES  # none is there in vain


def test_names_end_in_our_units() -> None:
    found = [
        f"{tree.name_of(path)}: {name}: use {better}"
        for path in tree.sources()
        for name in sorted(words_of(path).names)
        for bad, better in BAD_UNITS.items()
        if name.lower().endswith(bad)
    ]
    assert found == []


#: Names of a private language that the code had, and what it says now.
BANNED = {
    "AccountSight": "AccountVisibility",
    "Asker": "ChangeContext",
    "Distrust": "Quarantine",
    "Doing": "CallAnnounced",
    "EventAsk": "EventQuery",
    "Fate": "CallOutcome",
    "IdleWord": "IdleChange",
    "JobAsk": "JobReportQuery",
    "JobSight": "JobVisibility",
    "LastWords": "FatalCauses",
    "MemoryAsked": "RequestedMemory",
    "Mistake": "CrontabError",
    "Nature": "ScriptBehaviour",
    "Odd": "Unserviceable",
    "Place": "what it is the place of",
    "Remembered": "AnswerCache",
    "ReservationAsk": "ReservationDemand",
    "ReservationWords": "ReservationSettings",
    "SaidWords": "ParsedLine",
    "SignalDesk": "SignalCatcher",
    "SpoolBorn": "SpoolCreated",
    "StepDesk": "JobStepTable",
    "Telling": "ReasonBacklog",
    "Thinker": "PlannerQueryExecutor",
    "Told": "RecordChange",
    "UsageAsk": "UsageQuery",
    "WantedJob": "JobSubmission",
    "Wish": "what it is: a demand, changes, options",
    "_asked_yes": "_confirmed",
    "_become_nobody": "_undo_takeover",
    "_bury": "what ends there",
    "_describe_standing": "_describe_association",
    "_gave_way": "_stopped_by_lease",
    "_hear": "_receive",
    "_hear_answer": "_receive_answer",
    "_heed_lease": "_enforce_lease",
    "_look": "what is checked, inspected or updated",
    "_look_at_job": "_poll_job",
    "_look_at_nodes": "_poll_nodes",
    "_lose_patience": "_end_overdue",
    "_says_anything": "_has_constraints",
    "_says_no_hold": "_has_no_hold",
    "_standing": "_association",
    "_tell": "what is printed, reported or sent",
    "_tell_gone": "_report_ended",
    "_tell_others": "_notify_others",
    "_tell_spared": "_report_unexpected",
    "_tell_story": "_add_last_event",
    "_wish": "a demand",
    "_worth_telling": "_worth_listing",
    "bury": "mark_steps_dead",
    "come_to_foreground": "await_foreground",
    "go_first": "expedite",
    "go_on": "resume",
    "hear_out": "flush_reports",
    "heed_signals": "install_signal_handlers",
    "is_amid": "in_progress",
    "is_own_word": "is_from_noded",
    "look_at_reserved_nodes": "check_reserved_nodes_later",
    "look_later": "check_later",
    "look_together": "blocks_together",
    "may_go_on": "about_to_release",
    "misfits": "config_conflicts",
    "nobody_there": "no_controller",
    "ntasks_told": "ntasks_total",
    "read_wish": "read_changes",
    "say_abort": "report_abort",
    "stop_wishing": "abandon_creation",
    "tell_all": "update_all_classes",
    "tell_defined": "print_defined",
    "tell_divisions": "set_division_reasons",
    "tell_more": "write_more_reasons",
    "tell_of_limits": "report_rate_limits",
    "tell_pending": "update_pending_classes",
    "tell_results": "print_refusals",
    "tell_running": "update_running_class",
    "tell_settings": "send_settings",
    "told_as": "errors_as",
    "touch_words": "touch_reason",
    "until_told": "until_stopped",
    "want_fence": "request_fencing",
    "wants_another": "should_requeue",
    "wish_of": "demand_of",
    "wished": "about_to_submit",
}
#: Words of any name (variables, arguments and attributes too) that the code does not use, and what to say.
BANNED_PARTS = {
    "amid": "in_progress",
    "anew": "again: recount, reset",
    "asker": "query, or whose turn it is: for_uid",
    "desk": "table, or what it is",
    "dealt": "distributed",
    "deed": "action",
    "desks": "tables, or what they are",
    "dismissed": "dropped, or ended",
    "distrust": "quarantine, or an untrusted peer",
    "distrusted": "quarantined",
    "fate": "outcome",
    "guilty": "invalid, or the cause",
    "hears": "receives",
    "heed": "handle, or enforce",
    "likeness": "fingerprint",
    "linger": "keep, or deliver",
    "lingering": "kept",
    "looking": "polling, or checking",
    "obey": "execute",
    "outlook": "what is predicted",
    "sight": "visibility",
    "veil": "redact",
    "wish": "request, demand or changes",
    "wishes": "requests or demands",
}
#: The same for these packages alone.
BANNED_PARTS_OF: dict[tuple[str, ...], dict[str, str]] = {
    ("bench", "cli", "nodedaemon", "penstock", "tools"): {
        "heard": "received, or on_message",
        "misfit": "conflict",
        "misfits": "conflicts",
        "stray": "orphan",
        "strays": "orphans",
        "surroundings": "context",
        "tell": "report, print or send",
        "told": "reported, printed, or what it holds",
    },
}
#: Words that belong to a format, not to us: `stray` of a directive (sbatch --lint) is the name of its rule.
FORMAT_WORDS = {("cli/lint/lint.py", "stray_word"), ("cli/lint/lintwords.py", "stray")}
#: How the first sentence of a docstring does not begin, and how it does: with a noun phrase, or with what is done.
RIDDLES = {
    r"What (?:becomes?|is to be|there is|came|comes) ": "name the thing, or say what is done with it",
    r"(?:To )?[Ww]hom? (?:may|is|are|goes|waits|has|gets|does|a) ": "name the thing: rights, owners, users",
    r"Who (?:\w+) ": "name the thing: rights, owners, users",
    r"(?:May|Could|Would|Is|Does|Do|Has) [^?]*\?": "say what is checked: Checks whether ...",
    r"(?:When|Why|How|Where|Which) [^?.]*\?": "say what is computed",
    r"(?:They|He|She) ": "name the subject",
    r"(?:Heed|Tell it|Told)\b": "say what is done to what",
    r".*\b(?:amid|to say the least|what it may call itself)\b": "plain terms",
}
#: Phrases that comments and docstrings of these packages do not use, and what to say.
PHRASES: dict[tuple[str, ...], dict[str, str]] = {
    ("_fastsched", "accounting", "bench", "cli", "ctld", "nodedaemon", "penstock", "sim", "tools"): {
        "anew": "again, recomputed, rebuilt",
        "by turns|in one sitting": "in turns, in one session",
        "obviously right": "for reading",
        "somebody|anybody": "name the subject: a user, a caller",
    },
    ("ctld",): {
        "any ?body|somebody|who(?:so)?ever|who asks": "a user, a caller, a job: name the subject",
        "(?:is|are) told": "reports, is sent, is notified",
        "at the door": "before it reaches the core",
        "(?:given|taken) back": "released, reverted",
        "go on": "continue",
        "for ever": "forever",
        "looked at|looks? again": "examined, checked, polled",
        "on its way out": "ending",
        "other way round": "reversed",
        "out of reach": "unreachable",
        "to be had": "available",
    },
    ("cli", "sim", "tools"): {
        r"(?:is|are|was|were|been|be|gets?) told": "is reported, printed or sent; gets a message",
        r"(?:no|any|some|every)body": "name the subject: no caller, another user, all users",
        r"whoever": "name the subject",
        r"look(?:s|ed)? at(?: again)?": "checks, reads, scans",
        r"the other way round": "conversely, or say what happens",
        r"cut short": "abbreviated, or truncated",
        r"asked of": "requested from, or checked by",
        r"makes? of it": "derives, converts",
        r"no news": "is ignored",
        r"controller's to (?:say|judge)": "the controller checks it",
    },
    ("nodedaemon", "penstock", "accounting"): {
        "is away": "is absent, is not connected",
        "hears? of": "receives, is notified",
        "has in hand": "executes, holds",
        "hung up on": "disconnected",
        "honest limit": "limit",
        "(?:turns that|the other way) round": "reversed",
        "one more thing in every fork": "inherited by every fork",
        "came again": "was repeated",
    },
}
#: Phrases that documents, manual pages, messages and the tests' docstrings do not use, and what to say.
SAID = {
    r"(?:is|are|was|were|been|be|gets?) told|told (?:below|above|on|with)|tells? of": "is reported, printed or sent",
    "anew": "again, rebuilt, restarted",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"for ever": "forever",
    r"who(?:so)?ever|whom(?:so)?ever": "name the subject: every user, a holder of the key",
    r"to be had|in one sitting|by turns": "available, in one session, in turns",
}
#: The same for documents and manual pages alone, without their code.
WRITTEN = {
    r"looks? again|looked at": "examined, checked, polled",
    r"(?:comes?|came) again": "recurs, is repeated",
    r"(?:any|some|every)body": "name the subject: all users, another user",
    r"go(?:es)? on|went on|going on": "continues",
    r"(?:given|gives?|giving) back": "releases",
    r"whatever (?:the|its|it)": "regardless of",
    r"stands? still": "stalls",
}
#: The user is "the user", or "they".
PRONOUNS = re.compile(r"\b([Hh]e|[Hh]is|[Hh]im|[Hh]imself)\b")


def sources_of_the_program() -> list[Path]:
    return [p for p in tree.sources(*tree.PACKAGES, *tree.OPTIONAL_PACKAGES) if "penstock/v1" not in p.as_posix()]


def test_no_private_vocabulary() -> None:
    found = []
    for path in sources_of_the_program():
        defined = words_of(path).defined
        found += [f"{tree.name_of(path)}: {name}: say {BANNED[name]}" for name in sorted(defined & BANNED.keys())]
    assert found == []


def test_no_identifier_of_a_package_has_a_word_banned_there() -> None:
    found = [
        f"{tree.name_of(path)}: {name}: say {parts[part]}"
        for packages, parts in BANNED_PARTS_OF.items()
        for path in tree.sources(*packages)
        if "penstock/v1" not in path.as_posix()
        for name in sorted(words_of(path).names | words_of(path).stored)
        for part in name.lower().split("_")
        if part in parts and (tree.name_of(path), name) not in FORMAT_WORDS
    ]
    assert found == []


def test_no_identifier_in_c_has_a_banned_word() -> None:
    banned = BANNED_PARTS | {part: say for parts in BANNED_PARTS_OF.values() for part, say in parts.items()}
    found = [
        f"{tree.name_of(path)}: {name}: say {banned[part]}"
        for path in sorted((tree.ROOT / "native").glob("*.[ch]"))
        for name in sorted(set(re.findall(r"[A-Za-z_]\w*", without_literals(prose(path)))))
        for part in name.lower().split("_")
        if part in banned
    ]
    assert found == []


def test_no_identifier_has_a_banned_word() -> None:
    found = [
        f"{tree.name_of(path)}: {name}: say {BANNED_PARTS[part]}"
        for path in sources_of_the_program()
        for name in sorted(words_of(path).names | words_of(path).stored)
        for part in name.lower().split("_")
        if part in BANNED_PARTS
    ]
    assert found == []


def test_docstrings_open_with_what_it_is() -> None:
    found = [
        f"{tree.name_of(path)}: {name}: {text.splitlines()[0]!r}: {better}"
        for path in sources_of_the_program()
        for name, text in words_of(path).docstrings
        if text and not name.startswith("_")
        for riddle, better in RIDDLES.items()
        if re.match(riddle, text)
    ]
    assert found == []


def comments_and_docstrings(path: Path) -> str:
    """Returns the comments and docstrings of a source as one line, without code."""
    texts = [text for _, text in words_of(path).docstrings]
    tokens = tokenize.generate_tokens(io.StringIO(prose(path)).readline)
    texts += [token.string.lstrip("#: ") for token in tokens if token.type == tokenize.COMMENT]
    return " ".join(" ".join(texts).split())


def test_comments_and_docstrings_have_no_dialect() -> None:
    found = [
        f"{tree.name_of(path)}: {match.group()!r}: say {better}"
        for packages, phrases in PHRASES.items()
        for path in tree.sources(*packages)
        if "penstock/v1" not in path.as_posix()
        for text in [comments_and_docstrings(path)]
        for phrase, better in phrases.items()
        for match in re.finditer(rf"\b(?:{phrase})\b", text, re.I)
    ]
    assert found == []


def without_literals(source: str) -> str:
    """Returns a source in C without its comments, strings and characters."""
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", " ", source, flags=re.DOTALL)


def without_code(document: str) -> str:
    """Returns a document without its blocks and spans of code, on the same lines."""
    text = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), document, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "``", text)


def uses_of(phrases: dict[str, str], text: str, where: str) -> list[str]:
    """Returns the uses of these phrases, with what to say."""
    return [
        f"{where}: {match.group()!r}: say {better}"
        for phrase, better in phrases.items()
        for match in re.finditer(rf"\b(?:{phrase})\b".replace(" ", r"\s+"), text, re.I)
    ]


def test_documents_and_manual_pages_have_no_dialect() -> None:
    found = [
        use
        for path in [*DOCUMENTS, MANUAL_PAGES]
        if path.name != "glossary.md"
        for use in uses_of(SAID | WRITTEN, without_code(prose(path)), tree.name_of(path))
    ]
    assert found == []


@cache
def strings_of(path: Path) -> list[tuple[int, str]]:
    """Returns the string constants of a source that are not docstrings, with their lines."""
    nodes = list(tree.nodes_of(tree.tree_of(path)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_messages_have_no_dialect() -> None:
    found = [
        use
        for path in sources_of_the_program()
        if tree.name_of(path).split("/")[0] != "sim"  # its worlds print what happens to their people
        for line, text in strings_of(path)
        for use in uses_of(SAID, text, f"{tree.name_of(path)}:{line}")
    ]
    assert found == []


def test_docstrings_of_the_tests_have_no_dialect() -> None:
    found = [
        use
        for path in sorted((tree.ROOT / "tests").rglob("*.py"))
        if path.name != "test_words.py"
        for name, text in words_of(path).docstrings
        for use in [
            *uses_of(SAID, text, f"{tree.name_of(path)}: {name}"),
            *(f"{tree.name_of(path)}: {name}: {match.group()!r}" for match in PRONOUNS.finditer(text)),
        ]
    ]
    assert found == []


def test_nobody_is_he() -> None:
    found = [
        f"{tree.name_of(path)}:{number}: {line.strip()}"
        for path in [*DOCUMENTS, *sources_of_the_program()]
        for number, line in enumerate(prose(path).splitlines(), 1)
        if PRONOUNS.search(line)
    ]
    assert found == []
