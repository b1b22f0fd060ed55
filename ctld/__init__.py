"""The controller."""

import os

# Before anything imports grpc: its handlers of fork() let a program that the controller starts as another user (mail, triggers,
# PrologSlurmctld) die of SIGSEGV between fork and exec, when another thread is in gRPC just then. Nobody here forks and goes on.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
