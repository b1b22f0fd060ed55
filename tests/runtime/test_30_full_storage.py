"""A controller that starts on storage that takes no writes: 75 and the file's name, and when there is room it starts.

The storage is a small tmpfs in a mount namespace of these tests' own.
"""

from pathlib import Path

import pytest
from livecluster import free_ports
from smallstorage import READ_ONLY, ROOM, StorageNamespace, fill, need_namespaces

#: In a namespace of a plain user's own no file system can be remounted with other options.
pytestmark = pytest.mark.root
UP = "; listening on "


@pytest.fixture(scope="module")
def inside() -> StorageNamespace:
    need_namespaces()
    return StorageNamespace("ctld")


def conf(folder: Path, *more: str) -> Path:
    """A configuration whose state is below the storage."""
    ports = free_ports(2)
    path = folder / "slurm.conf"
    lines = [
        "ClusterName=t",
        "SlurmctldHost=localhost(127.0.0.1)",
        f"SlurmctldPort={ports[0]}",
        f"PenstockNodePort={ports[1]}",
        f"StateSaveLocation={folder}/storage/state",
        "NodeName=n1 CPUs=1",
        "PartitionName=p Nodes=ALL Default=YES",
        *more,
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def two_starts(inside: StorageNamespace, folder: Path, options: str, before: str, after: str) -> list[str]:
    """What the first start says, with its status; the second one listens. `before`, `after`: shell commands in the storage
    before each start."""
    storage, words = folder / "storage", ["ctld", "-f", str(conf(folder))]
    inside.mount(storage, options)
    inside.run(storage, before)
    said = inside.start(storage, words)
    inside.run(storage, after)
    again = inside.start(storage, words, UP)
    assert UP in again[-1], again
    return said


@pytest.mark.parametrize(
    ("free_kb", "name"),
    [
        (0, "state/ctld.pid: cannot be written: No space left on device"),
        (4, "state/ca/ca.key: cannot be written: No space left on device"),
        (8, "state/ca/ca.pem: cannot be written: No space left on device"),
        (20, "state/ca/controller.pem: cannot be written: No space left on device"),
        (28, "state/witness: No space left on device"),
        (32, "state/penstock.db: database or disk is full"),
    ],
)
def test_30_a_full_disk_is_named_and_passes(inside: StorageNamespace, tmp_path: Path, free_kb: int, name: str) -> None:
    *said, hint, status = two_starts(inside, tmp_path, "size=16m", fill(free_kb), "rm fill")
    assert status == "status 75", said
    assert said[-1].startswith("penstock ctld: error: ") and said[-1].endswith(f"{tmp_path}/storage/{name}"), said
    assert hint == f"penstock ctld: {ROOM}"


@pytest.mark.parametrize(
    ("inodes", "name"),
    [
        (4, "state/ca/ca.key: cannot be written: No space left on device"),
        (12, "state/penstock.db: unable to open database file: No space left on device"),
        (14, "state/ctld.sock: cannot listen: No space left on device"),
        (17, "state/calls.sock: cannot listen: No space left on device"),
    ],
)
def test_30_no_more_files_are_named_and_pass(inside: StorageNamespace, tmp_path: Path, inodes: int, name: str) -> None:
    options = f"size=16m,nr_inodes={inodes}"
    *said, hint, status = two_starts(inside, tmp_path, options, ":", "mount -o remount,nr_inodes=1000 $PWD")
    assert status == "status 75", said
    assert said[-1].startswith("penstock ctld: error: ") and said[-1].endswith(f"{tmp_path}/storage/{name}"), said
    assert hint == f"penstock ctld: {ROOM}" and not any("Traceback" in line for line in said)


def test_30_a_read_only_file_system_is_named_and_passes(inside: StorageNamespace, tmp_path: Path) -> None:
    said = two_starts(inside, tmp_path, "size=16m", "mount -o remount,ro $PWD", "mount -o remount,rw $PWD")
    assert said == [
        f"penstock ctld: error: {tmp_path}/storage/state: cannot be used: Read-only file system",
        f"penstock ctld: {READ_ONLY}",
        "status 75",
    ]


def test_30_the_log_and_the_witness_are_files_too(inside: StorageNamespace, tmp_path: Path) -> None:
    for number, (key, name) in enumerate({"SlurmctldLogFile": "log/ctld", "PenstockWitnessFile": "witness"}.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        storage = folder / "storage"
        inside.mount(storage, "size=16m")
        inside.run(storage, "mkdir other; mount -t tmpfs -o ro,size=1m tmpfs other")  # a file system of its own
        said = inside.start(storage, ["ctld", "-f", str(conf(folder, f"{key}={storage}/other/{name}"))])
        assert said[-1] == "status 75"
        assert any(f"{storage}/other/" in text and "Read-only file system" in text for text in said)
