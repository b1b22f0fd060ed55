"""The compiled node run: signature and answers of noderun_reference.run_on_nodes."""

from _fastsched.noderun_contract import NodeRun, RunJobs, RunNodes
from _fastsched.replay_contract import ReplayPolicy

def run_on_nodes(jobs: RunJobs, nodes: RunNodes, policy: ReplayPolicy) -> NodeRun: ...
