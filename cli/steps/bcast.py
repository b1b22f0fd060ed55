"""--bcast: copies the program to all nodes of the job first, as sbcast would (copier.py)."""

import os
from typing import TYPE_CHECKING

from cli.base.run import CommandError
from penstock.v1.steps_pb2 import StepSpec

if TYPE_CHECKING:
    from cli.steps.creation import StepMaker
    from penstock.clusterfile import ClusterFile

NAME = "srun"


def send(cluster: "ClusterFile", maker: "StepMaker", spec: StepSpec, program: str, dest: str, job_id: int) -> bytes:
    """Copies the program; returns its path on the nodes. Raises CommandError."""
    import shutil

    from cli.steps.copier import File, copy

    found = shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", ""), ".")))
    if found is None:
        raise CommandError(f"--bcast: {program}: no such program here")
    target = _target(dest, os.path.basename(program), spec.work_dir, job_id)
    try:
        status = copy(cluster, maker, File(found, target, mode=0o755), spec.work_dir, NAME)
    except OSError as error:
        raise CommandError(f"--bcast: {found}: {error.strerror}") from error
    if status:
        raise CommandError(f"--bcast: {program} could not be copied to all nodes")
    return target


def _target(dest: str, name: str, work_dir: bytes, job_id: int) -> bytes:
    """The destination of the copy: a path, a folder (with / at its end), or the working directory."""
    own = os.fsencode(f"slurm_bcast_{job_id}_{name}")
    if not dest:
        return os.path.join(work_dir, own)
    path = os.path.join(work_dir, os.fsencode(dest))
    return path + own if path.endswith(b"/") else path
