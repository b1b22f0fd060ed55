"""How the running Python was built: with profile-guided and link-time optimisation or without.

CPython records the arguments of its `configure`. Debian and its derivatives build with both optimisations on their
64-bit architectures, but remove the flags from that record, so their packages are recognised by what is left.
"""

import os
import sys
import sysconfig
from collections.abc import Callable
from typing import NamedTuple

#: What the record of a Debian package says and of another build does not: the folder of the package python3-pip-whl.
DEBIAN_MARKS = ("'--prefix=/usr'", "--with-wheel-pkg-dir=/usr/share/python-wheels")
DEBIAN_OPTIMISED = ("x86_64", "aarch64", "ppc64le", "s390x")
#: Variables of the build with the compiler's flags.
FLAG_NAMES = ("PY_CFLAGS", "PY_CORE_CFLAGS", "PY_CORE_LDFLAGS")


class Build(NamedTuple):
    """The optimisations of one interpreter."""

    version: str
    path: str
    has_pgo: bool
    has_lto: bool
    packager: str = ""

    @property
    def is_optimised(self) -> bool:
        """Whether it is a build for production. Link-time optimisation alone gives little."""
        return self.has_pgo

    def text(self) -> str:
        """The build in one line: `Python 3.11.2 (/usr/bin/python3.11): PGO and LTO (Debian)`."""
        found = " and ".join(name for name, has in (("PGO", self.has_pgo), ("LTO", self.has_lto)) if has)
        by = f" ({self.packager})" if self.packager else ""
        return f"Python {self.version} ({self.path}): {found or 'neither PGO nor LTO'}{by}"

    def warning(self) -> str:
        """Returns a warning for the operator of a production cluster; "" for an optimised build."""
        if self.is_optimised:
            return ""
        return (
            f"Python {self.version} ({self.path}) was built without profile-guided optimisation and is 10 to 20 % slower "
            "than a build with it; install Penstock with the distribution's python3, or build Python with "
            "--enable-optimizations --with-lto"
        )


def running_build() -> Build:
    """The build of the interpreter that runs this."""
    version = ".".join(map(str, sys.version_info[:3]))
    return build_of(sysconfig.get_config_var, version, os.path.realpath(sys.executable), os.uname().machine)


def build_of(variable: Callable[[str], object], version: str, path: str, machine: str) -> Build:
    """Judges the recorded variables of a build."""
    arguments = str(variable("CONFIG_ARGS") or "")
    flags = " ".join(str(variable(name) or "") for name in FLAG_NAMES)
    if all(mark in arguments for mark in DEBIAN_MARKS) and machine in DEBIAN_OPTIMISED:
        return Build(version, path, has_pgo=True, has_lto=True, packager="Debian")
    has_pgo = "--enable-optimizations" in arguments or "-fprofile-use" in flags or "-fprofile-instr-use" in flags
    has_lto = ("--with-lto" in arguments and "--with-lto=no" not in arguments) or "-flto" in flags
    return Build(version, path, has_pgo, has_lto)
