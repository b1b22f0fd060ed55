"""Builds the web interface from web/ into rest/static, and tells whether what is committed there belongs to the sources.

    python -m tools.webbuild            npm ci, if needed; vite; the manifest
    python -m tools.webbuild --check    compares; where web/node_modules is there, eslint, tsc and the unit tests, too

The manifest has a digest of the sources at the time of the build and one of each built file, so that a forgotten build is
found on machines without node. No registry is asked by --check.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

WEB: Final = Path("web")
STATIC: Final = Path("rest/static")
MANIFEST: Final = STATIC / "manifest.json"
MODULES: Final = WEB / "node_modules"
#: What the build reads. Tests are left out: they change nothing in it.
SOURCES: Final = ("package-lock.json", "vite.config.ts", "tsconfig.json", "*.html", "public/**/*", "src/**/*")
NO_NODE: Final = "make web needs node 20.19 or newer and npm; users of Penstock do not"


def digest_of(paths: list[Path], root: Path) -> str:
    """One digest of files, by their names and contents."""
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(f"{path.relative_to(root).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def sources() -> list[Path]:
    """The files that the build reads."""
    found = [path for pattern in SOURCES for path in WEB.glob(pattern) if path.is_file()]
    return [path for path in found if not path.name.endswith(".test.ts")]


def built() -> dict[str, str]:
    """The built files, each with its digest."""
    paths = [path for path in sorted(STATIC.rglob("*")) if path.is_file() and path != MANIFEST]
    return {path.relative_to(STATIC).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def build() -> int:
    """Builds, and writes the manifest."""
    if shutil.which("npm") is None:
        print(NO_NODE, file=sys.stderr)
        return 1
    lock, done = WEB / "package-lock.json", MODULES / ".package-lock.json"
    if not done.exists() or done.stat().st_mtime < lock.stat().st_mtime:
        subprocess.run(["npm", "ci"], cwd=WEB, check=True)
        done.touch()
    subprocess.run(["npm", "run", "--silent", "build"], cwd=WEB, check=True)
    content = {"sources": digest_of(sources(), WEB), "files": built()}
    MANIFEST.write_text(json.dumps(content, indent=1) + "\n")
    return 0


def check() -> int:
    """Says what is old."""
    recorded = json.loads(MANIFEST.read_text()) if MANIFEST.exists() else {}
    if recorded.get("sources") != digest_of(sources(), WEB):
        print("rest/static was built from other sources than those in web/: run make web", file=sys.stderr)
        return 1
    if recorded.get("files") != built():
        print("rest/static has other files than the last build wrote: run make web", file=sys.stderr)
        return 1
    if MODULES.exists() and shutil.which("npm"):
        return subprocess.run(["npm", "run", "--silent", "check"], cwd=WEB, check=False).returncode
    return 0


def main(words: list[str]) -> int:
    """The program."""
    return check() if "--check" in words else build()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
