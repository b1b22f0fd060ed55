"""Writes what is generated from the option tables: docs/compatibility.md, manual pages and completions in share/.

    python -m tools.manual          write all of it
    python -m tools.manual --check  exit 1 and name the files that differ

The results are committed, so that an installation needs no generator; `make check` verifies that they are current.
"""

import argparse
from pathlib import Path

from penstock import __version__
from tools.manual import completion
from tools.manual.compatibility import compatibility_page
from tools.manual.roff import man_page
from tools.manual.surface import ROOT, pages

SHARE = ROOT / "share"


def generated() -> dict[Path, str]:
    """Every file with its text."""
    found = pages()
    files = {ROOT / "docs" / "compatibility.md": compatibility_page(found)}
    for page in found:
        files[SHARE / "man" / "man1" / f"{page.name}.1"] = man_page(page, __version__)
        files[SHARE / "zsh" / "site-functions" / f"_{page.name}"] = completion.zsh(page)
        files[SHARE / "fish" / "vendor_completions.d" / f"{page.name}.fish"] = completion.fish(page)
        # bash loads a file by the command's name; all of them are one text.
    files[SHARE / "bash-completion" / "completions" / "penstock"] = completion.bash(found)
    for page in found:
        if page.name != "penstock":
            files[SHARE / "bash-completion" / "completions" / page.name] = '. "${BASH_SOURCE[0]%/*}/penstock"\n'
    return files


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="manual pages, completions, docs/compatibility.md")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a file differs")
    check = parser.parse_args().check
    files = generated()
    there = {path for path in SHARE.rglob("*") if path.is_file()}
    extra = sorted(there - set(files))
    differ = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check:
        for path in [*differ, *extra]:
            print(f"{path.relative_to(ROOT)}: not as the option tables say; run `make manual`")
        return 1 if differ or extra else 0
    for path in differ:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    for path in extra:
        path.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
