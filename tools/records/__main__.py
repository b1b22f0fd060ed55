"""Writes the generated code of the field tables of the stored records, or checks that it is current.

    python -m tools.records          write ctld/store/rows.py and the text between marks in other modules
    python -m tools.records --check  exit 1 and name the files that differ

The results are committed, so that an installation needs no generator; `make check` verifies that they are current.
"""

import argparse
import sys
from pathlib import Path

from tools.records.code import rows_module
from tools.records.regions import BadMarks, filled

ROOT = Path(__file__).resolve().parents[2]


def generated(root: Path) -> dict[Path, str]:
    """Every file with its text."""
    return filled(root) | {root / "ctld" / "store" / "rows.py": rows_module(root)}


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="the classes, columns and codecs of the stored records")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a file differs")
    check = parser.parse_args().check
    try:
        files = generated(ROOT)
    except BadMarks as error:
        sys.exit(f"tools/records: {error}")
    differ = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in differ:
        if check:
            print(f"{path.relative_to(ROOT)}: not as the field tables say; run `make records`")
        else:
            path.write_text(files[path], encoding="utf-8")
            print(f"{path.relative_to(ROOT)} written")
    return 1 if check and differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
