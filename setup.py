"""Builds and installs the package; tool settings are in pyproject.toml.

The lower bounds of grpcio and protobuf are those of the generator that made penstock/v1: its modules check them when
they are imported. Raise all three together.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from setuptools import Command, Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path(__file__).with_name("penstock").joinpath("__init__.py")
# Read as text: importing the package would need what is only about to be installed.
VERSION = re.search(r'^__version__ = "([^"]+)"$', PACKAGE.read_text(), re.M)
if VERSION is None:
    raise SystemExit('setup.py: penstock/__init__.py has no line __version__ = "..."')

# The planner reads numpy's arrays directly. Where numpy is not there yet, only `setup.py --version` and the like will do.
NUMPY = find_spec("numpy")
NUMPY_HEADERS = Path(NUMPY.origin or "").with_name("_core") / "include" if NUMPY else Path()

# Optional: without a C compiler the build warns and goes on, and _fastsched uses its plain-Python oracle.
# One module a file; what modules declare to each other is in .pxd files of their folder and those below. replay.pyx alone
# includes two parts as text (.pxi).
ROOT = Path(__file__).parent
COMPILED = [
    Extension(
        ".".join(source.relative_to(ROOT).with_suffix("").parts),
        [str(source.relative_to(ROOT))],
        depends=[str(path.relative_to(ROOT)) for path in sorted(source.parent.rglob("*.px[di]"))],
        include_dirs=[str(NUMPY_HEADERS)],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        # Each floating-point operation is rounded by itself, as it is in Python, also where a processor could fuse two.
        extra_compile_args=["-ffp-contract=off"],
        optional=True,
    )
    for source in sorted([*ROOT.glob("_fastsched/**/*.pyx"), *ROOT.glob("rest/*.pyx")])
]
for module in COMPILED:
    module.cython_directives = {
        "language_level": 3,
        "boundscheck": False,  # every length is proved before a loop begins
        "wraparound": False,
        "initializedcheck": False,
        "cdivision": True,  # what is divided is never negative
    }

COMMANDS = [
    "sbatch", "srun", "salloc", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sacctmgr", "sdiag", "sprio", "sshare",
    "penstock", "sstat", "sattach", "sbcast", "seff", "scrontab", "strigger", "swait", "sreport",
]  # fmt: skip
#: Those that the command server serves (cli/commandserver/protocol.py): programs of native/launcher.c, which find it.
QUICK = [
    "sbatch", "squeue", "sinfo", "sacct", "sacctmgr", "scancel", "scontrol", "sdiag", "sprio", "sshare", "sstat", "seff",
    "sreport", "srun", "salloc", "sattach",
]  # fmt: skip
DAEMONS = ["slurmctld", "slurmd", "slurmdbd", "slurmrestd"]

LAUNCHER = Path(__file__).parent / "native" / "launcher.c"
STARTTASK = LAUNCHER.with_name("starttask.c")
#: It has no libc of its own, and no other library: what is mapped and touched is what a task's start costs.
STARTTASK_FLAGS = [
    "-std=gnu11", "-O2", "-Wall", "-Wextra", "-static", "-no-pie", "-fno-pie", "-nostdlib", "-ffreestanding",
    "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-Wl,--build-id=none", "-s",
]  # fmt: skip
#: How the launcher is compiled, the first way that this machine can: (flags, the consequence otherwise, compiler). Most of
#: its time is page faults before main(): 13 with musl's libc, 30 with a static one of GNU, 66 with a shared one.
LAUNCHER_BUILDS = (
    *([] if os.environ.get("CC") else [(["-O2", "-Wall", "-Wextra", "-static", "-s"], "", "musl-gcc")]),
    (["-O2", "-Wall", "-Wextra", "-static", "-no-pie", "-s"], "it is linked with a shared libc"),
    (["-O2", "-Wall", "-Wextra"], "commands will start slowly"),
)
#: Numbers of the kernel's errors for which it has texts.
ERROR_NUMBERS = 134
#: Without a C compiler. pip puts the environment's Python into the first line.
PLAIN = "#!python\nfrom cli.{name} import main\n\nmain()\n"


class BuildScripts(Command):
    """One program under many names; and where it cannot be compiled, a warning and scripts that do the same, slower.

    It stands in for setuptools' own command, which installs texts only.
    """

    description = "build the launcher"
    user_options = [("build-dir=", "d", "folder for the scripts")]  # noqa: RUF012 (setuptools' form)

    def initialize_options(self) -> None:
        """What setuptools calls first."""
        self.build_dir = None

    def finalize_options(self) -> None:
        """What it calls then."""
        self.set_undefined_options("build", ("build_scripts", "build_dir"))

    def get_source_files(self) -> list[str]:
        """For the source distribution."""
        return [f"{source.parent.name}/{source.name}" for source in (LAUNCHER, STARTTASK)]

    def run(self) -> None:
        """Fill the folder from which scripts are installed."""
        folder = Path(self.build_dir)
        folder.mkdir(parents=True, exist_ok=True)
        program = self.compiled()
        for name in QUICK:
            path = folder / name
            path.unlink(missing_ok=True)
            if program is None:
                path.write_text(PLAIN.format(name=name))
            else:
                shutil.copyfile(program, path)
            path.chmod(0o755)

    def compiled(self) -> "Path | None":
        """The launcher; None, after a warning, where there is no compiler for it."""
        program = Path(self.get_finalized_command("build").build_temp, "launcher")
        program.parent.mkdir(parents=True, exist_ok=True)
        made = any(
            compile_program(LAUNCHER, program, flags, otherwise, *cc) for flags, otherwise, *cc in LAUNCHER_BUILDS
        )
        return program if made else None


class BuildExt(build_ext):
    """The extension modules, and the program that turns a process into a task, beside the module that starts it."""

    def run(self) -> None:
        """Compile all; into the source tree when the package is installed from there."""
        super().run()
        program = Path(ROOT if self.inplace else self.build_lib, "nodedaemon", "stepd", STARTTASK.stem)
        program.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(self.build_temp)
        folder.mkdir(parents=True, exist_ok=True)
        texts = "".join(f'"{os.strerror(number)}",\n' for number in range(ERROR_NUMBERS))
        header = f"#define ERROR_TEXTS {ERROR_NUMBERS}\nstatic const char *const error_texts[] = {{\n{texts}}};\n"
        (folder / "errortexts.h").write_text(header)
        flags = [*STARTTASK_FLAGS, "-I", str(folder)]
        made = folder / STARTTASK.stem
        if compile_program(STARTTASK, made, flags, "tasks will start slowly"):
            made.chmod(0o755)
            copy = shutil.copy2(made, program.with_suffix(".new"))
            os.replace(copy, program)  # a daemon may be executing the old one
        else:
            program.unlink(missing_ok=True)


def compile_program(source: Path, program: Path, flags: "list[str]", otherwise: str, compiler: str = "") -> bool:
    """Compile a program; False where that is not possible, after a warning if it has a consequence."""
    words = shlex.split(compiler or os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    try:
        subprocess.run([*words, *flags, "-o", str(program), str(source)], check=True, capture_output=not otherwise)
    except (OSError, subprocess.CalledProcessError) as error:
        if otherwise:
            sys.stderr.write(f"warning: {source.name} cannot be compiled ({error}): {otherwise}\n")
        return False
    return True


#: Kept apart: in the project's own folder our type checker would take them for those of `penstock`. An editable
#: installation goes without: with a package from elsewhere every start of Python would import a finder, not read a path.
STUBS = {} if "editable_wheel" in sys.argv else {"penstock-stubs": "packaging/stubs/penstock-stubs"}
PACKAGES = ("penstock", "ctld", "nodedaemon", "accounting", "cli", "_fastsched", "sim", "rest", "pamd", "sdk")

setup(
    name="penstock",
    version=VERSION.group(1),
    description="A batch workload manager for GPU clusters that speaks Slurm",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    package_dir={"": ".", **STUBS},
    packages=[*find_packages(include=[found for name in PACKAGES for found in (name, f"{name}.*")]), *STUBS],
    package_data={
        "penstock": ["py.typed"],
        "penstock-stubs": ["py.typed", "*.pyi"],
        "_fastsched": ["*.pyi"],
        "nodedaemon": ["gpu/*.toml"],
        "rest": ["*.pyi", "contract/facts.json", "static/*", "static/assets/*"],
        "ctld": ["store/migrations/*", "store/migrations/versions/*"],
    },
    # Manual pages and completions, written by tools/manual from the option tables.
    data_files=[
        (str(folder), sorted(str(path) for path in folder.glob("*")))
        for folder in map(
            Path,
            (
                "share/man/man1",
                "share/bash-completion/completions",
                "share/zsh/site-functions",
                "share/fish/vendor_completions.d",
            ),
        )
    ],
    ext_modules=COMPILED,
    install_requires=[
        "grpcio>=1.76.0",
        "h2>=4.2",
        "hpack>=4.0",
        "protobuf>=6.31.1",
        "sqlalchemy>=2.0",
        "alembic>=1.14",
        "msgspec>=0.19",
        "numpy>=2.0",
        "psutil>=6.0",
        "click>=8.1",
        "cryptography>=44.0",
        "nvidia-ml-py>=12.575",
        "pyjwt>=2.10",
        "pyyaml>=6.0",
    ],
    extras_require={
        "sim": ["matplotlib>=3.9", "rich>=13.9"],
        "profile": ["matplotlib>=3.9", "pyarrow>=18"],
        "postgresql": ["psycopg[binary]>=3.2"],
        "lua": ["lupa>=2.4"],
        "kafka": ["confluent-kafka>=2.6"],
        "rest": ["starlette>=0.46", "uvicorn>=0.34", "httptools>=0.7"],
        "terminal": ["wsproto>=1.2"],
        "dev": [
            "pytest>=9.0",
            "pytest-timeout>=2.4",
            "pytest-xdist>=3.6",
            "hypothesis>=6.120",
            "mypy>=1.15",
            "ruff>=0.9",
            "import-linter>=2.3",
            "cython>=3.1",
            "grpcio-tools==1.76.0",
            "grpc-stubs>=1.53",
            "types-protobuf>=6.30",
            "types-psutil>=6.0",
            "types-pyyaml>=6.0",
        ],
    },
    scripts=["native/launcher.c"],
    cmdclass={"build_scripts": BuildScripts, "build_ext": BuildExt},
    entry_points={
        "console_scripts": [f"{name} = cli.{name}:main" for name in COMMANDS if name not in QUICK]
        + [f"{name} = cli.names:{name}" for name in DAEMONS],
        "pytest11": ["penstock = sdk.testing"],
    },
)
