"""One rank ends the whole step; the others would wait forever."""

from mpi4py import MPI

if MPI.COMM_WORLD.rank == 1:
    MPI.COMM_WORLD.Abort(42)
MPI.COMM_WORLD.Barrier()
MPI.COMM_WORLD.recv(source=MPI.ANY_SOURCE)
