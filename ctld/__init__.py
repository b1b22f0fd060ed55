"""The controller."""

import os

# Set before anything imports grpc: its handlers of fork() can crash a program that the controller starts as another
# user (mail, triggers, PrologSlurmctld) with SIGSEGV between fork and exec, when another thread is in gRPC at that
# moment. No forked child of the controller uses gRPC.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# OpenBLAS, which numpy loads, would start a thread for each CPU. The planner multiplies no matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
