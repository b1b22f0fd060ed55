"""How an interpreter's recorded build is judged, and what its user reads."""

import sys

import pytest

from penstock.interpreter import Build, build_of, running_build

DEBIAN = "'--enable-shared' '--prefix=/usr' '--with-wheel-pkg-dir=/usr/share/python-wheels/'"


def judged(machine: str = "x86_64", **recorded: str) -> tuple[bool, bool, str]:
    build = build_of(recorded.get, "3.11.7", "/bin/python3.11", machine)
    return build.has_pgo, build.has_lto, build.packager


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("'--prefix=/home/ann/.pyenv/versions/3.11.7' '--enable-shared'", (False, False, "")),
        ("'--enable-optimizations' '--with-lto'", (True, True, "")),
        ("'--enable-optimizations' '--with-lto=no'", (True, False, "")),
        ("'--with-lto=thin'", (False, True, "")),
        (DEBIAN, (True, True, "Debian")),
        ("", (False, False, "")),
    ],
)
def test_arguments_of_configure_are_read(arguments: str, found: tuple[bool, bool, str]) -> None:
    assert judged(CONFIG_ARGS=arguments) == found


def test_flags_of_the_compiler_count_too() -> None:
    assert judged(PY_CORE_CFLAGS="-O3 -fprofile-use -flto") == (True, True, "")


def test_debian_optimises_on_some_machines_only() -> None:
    assert judged("riscv64", CONFIG_ARGS=DEBIAN) == (False, False, "")


def test_only_a_build_without_profiles_is_warned_of() -> None:
    slow = Build("3.11.7", "/bin/python3.11", has_pgo=False, has_lto=True)
    assert slow.text() == "Python 3.11.7 (/bin/python3.11): LTO"
    assert "without profile-guided optimisation" in slow.warning() and "/bin/python3.11" in slow.warning()
    assert slow._replace(has_pgo=True).warning() == ""


def test_the_running_interpreter_is_named() -> None:
    assert running_build().version == sys.version.split()[0]
    assert running_build().path in running_build().text()
