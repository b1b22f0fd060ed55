"""examples/gpu-check/check.py: says that a card is well, or why it is not, in one line. The card is a fake libcuda."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from clibrary import compiler
from fakenvml import FLAGS, HERE

CHECK = Path(__file__).resolve().parents[2] / "examples" / "gpu-check" / "check.py"


@pytest.fixture(scope="module")
def libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    flags = [flag for flag in FLAGS if "soname" not in flag and "visibility" not in flag]
    subprocess.run([*compiler(), *flags, "-o", str(built), str(HERE / "fakecuda.c")], check=True)
    return built


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("", 0, "well: 8 MiB and 262144 sums"),
        ("none", 1, "cuInit: CUDA_ERROR_NO_DEVICE (100)"),
        ("memory", 1, "memory: pattern 0x00000000 came back changed in piece 1"),
        ("sum", 1, "arithmetic: thread 77 has "),
        ("full", 1, "memory: only 1 MiB of 16 MiB are free"),
    ],
)
def test_the_example_check(libcuda: Path, fault: str, status: int, says: str) -> None:
    env = {**os.environ, "GPU_CHECK_LIBCUDA": str(libcuda), "FAKE_CUDA_FAULT": fault}
    done = subprocess.run([sys.executable, str(CHECK)], capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (status, "", 1)
    assert done.stdout.startswith(says)


def test_without_the_drivers_library_it_says_so(tmp_path: Path) -> None:
    env = {**os.environ, "GPU_CHECK_LIBCUDA": str(tmp_path / "none.so")}
    done = subprocess.run([sys.executable, str(CHECK)], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 1 and done.stdout.startswith("libcuda.so.1 cannot be loaded: ")
