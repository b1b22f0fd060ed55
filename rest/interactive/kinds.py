"""The kinds of sessions: a table, which a site may replace by a file of its own (--sessions-file), in YAML or JSON:

    kinds:
      - kind: jupyter                  # small letters, digits and hyphens
        title: JupyterLab              # what the page shows
        command: [jupyter-lab, "--ServerApp.sock={socket}", "--ServerApp.base_url={base}"]
        time_minutes: 480              # of a job that names no time
        idle_minutes: 60               # 0 = it is not ended for idleness
        is_terminal: false             # the program speaks as nodedaemon.session.terminal does
        strips_base: false             # the program gets paths without {base}

`{socket}`, `{base}` and `{python}` in the words of a command are filled in on the node. No shell reads them; a kind that
needs one names it: [bash, -lc, "module load jupyter && exec jupyter-lab --ServerApp.sock=$PENSTOCK_SESSION_SOCKET"].
"""

import json
import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import yaml

from penstock.boundedfile import read_bounded
from penstock.errors import BadSetup
from penstock.values.sessions import EXIT_NO_NODE_SUPPORT, PYTHON_VARIABLE, is_kind

FILE_BYTES_MAX: Final = 64 * 1024
KINDS_MAX: Final = 32
WORDS_MAX: Final = 64
WORD_CHARS_MAX: Final = 4096
TITLE_CHARS_MAX: Final = 60
#: A year, as Slurm's times allow.
MINUTES_MAX: Final = 366 * 24 * 60


class SessionKind(NamedTuple):
    """One kind. Times are in minutes; idle_minutes 0 = it is not ended for idleness."""

    kind: str
    title: str
    command: tuple[str, ...]
    time_minutes: int = 480
    idle_minutes: int = 60
    is_terminal: bool = False
    strips_base: bool = False


DEFAULT_KINDS: Final = (
    SessionKind(
        "jupyter", "JupyterLab",
        ("jupyter-lab", "--no-browser", "--ServerApp.sock={socket}", "--ServerApp.sock_mode=0600",
         "--ServerApp.base_url={base}", "--IdentityProvider.token=", "--ServerApp.allow_remote_access=True"),
    ),
    SessionKind(
        "code", "VS Code (code-server)",
        ("code-server", "--socket", "{socket}", "--auth", "none", "--disable-telemetry", "--disable-update-check",
         "--ignore-last-opened", "."),
        strips_base=True,
    ),
    SessionKind("shell", "Terminal", ("{python}", "-Im", "nodedaemon.session.terminal"), is_terminal=True),
)  # fmt: skip
_TYPES: Final[Mapping[str, type]] = {
    "kind": str, "title": str, "command": list, "time_minutes": int, "idle_minutes": int, "is_terminal": bool,
    "strips_base": bool,
}  # fmt: skip
_TYPE_WORDS: Final = {str: "a text", list: "a list of words", int: "a whole number", bool: "true or false"}
_NEEDED: Final = ("kind", "title", "command")


def script_of(kind: SessionKind, idle_minutes: int) -> str:
    """The batch script of a session."""
    words = ["-Im", "nodedaemon.session", "--idle-s", str(idle_minutes * 60), "--", *kind.command]
    python = PYTHON_VARIABLE.decode()
    return (
        "#!/bin/bash -l\n"
        f"# A session of Penstock ({kind.kind}): docs/sessions.md\n"
        f'if [ -z "${python}" ]; then\n'
        "    echo 'penstock session: the daemon of this node knows no sessions' >&2\n"
        f"    exit {EXIT_NO_NODE_SUPPORT}\n"
        "fi\n"
        f'exec "${python}" {shlex.join(words)}\n'
    )


def read_kinds(path: str) -> tuple[SessionKind, ...]:
    """The kinds of a file. Raises BadSetup, OSError."""
    return kinds_of(read_bounded(path, FILE_BYTES_MAX).decode("utf-8", "replace"), path)


def kinds_of(text: str, path: str) -> tuple[SessionKind, ...]:
    """The kinds of a text. `path`: for messages. Raises BadSetup."""
    try:
        content = yaml.safe_load(text)  # JSON is YAML
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadSetup(f"{path}: it is neither YAML nor JSON: {str(error).replace(chr(10), ' ')}") from None
    entries = content.get("kinds") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not 0 < len(entries) <= KINDS_MAX:
        raise BadSetup(f"{path}: expected `kinds:` and a list of 1 to {KINDS_MAX} kinds")
    unknown = sorted(str(name) for name in content if name != "kinds")
    if unknown:
        raise BadSetup(f"{path}: {unknown[0]}: there is no such member; known: kinds")
    kinds = tuple(_kind(entry, f"{path}: kinds[{at}]") for at, entry in enumerate(entries))
    names = [one.kind for one in kinds]
    if double := next((name for name in names if names.count(name) > 1), ""):
        raise BadSetup(f"{path}: the kind {double} is there twice")
    return kinds


def _kind(entry: object, where: str) -> SessionKind:
    if not isinstance(entry, dict):
        raise BadSetup(f"{where}: expected members kind, title, command, ...")
    for name, value in entry.items():
        wanted = _TYPES.get(name) if isinstance(name, str) else None
        if wanted is None:
            raise BadSetup(f"{where}: {name}: there is no such member; known: {', '.join(_TYPES)}")
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise BadSetup(
                f"{where}: {name}: expected {_TYPE_WORDS[wanted]}, not {json.dumps(value, default=str)[:60]}"
            )
    if missing := next((name for name in _NEEDED if name not in entry), ""):
        raise BadSetup(f"{where}: {missing} is missing")
    command = entry["command"]
    if not 0 < len(command) <= WORDS_MAX or not all(_is_word(word) for word in command):
        raise BadSetup(f"{where}: command: expected 1 to {WORDS_MAX} words, each a text (in quotes if it is a number)")
    made = SessionKind(**cast("dict[str, object]", entry) | {"command": tuple(command)})  # type: ignore[arg-type]  # types are checked above
    _check(made, where)
    return made


def _check(kind: SessionKind, where: str) -> None:
    if not is_kind(kind.kind):
        raise BadSetup(f"{where}: kind: expected small letters, digits and hyphens, 32 at most, a letter first")
    if not 0 < len(kind.title) <= TITLE_CHARS_MAX or not kind.title.isprintable():
        raise BadSetup(f"{where}: title: expected 1 to {TITLE_CHARS_MAX} printable characters")
    for name, value, least in (("time_minutes", kind.time_minutes, 1), ("idle_minutes", kind.idle_minutes, 0)):
        if not least <= value <= MINUTES_MAX:
            raise BadSetup(f"{where}: {name}: expected {least} to {MINUTES_MAX}")


def _is_word(word: object) -> bool:
    return isinstance(word, str) and len(word) <= WORD_CHARS_MAX and "\0" not in word
