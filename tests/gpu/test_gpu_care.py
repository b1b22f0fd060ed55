"""A site's check and reset programs, from the fault to the GPU that is given again: controller, node daemon, fake card."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import ClusterConf
from patience import END_S

from tests.gpu.test_gpu_faults import N1, N2, Faulty

#: The controller looks every 30 s whether there is something to do.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("care")


#: The controller may look the moment a GPU has failed: its programs wait until the test has seen that.
UNTIL_SEEN = "until [ -e {folder}/seen ]; do sleep 0.1; done\n"


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Faulty]:
    check, reset = folder / "check", folder / "reset"
    check.write_text(
        f'#!/bin/sh\n{UNTIL_SEEN.format(folder=folder)}echo "check $PENSTOCK_GPU_UUID" >>{folder}/done\n'
        f"if [ -e {folder}/bad ]; then echo bank 3 is bad; exit 1; fi\n"
    )
    reset.write_text(
        f'#!/bin/sh\n{UNTIL_SEEN.format(folder=folder)}echo "reset $PENSTOCK_GPU_UUID" >>{folder}/done\n'
        f"sed -i 's/^gpu.0.field.230=.*/gpu.0.field.230=0/' {folder}/{N1}.state\n"
    )
    for program in (check, reset):
        program.chmod(0o755)
    more = (
        "PenstockGpuPollSeconds=1", f"PenstockGpuCheckProgram={check}", f"PenstockGpuResetProgram={reset}",
    )  # fmt: skip
    with Faulty(folder, ClusterConf(found_gpus=2, cpus=8, more=more)) as running:
        try:
            yield running
        finally:
            print(running.logs())


@pytest.fixture(autouse=True)
def not_seen(folder: Path) -> None:
    (folder / "seen").unlink(missing_ok=True)


def done(folder: Path, uuid: str = "") -> list[str]:
    """What the programs did, to all GPUs or to one. A busy machine may have made others suspicious before."""
    path = folder / "done"
    return [line for line in path.read_text().splitlines() if uuid in line] if path.exists() else []


def test_a_gpu_that_wants_a_reset_is_reset_checked_and_given_again(cluster: Faulty, folder: Path) -> None:
    uuid = cluster.fakes[N1].uuid(0)
    cluster.fakes[N1].put({"gpu.0.field.230": 1})
    cluster.wait_gpu(N1, 0, "DRAINED", "recovery action 1")
    (folder / "seen").touch()
    cluster.wait(
        lambda: done(folder, uuid)[:2] == [f"reset {uuid}", f"check {uuid}"], "it was reset and checked", END_S,
        show=lambda: (done(folder), cluster.states(N1)),
    )  # fmt: skip
    cluster.fakes[N1].keys["gpu.0.field.230"] = 0
    cluster.wait_well()


def test_a_gpu_that_fails_its_check_stays_drained_until_somebody_has_looked(cluster: Faulty, folder: Path) -> None:
    (folder / "bad").touch()
    cluster.fakes[N2].put({"gpu.1.error": 16})
    cluster.wait_gpu(N2, 1, "DRAINED", "reset required")
    cluster.fakes[N2].put({"gpu.1.error": None})
    (folder / "seen").touch()
    cluster.wait(
        lambda: "bank 3 is bad" in cluster.gpu(N2, 1).reason, "the check has failed", END_S,
        show=lambda: (done(folder), cluster.states(N2)),
    )  # fmt: skip
    assert cluster.gpu(N2, 1).state == "DRAINED"
    (folder / "bad").unlink()
    cluster.resume(N2, 1)
    cluster.wait_well()
