"""The cluster of a new job: the one that --clusters names, or of several the one with the earliest expected start.

Each cluster is asked the question of --test-only, so the answers come from the planners and regard the present queues. A
job that several clusters would start at once goes to the command's own cluster if that is one of them, else to the one
named first. Clusters that refuse the job, or do not answer, are reported; it is an error if none is left.
"""

import time
from collections.abc import Callable

from cli.base.clusters import named_clusters
from cli.base.exitstatus import error_status
from cli.base.options import OptionValues
from cli.base.run import CommandError, complain
from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.clusters import select_cluster
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import SubmitJobReply, SubmitJobRequest

#: The longest wait for a cluster's answer; others are not delayed much by one that is down.
ANSWER_LIMIT_S = 20.0
NOWHERE = "Can't run on any of the specified clusters"
#: Sorts behind every start: the cluster accepts the job, and cannot say when it starts.
NO_START_S = 1 << 62


def open_cluster(
    command: str, values: OptionValues, request: Callable[[], SubmitJobRequest], stays: bool = False
) -> Client:
    """Opens a client of the job's cluster: see open_for_job in jobrequest.py."""
    client = Client.open()
    found = named_clusters(command, values.text("clusters"), client.cluster)
    if found == [client.cluster]:
        return client
    if len(found) > 1 and values.text("request_key"):
        raise CommandError("--request-key needs the name of one cluster: that of the first submission", error_status())
    chosen = found[0] if len(found) == 1 else earliest(command, found, request(), client.cluster)
    if stays:
        select_cluster(chosen, client.cluster)
    return Client.open(cluster=chosen)


def earliest(command: str, clusters: list[ClusterFile], request: SubmitJobRequest, own: ClusterFile) -> ClusterFile:
    """Returns the cluster that expects to start the job first. Raises CommandError when none accepts it."""
    asked = SubmitJobRequest()
    asked.CopyFrom(request)
    asked.test_only = True
    starts: list[tuple[ClusterFile, int]] = []
    for cluster in clusters:
        try:
            with Client.open(ANSWER_LIMIT_S, cluster=cluster) as client:
                reply: SubmitJobReply = client.call("SubmitJob", asked)
        except PenstockError as error:
            complain(command, f"Problem with submit to cluster {cluster.cluster_name}: {error.text}")
        else:
            starts.append((cluster, reply.start_at_us // 1_000_000 or NO_START_S))
    if not starts:
        raise CommandError(NOWHERE, error_status())
    now_s = int(time.time())  # clocks differ, and one cluster was asked after the other: "at once" is one time
    return min(starts, key=lambda start: (max(start[1], now_s), start[0] != own))[0]
