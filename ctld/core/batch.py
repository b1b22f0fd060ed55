"""Builds a batch: the rows of dirty records, and the effects that leave after the commit.

Rows are images of the records as they are now, so a record that changed ten times is written once.
"""

from ctld.core.limits import ledger
from ctld.core.records.effects import Batch
from ctld.core.records.node import PartitionRow, node_row
from ctld.core.records.step import step_row
from ctld.core.state.state import ClusterState


def build(state: ClusterState, sequence: int) -> Batch | None:
    """Builds the batch of all changes since the last one; the state begins a new one. None = nothing to commit or send."""
    if not (
        state.outputs.history or state.outputs.effects or state.outputs.acks or state.outputs.purged or state.is_dirty()
    ):
        return None
    if not state.outputs.is_stored:
        return _effects_alone(state, sequence)
    jobs = state.outputs.ended_attempts
    image = state.jobs.image
    jobs += [row for job_id in state.outputs.dirty_jobs if (row := image(job_id)) is not None]
    effects = state.outputs.effects
    if state.outputs.acks:
        effects += state.outputs.take_acks()
    batch = Batch(
        sequence=sequence,
        jobs=jobs,
        requests=state.outputs.new_requests,
        specs=state.outputs.new_specs,
        steps=[step_row(step) for step in state.outputs.dirty_steps.values()] if state.outputs.dirty_steps else [],
        nodes=[],
        partitions=[],
        history=state.outputs.history,
        next_job_id=state.next_job_id,
        next_request_id=state.next_request_id,
        effects=effects,
        purged=state.outputs.purged,
    )
    _add_rare_rows(state, batch)
    if state.epoch != state.gap.sealed_epoch:
        batch.epoch = state.gap.sealed_epoch = state.epoch
    if state.gap.sealed_wait != bool(state.gap.wait_until_us):
        batch.counters = [*batch.counters, *state.gap.kept()._asdict().items()]
        state.gap.sealed_wait = bool(state.gap.wait_until_us)
    if not (batch.is_durable() or batch.effects or batch.purged):
        return None
    state.start_new_batch()
    return batch


def _effects_alone(state: ClusterState, sequence: int) -> Batch:
    """Builds the batch of a core whose state is not stored; also one without effects, after any change."""
    effects = state.outputs.effects
    state.start_new_batch()
    return Batch(sequence, [], [], [], [], [], [], [], state.next_job_id, state.next_request_id, effects, [])


def _add_rare_rows(state: ClusterState, batch: Batch) -> None:
    """Adds the rows of records that change rarely."""
    if state.outputs.dirty_nodes:
        batch.nodes = [node_row(state.nodes[name]) for name in state.outputs.dirty_nodes if name in state.nodes]
    if state.outputs.dirty_partitions:
        known = state.partitions
        batch.partitions = [PartitionRow(n, known[n].state) for n in state.outputs.dirty_partitions if n in known]
    if state.amended.dirty:
        batch.amendments, batch.amendments_gone = state.amended.rows()
    if state.outputs.dirty_gpus:
        of = {name: state.nodes[name].gpus for name, _ in state.outputs.dirty_gpus if name in state.nodes}
        batch.gpus = [of[name][uuid] for name, uuid in state.outputs.dirty_gpus if uuid in of.get(name, ())]
        batch.gpus_gone = [(name, uuid) for name, uuid in state.outputs.dirty_gpus if uuid not in of.get(name, ())]
    if state.outputs.dirty_qos:
        batch.qos = [state.qos.get(name) or state.registry.qos_deleted[name] for name in state.outputs.dirty_qos]
    if state.outputs.dirty_usage:
        tree = state.shares.by_id
        batch.usage = [tree[i].usage_row() for i in state.outputs.dirty_usage if i in tree]
    if state.outputs.dirty_qos_usage:
        batch.qos_usage = [ledger.qos_usage_row(state, name) for name in state.outputs.dirty_qos_usage]
    if state.outputs.dirty_reservations:
        there, names = state.reservations, state.outputs.dirty_reservations
        batch.reservations = [there[n] for n in names if n in there]
        batch.reservations_gone = [n for n in names if n not in there]
        batch.counters = [("reservation", state.registry.reservation_id)]
    if state.limits.budgets.dirty or state.limits.budgets.closed:
        batch.budgets = state.limits.budgets.take_rows()
    if state.periodic.dirty:
        _add_periodic(state, batch)
    if state.revoked.dirty:
        batch.token_revocations = state.revoked.rows()
    if state.personal_tokens.dirty:
        batch.personal_tokens, batch.personal_tokens_gone = state.personal_tokens.rows()
    if state.audit.rows:
        batch.audit = state.audit.rows
        batch.txns = state.audit.txns
    if state.outputs.dirty_events or state.outputs.job_spans or state.outputs.dirty_reservation_spans:
        batch.node_events = list(state.outputs.dirty_events.values())
        batch.job_spans = list(state.outputs.job_spans.values())
        batch.reservation_spans = list(state.outputs.dirty_reservation_spans.values())
    if state.outputs.profiles:
        batch.profiles = list(state.outputs.profiles.values())
    if state.outputs.dirty_assocs or state.outputs.dirty_accounts or state.outputs.dirty_users:
        batch.assocs = list(state.outputs.dirty_assocs.values())
        batch.accounts = list(state.outputs.dirty_accounts.values())
        batch.users = list(state.outputs.dirty_users.values())
    if state.registry.dirty_wckeys or state.registry.dirty_resources or state.registry.dirty_tres:
        batch.wckeys = list(state.registry.dirty_wckeys.values())
        batch.resources = list(state.registry.dirty_resources.values())
        batch.tres = list(state.registry.dirty_tres.values())


def _add_periodic(state: ClusterState, batch: Batch) -> None:
    """Adds the rows of crontabs and triggers."""
    tabs, known = state.periodic.crontabs, state.periodic.triggers
    keys = {what: [key for kind, key in state.periodic.dirty if kind == what] for what in ("crontab", "trigger")}
    batch.crontabs = [tabs[uid] for uid in keys["crontab"] if uid in tabs]
    batch.crontabs_gone = [uid for uid in keys["crontab"] if uid not in tabs]
    batch.triggers = [known[i] for i in keys["trigger"] if i in known]
    batch.triggers_gone = [i for i in keys["trigger"] if i not in known]
