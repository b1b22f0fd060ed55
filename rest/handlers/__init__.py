"""The handlers, by method and path: from parameters to a request of the controller, from its answer to a document. Never decides
what a caller may do.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from cli.base.document import Json
from rest.calling import RestCall
from rest.handlers import accounts, change, cluster, jobs, submit

#: Returns the content of the answer, without meta, errors and warnings. Raises RestError, NotModified, PenstockError.
RestHandler: TypeAlias = Callable[[RestCall], Awaitable[Json]]

_SLURM: Final = "/slurm/{v}"
_DB: Final = "/slurmdb/{v}"

#: Paths of the contract that are not here answer 501; a test compares docs/rest.md with this table.
HANDLERS: Final[dict[tuple[str, str], RestHandler]] = {
    ("get", f"{_SLURM}/ping"): cluster.ping,
    ("get", f"{_SLURM}/diag"): cluster.diag,
    ("get", f"{_SLURM}/jobs"): jobs.jobs,
    ("get", f"{_SLURM}/jobs/state"): jobs.states,
    ("get", f"{_SLURM}/job/{{job_id}}"): jobs.job,
    ("get", f"{_SLURM}/nodes"): cluster.nodes,
    ("get", f"{_SLURM}/node/{{node_name}}"): cluster.node,
    ("get", f"{_SLURM}/partitions"): cluster.partitions,
    ("get", f"{_SLURM}/partition/{{partition_name}}"): cluster.partition,
    ("get", f"{_SLURM}/reservations"): cluster.reservations,
    ("get", f"{_SLURM}/reservation/{{reservation_name}}"): cluster.reservation,
    ("get", f"{_SLURM}/licenses"): cluster.licenses,
    ("get", f"{_SLURM}/shares"): accounts.shares,
    ("get", f"{_SLURM}/reconfigure"): change.reconfigure,
    ("post", f"{_SLURM}/job/submit"): submit.submit,
    ("post", f"{_SLURM}/job/{{job_id}}"): change.update_job,
    ("delete", f"{_SLURM}/job/{{job_id}}"): change.kill_job,
    ("delete", f"{_SLURM}/jobs"): change.kill_jobs,
    ("get", f"{_SLURM}/job/{{job_id}}/requeue"): change.requeue_job,
    ("post", f"{_SLURM}/jobs/requeue"): change.requeue_jobs,
    ("post", f"{_SLURM}/node/{{node_name}}"): change.update_node,
    ("post", f"{_SLURM}/nodes"): change.update_nodes,
    ("delete", f"{_SLURM}/node/{{node_name}}"): change.delete_node,
    ("delete", f"{_SLURM}/partition/{{partition_name}}"): change.delete_partition,
    ("delete", f"{_SLURM}/reservation/{{reservation_name}}"): change.delete_reservation,
    ("get", f"{_DB}/ping"): accounts.ping,
    ("get", f"{_DB}/jobs"): accounts.jobs,
    ("get", f"{_DB}/job/{{job_id}}"): accounts.job,
    ("get", f"{_DB}/accounts"): accounts.accounts,
    ("get", f"{_DB}/account/{{account_name}}"): accounts.account,
    ("get", f"{_DB}/users"): accounts.users,
    ("get", f"{_DB}/user/{{name}}"): accounts.user,
    ("get", f"{_DB}/associations"): accounts.associations,
    ("get", f"{_DB}/association"): accounts.association,
    ("get", f"{_DB}/qos"): accounts.all_qos,
    ("get", f"{_DB}/qos/{{qos}}"): accounts.qos,
    ("get", f"{_DB}/tres"): accounts.tres,
    ("get", f"{_DB}/clusters"): accounts.clusters,
    ("get", f"{_DB}/cluster/{{cluster_name}}"): accounts.cluster,
    ("get", f"{_DB}/wckeys"): accounts.wckeys,
    ("get", f"{_DB}/wckey/{{id}}"): accounts.wckey,
    ("post", "/util/{v}/hostlist"): cluster.hostlist,
    ("post", "/util/{v}/hostnames"): cluster.hostnames,
}
