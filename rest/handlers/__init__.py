"""The handlers, by method and path: from parameters to a request of the controller, from its answer to a document. Never decides
what a caller may do.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from cli.base.document import Json
from rest.calling import RestCall
from rest.handlers import accounts, change, cluster, entities, jobs, own, places, records, settings, submit

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
    ("get", f"{_SLURM}/resources/{{job_id}}"): jobs.resources,
    ("post", f"{_SLURM}/job/submit"): submit.submit,
    ("post", f"{_SLURM}/job/allocate"): submit.allocate,
    ("post", f"{_SLURM}/reservation"): places.post_reservation,
    ("post", f"{_SLURM}/reservations"): places.post_reservations,
    ("post", f"{_SLURM}/partitions"): places.post_partitions,
    ("post", f"{_SLURM}/new/node"): places.new_node,
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
    ("get", f"{_SLURM}/conf"): settings.conf,
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
    ("get", f"{_DB}/config"): accounts.config,
    ("get", f"{_DB}/conf"): settings.accounting_conf,
    ("get", f"{_DB}/diag"): records.diag,
    ("get", f"{_DB}/instances"): records.instances,
    ("get", f"{_DB}/instance"): records.instances,
    ("post", f"{_DB}/job/{{job_id}}"): records.update_job,
    ("post", f"{_DB}/jobs"): records.update_jobs,
    ("post", f"{_DB}/accounts"): entities.post_accounts,
    ("post", f"{_DB}/accounts_association"): entities.add_accounts,
    ("post", f"{_DB}/associations"): entities.post_associations,
    ("post", f"{_DB}/users"): entities.post_users,
    ("post", f"{_DB}/users_association"): entities.add_users,
    ("post", f"{_DB}/wckeys"): entities.post_wckeys,
    ("post", f"{_DB}/qos"): entities.post_qos,
    ("post", f"{_DB}/config"): entities.post_config,
    ("post", f"{_DB}/clusters"): entities.post_clusters,
    ("post", f"{_DB}/tres"): entities.post_tres,
    ("delete", f"{_DB}/account/{{account_name}}"): entities.delete_account,
    ("delete", f"{_DB}/user/{{name}}"): entities.delete_user,
    ("delete", f"{_DB}/association"): entities.delete_association,
    ("delete", f"{_DB}/associations"): entities.delete_associations,
    ("delete", f"{_DB}/qos/{{qos}}"): entities.delete_qos,
    ("delete", f"{_DB}/wckey/{{id}}"): entities.delete_wckey,
    ("delete", f"{_DB}/cluster/{{cluster_name}}"): entities.delete_cluster,
    ("post", "/util/{v}/hostlist"): cluster.hostlist,
    ("post", "/util/{v}/hostnames"): cluster.hostnames,
} | {(one.method, f"{own.PREFIX}{one.path}"): one.handler for one in own.OWN_PATHS}
