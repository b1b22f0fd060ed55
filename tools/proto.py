"""Generates `penstock/v1` from `proto/`, or checks that the committed files are current.

The generator is pinned (`GENERATOR`) to an old release on purpose: generated code runs with the protobuf and grpcio it was
made for and with later ones, never with earlier ones. Raising the pin raises the lower bounds in setup.py with it.

    python tools/proto.py          write penstock/v1
    python tools/proto.py --check  generate into a temporary folder, compare, exit 1 and name the files that differ
"""

import argparse
import importlib.metadata
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("penstock/v1")
#: grpcio-tools release that generates; it is pinned in requirements-dev.lock too.
GENERATOR = "1.76.0"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def generate(target: Path) -> None:
    """Run the pinned generator on every .proto file; the files appear under `target`/penstock/v1."""
    from grpc_tools import protoc

    installed = importlib.metadata.version("grpcio-tools")
    if installed != GENERATOR:
        sys.exit(
            f"tools/proto.py: grpcio-tools {installed} is installed, {GENERATOR} is needed: use the .venv of `make build`"
        )
    sources = sorted(str(p.relative_to(ROOT / "proto")) for p in (ROOT / "proto").rglob("*.proto"))
    words = [
        "protoc",
        f"-I{ROOT / 'proto'}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--python_out={target}",
        f"--pyi_out={target}",
        f"--grpc_python_out={target}",
    ]
    if protoc.main([*words, *sources]) != 0:
        sys.exit("tools/proto.py: protoc failed, see above")


def generated(root: Path) -> dict[str, bytes]:
    """The generated files under `root`, by name."""
    return {p.name: p.read_bytes() for pattern in GENERATED for p in (root / PACKAGE).glob(pattern)}


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Generate penstock/v1 from proto/.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = generated(Path(folder))
    committed = generated(ROOT)
    stale = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
    if check:
        for name in stale:
            print(
                f"tools/proto.py: {PACKAGE / name} is not what proto/ gives: run `make proto` and commit",
                file=sys.stderr,
            )
        return 1 if stale else 0
    for name in stale:
        path = ROOT / PACKAGE / name
        if name in fresh:
            path.write_bytes(fresh[name])
        else:
            path.unlink()
        print(f"{PACKAGE / name} {'written' if name in fresh else 'removed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
