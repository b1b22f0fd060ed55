"""A token goes round all ranks, then all add up: rank 0 says what came of it. Each rank says who shares its node."""

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
if size > 1:
    if rank == 0:
        world.send([0], dest=1)
        token = world.recv(source=size - 1)
    else:
        token = [*world.recv(source=rank - 1), rank]
        world.send(token, dest=(rank + 1) % size)
else:
    token = [0]
total = world.allreduce(rank + 1)
node = world.Split_type(MPI.COMM_TYPE_SHARED)
together = world.gather(sorted(node.allgather(rank)))
if rank == 0:
    nodes = sorted({tuple(ranks) for ranks in together})
    print(f"ring {token == list(range(size))} of {size}, sum {total}, nodes {nodes}", flush=True)
