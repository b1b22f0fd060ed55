"""--bcast: the program goes to all nodes of the job first, through a small step of its own.

One task a node reads the file from its standard input and puts it in its place by a rename, so that nobody sees half of
it, also where nodes share the folder. The step takes nothing from the job, and its input comes as any step's does:
authenticated, and as fast as the slowest node takes it.
"""

import os
from typing import TYPE_CHECKING

from cli.run import CommandError
from cli.steps.request import STDIN_TO_ALL
from penstock.v1.steps_pb2 import StepSpec

if TYPE_CHECKING:
    from cli.steps.creation import StepMaker
    from penstock.cluster import ClusterFile

SCRIPT = b'umask 077; new="$1.$2.$SLURM_PROCID"; cat >"$new" && chmod 0755 "$new" && mv -f -- "$new" "$1"'
NAME = "srun"


def send(cluster: "ClusterFile", maker: "StepMaker", spec: StepSpec, program: str, dest: str, job_id: int) -> bytes:
    """Copy the program; where it lies on the nodes. Raises CommandError."""
    import shutil

    from cli.steps.console import STDERR, Console, Sink
    from cli.steps.session import Rules, Session

    found = shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", ""), ".")))
    if found is None:
        raise CommandError(f"--bcast: {program}: no such program here")
    target = _target(dest, os.path.basename(program), spec.work_dir, job_id)
    copier = StepSpec(
        name="bcast", ntasks_per_node=1, overlap=True, stdin_to=STDIN_TO_ALL, work_dir=spec.work_dir, mpi="none"
    )
    copier.std_out = b"/dev/null"
    try:
        fd = os.open(found, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CommandError(f"--bcast: {found}: {error.strerror}") from error
    unique = b"%d" % os.getpid()
    created = maker.create(copier, [b"/bin/sh", b"-c", SCRIPT, b"bcast", target, unique], [b"PATH=/usr/bin:/bin"])
    session = Session(cluster, created, Console(None, Sink(STDERR)), Rules(kill_on_bad_exit=True))
    session.feed(fd)
    status = session.run()
    os.close(fd)
    if status:
        raise CommandError(f"--bcast: {program} could not be copied to all nodes")
    return target


def _target(dest: str, name: str, work_dir: bytes, job_id: int) -> bytes:
    """Where the copy is to lie: a path, a folder (with / at its end), or the working directory."""
    own = os.fsencode(f"slurm_bcast_{job_id}_{name}")
    if not dest:
        return os.path.join(work_dir, own)
    path = os.path.join(work_dir, os.fsencode(dest))
    return path + own if path.endswith(b"/") else path
