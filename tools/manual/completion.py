"""Completion for bash, zsh and fish from the option tables.

Options and keywords are words of the file. Values from the cluster (partitions, nodes, jobs, users, ...) are queried
through its commands on completion; the table VALUES maps options to kinds of values. A command that fails completes to
nothing.
"""

from pathlib import Path

from cli.base.options import NO, REFUSED, YES, Option
from tools.manual.surface import Page

#: Bash functions that match the words.
CORE = Path(__file__).with_name("core.bash")
#: The source of values by kind: a shell command that prints one per line.
SOURCES = {
    "partition": "sinfo -a -h -o %R",
    "node": "sinfo -a -h -N -o %N",
    "job": "squeue -a -h -o %i",
    "myjob": "squeue -h --me -o %i",
    "user": "getent passwd | cut -d: -f1",
    "account": "sacctmgr -n -P show account format=account",
    "qos": "sacctmgr -n -P show qos format=name",
    "reservation": "scontrol -o show reservation | sed -n 's/^ReservationName=\\([^ ]*\\).*/\\1/p'",
    "cluster": "scontrol show config | sed -n 's/^ClusterName *= //p'",
    "signal": "printf '%s\\n' HUP INT QUIT KILL TERM USR1 USR2 CONT STOP",
    "state": "printf '%s\\n' PENDING RUNNING SUSPENDED COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL PREEMPTED",
}
#: The kind of an option's value, by the option's name. Others are files or free text.
VALUES = {
    "partition": "partition", "nodelist": "node", "nodes": "node", "exclude": "node", "user": "user", "users": "user",
    "account": "account", "accounts": "account", "qos": "qos", "reservation": "reservation", "clusters": "cluster",
    "cluster": "cluster", "job": "job", "jobs": "job", "jobid": "job", "dependency": "job", "states": "state",
    "state": "state", "signal": "signal",
}  # fmt: skip
#: The kind of the arguments after the options.
ARGUMENTS = {"scancel": "myjob", "sattach": "myjob", "seff": "job", "swait": "job"}
#: In these, `nodes` is a number.
NODE_COUNT = frozenset(("sbatch", "salloc", "srun"))


def kind_of(page: Page, option: Option) -> str:
    """The kind of the option's value; "" = not from the cluster."""
    if option.value == NO or (option.name == "nodes" and page.name in NODE_COUNT):
        return ""
    if option.name == "signal" and page.name in NODE_COUNT:
        return ""
    return VALUES.get(option.name, "")


def bash(found: list[Page]) -> str:
    """One file for all commands."""
    lines = ["# Completion of Penstock's commands in bash. Written by tools/manual; do not edit.", ""]
    lines += ["_penstock_values() {", "  case $1 in"]
    lines += [f"  {kind}) {source} 2>/dev/null ;;" for kind, source in SOURCES.items()]
    lines += ["  esac", "}", "", *CORE.read_text(encoding="utf-8").splitlines(), ""]
    for page in found:
        options = _offered(page)
        names = " ".join(f"--{o.name}{'=' if o.value == YES else ''}" for o in options)
        wanted = " ".join(f"--{o.name}:{kind}" for o in options if (kind := kind_of(page, o)))
        wanted += "".join(f" -{o.short}:{kind}" for o in options if o.short and (kind := kind_of(page, o)))
        words = " ".join(dict.fromkeys(word.split()[0] for word, _ in page.keywords))
        function = f"_penstock_{page.name}"
        call = f"_penstock_complete '{names}' '{wanted}' '{words}' '{ARGUMENTS.get(page.name, '')}'"
        lines += [f"{function}() {{", f"  {call}", "}", f"complete -o default -F {function} {page.name}", ""]
    return "\n".join(lines)


def zsh(page: Page) -> str:
    """A function file for one command."""
    lines = [f"#compdef {page.name}", f"# Completion of {page.name}. Written by tools/manual; do not edit.", ""]
    lines += ["_penstock_values() {", "  local -a found", "  case $1 in"]
    lines += [f'  {kind}) found=(${{(f)"$({source} 2>/dev/null)"}}) ;;' for kind, source in SOURCES.items()]
    lines += ["  esac", "  _values -s , value $found", "}", "", "_arguments -s \\"]
    lines += [f"  {_zsh_option(page, o, dash)} \\" for o in _offered(page) for dash in _spellings(o)]
    words = " ".join(dict.fromkeys(word.split()[0] for word, _ in page.keywords))
    kind = ARGUMENTS.get(page.name)
    rest = f"'1:keyword:({words})'" if words else f"'*:job:_penstock_values {kind}'" if kind else "'*:file:_files'"
    return "\n".join([*lines, f"  {rest}", ""])


def fish(page: Page) -> str:
    """A file for one command."""
    lines = [f"# Completion of {page.name} in fish. Written by tools/manual; do not edit."]
    for option in _offered(page):
        words = [f"complete -c {page.name} -l {option.name}"]
        words += [f"-s {option.short}"] if option.short else []
        words += ["-r"] if option.value == YES else []
        kind = kind_of(page, option)
        words += [f"-f -a {_quoted(f'({SOURCES[kind]} 2>/dev/null)')}"] if kind else []
        lines.append(" ".join([*words, f"-d {_quoted(option.help)}"]))
    for word, help_text in page.keywords:
        if " " not in word:
            lines.append(f"complete -c {page.name} -f -n __fish_use_subcommand -a {word} -d {_quoted(help_text)}")
    if page.name in ARGUMENTS:
        lines.append(f"complete -c {page.name} -f -a {_quoted(f'({SOURCES[ARGUMENTS[page.name]]} 2>/dev/null)')}")
    return "\n".join([*lines, ""])


def _offered(page: Page) -> list[Option]:
    return [o for o in page.options if o.status != REFUSED]


def _spellings(option: Option) -> list[str]:
    return [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]


def _zsh_option(page: Page, option: Option, dash: str) -> str:
    text = option.help.replace("[", "(").replace("]", ")").replace("'", "").replace(":", " ")
    kind = kind_of(page, option)
    action = f"_penstock_values {kind}" if kind else "_files"
    value = ""
    if option.value != NO:
        glue = "=" if dash.startswith("--") and option.value == YES else "=-" if dash.startswith("--") else "+"
        optional = "" if option.value == YES else ":"
        return f"'*{dash}{glue}[{text}]{optional}:{option.metavar.replace(':', ' ')}:{action}'"
    return f"'{dash}[{text}]{value}'"


def _quoted(text: str) -> str:
    """A word of fish: inside single quotes only the quote and the backslash are special."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
