"""Trains a small model with DistributedDataParallel and prints the same loss on every rank.

It finds its place in what torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK) or, started by srun itself, in SLURM_PROCID,
SLURM_NTASKS and SLURM_LOCALID. MASTER_ADDR and MASTER_PORT are in the environment either way: torchrun sets its own, and
the cluster sets those of the job.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
PLACE = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}


def main() -> None:
    for name, slurm_name in PLACE.items():
        if name not in os.environ:
            os.environ[name] = os.environ[slurm_name]
    rank, size, local = (int(os.environ[name]) for name in PLACE)
    use_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local % torch.cuda.device_count()) if use_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if use_gpu else "gloo")

    torch.manual_seed(1)  # the same model everywhere ...
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(100 + rank)  # ... and each rank its own part of the data
    inputs = torch.randn(256, 8)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    inputs, targets = inputs.to(device), targets.to(device)

    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()  # gradients are averaged over all ranks here
        optimizer.step()

    mean = loss.detach().clone()
    dist.all_reduce(mean)
    weight = sum(parameter.detach().sum() for parameter in model.parameters())
    node = os.environ.get("SLURMD_NODENAME", "here")
    print(f"rank {rank} of {size} on {node}: loss {mean.item() / size:.6f} weights {weight.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
