"""Manual pages (man 7 man) from the pages of tools.manual.surface.

Only macros that every man supports: TH, SH, TP, PP, EX, EE. Text is escaped in one place (`plain`).
"""

from collections.abc import Iterable

from cli.base.options import ACCEPTED, MAYBE, NO, REFUSED, YES, Option
from tools.manual.surface import Page, meaning

ALSO = "sacct(1), sacctmgr(1), salloc(1), sbatch(1), scancel(1), scontrol(1), sinfo(1), squeue(1), srun(1), penstock(1)"


def man_page(page: Page, version: str) -> str:
    """The whole page."""
    title = f'.TH {page.name.upper()} 1 "" "Penstock {version}" "Penstock"'
    lines = ['.\\" Written by tools/manual from the option tables; do not edit.', title]
    lines += [".SH NAME", f"{escaped(page.name)} \\- {escaped(page.summary)}"]
    lines += [".SH SYNOPSIS", f"\\fB{escaped(page.name)}\\fR {escaped(page.command.synopsis)}"]
    lines += [".SH DESCRIPTION", *_paragraphs(page.about)]
    lines += _section("COMMANDS", ((f"\\fB{escaped(word)}\\fR", text) for word, text in page.keywords))
    lines += _section("OPTIONS", ((_form(o), _description(page, o)) for o in page.options if o.status != REFUSED))
    lines += _section("ENVIRONMENT", ((f"\\fB{escaped(o.env)}\\fR", f"As --{o.name}.") for o in page.options if o.env))
    lines += _section("FIELDS", ((f"\\fB{escaped(word)}\\fR", head) for word, head in page.fields))
    refused = [f"--{o.name}" for o in page.options if o.status == REFUSED]
    if refused:
        lines += [".SH NOT SUPPORTED", escaped("Known to Slurm and refused here: " + ", ".join(refused) + ".")]
    lines += _section("EXIT STATUS", ((f"\\fB{escaped(number)}\\fR", text) for number, text in page.status))
    lines += [".SH EXAMPLES", *_examples(page)]
    others = ", ".join(name for name in ALSO.split(", ") if name != f"{page.name}(1)")
    return "\n".join([*lines, ".SH SEE ALSO", escaped(others)]) + "\n"


def escaped(text: str) -> str:
    """Text escaped so that roff prints it unchanged."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace('"', "\\(dq")
    return "\\&" + safe if safe.startswith((".", "\\(aq")) else safe


def _paragraphs(paragraphs: Iterable[str]) -> list[str]:
    return [line for text in paragraphs for line in (".PP", escaped(text))]


def _section(title: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    lines = [line for head, text in entries for line in (".TP", head, escaped(text) if text else "\\&")]
    return [f".SH {title}", *lines] if lines else []


def _form(option: Option) -> str:
    value = {NO: "", YES: f"=\\fI{escaped(option.metavar)}\\fR", MAYBE: f"[=\\fI{escaped(option.metavar)}\\fR]"}[
        option.value
    ]
    short = f"\\fB\\-{option.short}\\fR, " if option.short else ""
    return f"{short}\\fB\\-\\-{escaped(option.name)}\\fR{value}"


def _description(page: Page, option: Option) -> str:
    effect = "Accepted without effect. " if option.status == ACCEPTED else ""
    return effect + meaning(page, option)


def _examples(page: Page) -> list[str]:
    lines = []
    for command, what in page.examples:
        lines += [".PP", escaped(what[:1].upper() + what[1:] + ":"), ".PP", ".EX", escaped("    " + command), ".EE"]
    return lines
