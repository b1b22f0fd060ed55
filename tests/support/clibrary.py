"""Builds the C libraries of tests, when they are first asked for.

They need nothing but a C compiler. A library is kept by the content of its source in the system's temporary folder, so that
all workers and runs share one build; two that build at once do the same work, and rename(2) decides.
"""

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path


def compiler() -> list[str]:
    """As tools/prerequisites.sh looks for it."""
    return shlex.split(os.environ.get("CC", "")) or [next(c for c in ("gcc", "cc") if shutil.which(c))]


@functools.cache
def built(source: Path, flags: tuple[str, ...], name: str) -> Path:
    """The library of that file name, built from one source file."""
    key = hashlib.sha256(source.read_bytes() + " ".join(flags).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"penstock-{source.stem}-{os.geteuid()}")
    folder.mkdir(mode=0o755, exist_ok=True)
    if folder.lstat().st_uid != os.geteuid():
        folder = Path(tempfile.mkdtemp(prefix=f"penstock-{source.stem}-"))
    path = folder / key / name
    if not path.exists():
        path.parent.mkdir(mode=0o755, exist_ok=True)
        fd, new = tempfile.mkstemp(dir=path.parent)
        os.close(fd)
        subprocess.run([*compiler(), *flags, "-o", new, str(source)], check=True)
        os.chmod(new, 0o755)
        os.rename(new, path)
    return path
