"""Manual pages, completions and the compatibility page: complete, and understood by those who read them."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from cli.base.options import ACCEPTED, REFUSED, Command, Option
from tools.manual import completion
from tools.manual.__main__ import generated
from tools.manual.compatibility import compatibility_page
from tools.manual.roff import escaped, man_page
from tools.manual.surface import WORDS, Page, command_names, pages

PAGES = {page.name: page for page in pages()}
SOME = (
    Option("alpha", "a", "yes", "X_ALPHA", "it's a \\path", "file"),
    Option("beta", value="maybe", help="b|c", status=ACCEPTED, note="there is no beta"),
    Option("gamma", status=REFUSED, note="no"),
)
PAGE = Page(
    "try", Command("try", "[OPTIONS]", SOME), SOME, "say it", ("One.",), (("0", "done"),), (("try -a f", "it"),), (), ()
)


def test_every_command_has_words_and_every_word_a_command() -> None:
    assert set(command_names()) <= set(tomllib.loads(WORDS.read_text(encoding="utf-8")))
    assert set(PAGES) == set(command_names())


def test_every_option_that_is_not_refused_says_what_it_does() -> None:
    """But for second spellings of one value."""
    for page in PAGES.values():
        for option in page.options:
            others = [o for o in page.options if o.key == option.key and o.help]
            assert option.help or option.note or option.status == REFUSED or others, f"{page.name} --{option.name}"


def test_accepted_and_refused_options_say_why() -> None:
    silent = [
        f"{page.name} --{option.name}"
        for page in PAGES.values()
        for option in page.options
        if option.status == ACCEPTED and not option.note
    ]
    assert silent == []


def test_a_manual_page() -> None:
    text = man_page(PAGE, "1")
    assert r"It\(aqs a \epath" in text
    assert "Accepted without effect. B|c. There is no beta." in text
    assert "refused here: \\-\\-gamma." in text
    assert r"\fBX_ALPHA\fR" in text
    assert all(not line.startswith((".\\", "'")) or line.startswith('.\\"') for line in text.splitlines())


def test_roff_prints_what_looks_like_a_macro() -> None:
    assert escaped(".SH x") == r"\&.SH x"


@pytest.mark.parametrize("name", PAGES)
def test_manual_pages_have_all_sections(name: str) -> None:
    page = PAGES[name]
    text = man_page(page, "1")
    for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
        assert f".SH {title}\n" in text
    for option in page.options:
        assert escaped(f"--{option.name}") in text
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"], input=text.encode(), capture_output=True, check=True
        )
        assert done.stderr == b""


def test_the_compatibility_page() -> None:
    text = compatibility_page([PAGE])
    assert "| [try](#try) | 1 | 1 | 1 |" in text
    assert "| `--beta` | accepted |  | B\\|c. There is no beta. |" in text


def complete(tmp_path: Path, words: list[str]) -> list[str]:
    """What bash offers for the last word; sinfo and squeue are stand-ins."""
    for name, lines in (("sinfo", "debug\nlong\n"), ("squeue", "12\n13\n")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nprintf '%s' '{lines}'\n")
        program.chmod(0o755)
    (tmp_path / "all").write_text(completion.bash(list(PAGES.values())))
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"compopt() {{ :; }}; . {tmp_path}/all; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
    script += f'_penstock_{words[0]}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (["sbatch", "--ntasks-per-n"], ["--ntasks-per-node="]),
        (["sbatch", "-p", ""], ["debug", "long"]),
        (["sbatch", "--partition", "=", "lo"], ["long"]),
        (["squeue", "-p", "debug,l"], ["debug,long"]),
        (["scancel", ""], ["12", "13"]),
        (["sbatch", "-N", ""], []),
        (["scontrol", "reconf"], ["reconfigure"]),
    ],
)
def test_bash_completes(tmp_path: Path, line: list[str], offered: list[str]) -> None:
    assert complete(tmp_path, line) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_read_their_files(shell: str, tmp_path: Path) -> None:
    """zsh and fish are looked at where they are installed; bash is everywhere."""
    mark = {"bash": "bash-completion", "zsh": "site-functions", "fish": "vendor_completions"}[shell]
    files = {path: text for path, text in generated().items() if mark in str(path)}
    assert len(files) >= len(PAGES)
    if not shutil.which(shell):
        return
    for path, text in files.items():
        copy = tmp_path / path.name
        copy.write_text(text)
        done = subprocess.run([shell, "-n", str(copy)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path


def test_all_of_it_is_in_the_package() -> None:
    setup = Path(__file__).parents[2].joinpath("setup.py").read_text(encoding="utf-8")
    folders = {str(path.parent.relative_to(Path(__file__).parents[2])) for path in generated() if "share" in path.parts}
    assert folders <= set(re.findall(r'"(share/[^"]+)"', setup))
