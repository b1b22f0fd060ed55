"""Who writes what in the core's state: a table that says what is true, compared with the source.

An owner is a module (`nodes/layout`) or, where three or more modules of it write, a room (`lifecycle`). A new writer is a
decision: rather call a function of the owner; where that is no function of anybody's, the table grows by a word. A
word that is no longer true has to go. `Batch.*` stands for all attributes of a class, or part of the state, that has no
rows of its own.

Not in the table: `state/`, whose classes are the mutators; `records/`; and `recover`, which fills an empty state
before the first event. How writes are found, and what is not seen, is in tests/support/statewrites.py.
"""

import ast

import pytest
import tidytree as tree
from statewrites import Write, owned, state_writes, writes

OWNS_ALL = ("records/", "state/", "recover")
#: What is written where the receiver is unknown -> the modules that may. A draft sets what its caller names; the callers count.
UNKNOWN_RECEIVERS = {"?.<any>": "accounts/draft"}

#: attribute of the state -> who writes it
STATE_OWNERS = {
    "active_count": "lifecycle/job_life",
    "arrays": "jobs/arrays",
    "boots_for_jobs": "jobs/node_boots nodes/reboot",
    "calls.owners": "lifecycle/allocations",
    "config": "nodes/layout",
    "dependencies.changed": "lifecycle/depends",
    "dependencies.dependents": "jobs/waiters",
    "dependencies.due": "lifecycle/depends lifecycle/job_life",
    "dependencies.is_timed": "lifecycle/depends",
    "dependencies.singletons": "jobs/waiters",
    "dependencies.terms_of": "jobs/waiters",
    "dependencies.waiting_for": "jobs/waiters",
    "epoch": "lifecycle/restored",
    "exclusive_users": "nodes/layout",
    "leaf_owners": "nodes/layout",
    "free_licenses": "nodes/layout",
    "gap.claims": "lifecycle/restored",
    "gap.first_unknown_id": "lifecycle/restored",
    "gap.is_inherited": "lifecycle/restored",
    "gap.loaded_id": "lifecycle/restored",
    "gap.awaited_ends": "lifecycle/restored",
    "gap.loss_at_us": "lifecycle/restored",
    "gap.registered": "lifecycle/restored",
    "gap.sealed_epoch": "batch",
    "gap.sealed_wait": "batch",
    "gap.started_at_us": "lifecycle/restored",
    "gap.started_epoch": "lifecycle/restored",
    "gap.unjudged": "lifecycle/restored",
    "gap.unknown_steps": "lifecycle/restored",
    "gap.wait_until_us": "lifecycle/restored",
    "gpus.care_timer": "gpus/care",
    "gpus.divisible": "passes/mig_division",
    "gpus.extras": "nodes/layout",
    "gpus.mig_due_us": "passes/mig_division",
    "gpus.mig_waits": "passes/wait_reasons",
    "gpus.mix": "nodes/layout",
    "gpus.pairs": "nodes/layout",
    "gpus.relearn_due": "gpus/inventory nodes/layout",
    "gpus.share_units": "nodes/layout",
    "gpus.sizes": "nodes/layout",
    "gpus.works": "gpus/inventory",
    "handling.quarantined": "lifecycle/unexpected_errors",
    "handling.expanded": "queue/defaults",
    "handling.unexpected": "lifecycle/unexpected_errors",
    "handling.unfinished": "accounts/audit_diff accounts/requests controller nodes/life requests/control requests/crontabs requests/het_submit",
    "hets": "lifecycle/het_life requests/het_submit",
    "hets_due": "lifecycle/het_life lifecycle/job_life",
    "layout.cpus_largest": "nodes/layout",
    "layout.feasible": "nodes/layout queue/feasibility",
    "layout.gres_kinds": "nodes/layout",
    "layout.hres": "nodes/layout",
    "layout.hres_free": "queue/hres",
    "layout.hres_sets": "nodes/layout queue/hres",
    "layout.kept": "nodes/kept nodes/layout",
    "layout.license_kinds": "nodes/layout",
    "layout.license_totals": "nodes/layout",
    "layout.licenses": "nodes/layout",
    "layout.masks": "nodes/layout",
    "layout.masks.fences": "limits/node_limits",
    "layout.node_names": "nodes/layout",
    "layout.partition_cpus": "nodes/layout",
    "layout.placements": "nodes/layout queue/shapes",
    "layout.shapes_known.kinds": "queue/shapes",
    "layout.shapes_known.sized": "queue/shapes",
    "layout.switches_above": "nodes/layout",
    "layout.units_per_cpu": "nodes/layout",
    "limits.budgets.books": "limits/budgets",
    "limits.budgets.by_account": "limits/budgets",
    "limits.budgets.closed": "limits/budgets",
    "limits.budgets.dirty": "limits/budgets",
    "limits.budgets.freed": "lifecycle/budget_ends limits/budgets",
    "limits.budgets.known": "limits/budgets",
    "limits.budgets.of_job": "limits/budgets",
    "limits.budgets.rows": "limits/budgets",
    "limits.budgets.stale": "accounts/draft limits/budgets nodes/layout",
    "limits.budgets.waiting": "lifecycle/budget_ends limits/budgets",
    "limits.charged": "limits/charging queue/associations",
    "limits.due": "lifecycle/limit_changes limits/ages limits/ledger",
    "limits.ledger": "lifecycle/limit_changes",
    "limits.ledger.accruing": "lifecycle/limit_changes limits/ages",
    "limits.ledger.aging": "lifecycle/limit_changes limits/ages",
    "limits.ledger.armed": "lifecycle/limit_wake limits/checks",
    "limits.ledger.chains": "lifecycle/limit_changes",
    "limits.ledger.claims": "lifecycle/limit_wake",
    "limits.ledger.demands": "lifecycle/limit_changes limits/checks",
    "limits.ledger.entries": "limits/ledger",
    "limits.ledger.freed": "accounts/draft lifecycle/limit_wake limits/ledger",
    "limits.ledger.generation": "lifecycle/limit_changes",
    "limits.ledger.known": "lifecycle/limit_changes",
    "limits.ledger.known_qos": "lifecycle/limit_changes",
    "limits.ledger.moved": "lifecycle/limit_changes limits/ledger limits/node_limits",
    "limits.ledger.rules": "lifecycle/limit_changes limits/rules",
    "limits.ledger.started": "lifecycle/limit_changes lifecycle/limit_ends limits/ledger",
    "limits.ledger.sums_due": "accounts/draft limits/ledger",
    "limits.ledger.thresholds": "limits/ages",
    "limits.ledger.timers": "lifecycle/limit_ends lifecycle/limit_wake",
    "limits.ledger.waiting": "limits/checks",
    "limits.lending.borrowed": "limits/borrow passes/reclaim",
    "limits.lending.claims": "passes/reclaim",
    "limits.lending.is_on": "passes/reclaim",
    "limits.lending.reclaimers": "passes/reclaim",
    "limits.lending.stale": "accounts/draft nodes/layout passes/reclaim",
    "limits.lending.was_on": "passes/reclaim",
    "limits.mailed_limits": "jobs/mail",
    "node_columns": "nodes/layout",
    "node_columns.*": "nodes/layout",
    "node_list": "nodes/layout",
    "nodes": "nodes/layout",
    "now_us": "controller lifecycle/limit_changes",
    "outputs.dirty_accounts": "accounts/draft queue/associations",
    "outputs.dirty_assocs": "accounts/draft queue/associations",
    "outputs.dirty_events": "nodes/history",
    "outputs.dirty_qos": "accounts/draft queue/qos",
    "outputs.dirty_qos_usage": "accounts/draft lifecycle/limit_changes limits/ledger",
    "outputs.dirty_reservation_spans": "reservations/spans",
    "outputs.dirty_usage": "accounts/draft limits/charging limits/ledger queue/associations",
    "outputs.dirty_users": "accounts/draft",
    "outputs.history": "lifecycle/restored",
    "outputs.is_stored": "controller",
    "outputs.job_spans": "jobs/spans",
    "outputs.profile_bytes": "steps/profiles",
    "outputs.profiles": "steps/profiles",
    "outputs.new_specs": "requests/submit steps/creation",
    "partition_list": "nodes/layout",
    "partitions": "nodes/layout",
    "open_intervals.node_events": "nodes/history",
    "open_intervals.nodes_touched": "nodes/history",
    "open_intervals.reservation_spans": "reservations/spans",
    "open_intervals.reservations_touched": "reservations/spans",
    "pending": "nodes/layout",
    "pending.outside": "passes/queue_recovery",
    "pending.table.mask": "limits/node_limits",
    "pending.table.preempts": "queue/preemption",
    "pending.table.reserve": "limits/ages queue/resolve_association queue/whatif",
    "periodic.next_trigger_id": "lifecycle/triggers",
    "periodic.poll_at_us": "lifecycle/triggers",
    "periodic.rose": "lifecycle/triggers",
    "periodic.seen": "lifecycle/triggers",
    "preemption.classes": "queue/preemption",
    "preemption.preempting": "lifecycle/job_life passes/reclaim passes/victims",
    "preemption.turns.due_us": "passes/gang",
    "preemption.turns.last": "passes/gang",
    "preemption.turns.slot": "passes/gang",
    "preemption.within": "queue/preemption",
    "preemption.within_heads": "queue/preemption",
    "priorities": "queue/priority",
    "priorities.aging": "lifecycle/limit_changes",
    "priorities.at_us": "queue/priority",
    "priorities.highest_assoc": "queue/priority",
    "priorities.is_soon": "queue/priority queue/priority_timer",
    "priorities.points": "queue/priority",
    "priorities.scale": "queue/priority",
    "priority_generation": "queue/priority",
    "qos": "accounts/draft queue/qos",
    "rebooting": "nodes/reboot",
    "registry.dirty_resources": "accounts/draft",
    "registry.dirty_tres": "queue/tres",
    "registry.dirty_wckeys": "accounts/draft queue/wckeys",
    "registry.entities_changed": "accounts/draft lifecycle/limit_changes queue/associations queue/qos",
    "registry.own_accounts": "accounts/draft queue/associations",
    "registry.qos_deleted": "accounts/draft",
    "registry.resources": "accounts/draft queue/associations",
    "registry.tres_ids": "queue/associations queue/tres",
    "reserved.had_magnetic": "lifecycle/reservation_life",
    "reserved.nodes_due": "lifecycle/reservation_life",
    "reserved.view": "lifecycle/reservation_life reservations/view",
    "resizes": "lifecycle/resize",
    "running": "nodes/layout",
    "running.touched": "nodes/layout",
    "running.tracked": "nodes/layout",
    "scheduling.flagged": "passes/wait_reasons",
    "scheduling.forecast": "nodes/layout",
    "scheduling.full_pass_in_flight": "passes/schedule",
    "scheduling.full_pass_not_before_us": "nodes/layout passes/schedule",
    "scheduling.full_pass_revision": "passes/schedule",
    "scheduling.full_pass_timer_us": "passes/schedule",
    "scheduling.layout_revision": "nodes/layout",
    "scheduling.policy": "nodes/layout",
    "scheduling.quick_pass_due": "passes/schedule",
    "scheduling.reason_backlog": "nodes/layout passes/wait_reasons",
    "scheduling.reason_backlog.newer": "passes/wait_reasons",
    "scheduling.reason_backlog.written": "passes/wait_reasons",
    "scheduling.reasons_timer": "passes/wait_reasons",
    "scheduling.rows_seen": "passes/schedule",
    "shares.about": "accounts/draft queue/associations",
    "shares.by_id": "accounts/draft",
    "shares.coordinator_of": "accounts/draft queue/associations",
    "shares.decay": "queue/associations",
    "shares.default_accounts": "accounts/draft queue/associations",
    "shares.gone": "accounts/draft queue/associations",
    "shares.gone_accounts": "accounts/draft queue/associations",
    "shares.gone_people": "accounts/draft",
    "shares.next_id": "accounts/draft queue/associations",
    "shares.people": "accounts/draft",
    "shares.by_user": "accounts/draft",
    "shares.wckeys": "accounts/draft queue/associations queue/wckeys",
    "steps.by_job": "steps/creation",
    "steps.creation_calls": "steps/creation",
    "steps.due": "steps/creation",
    "steps.master_ports": "jobs/ports",
    "steps.port_waiters": "steps/creation",
    "steps.ports": "jobs/ports",
    "steps.prologs": "jobs/prolog_state nodes/extern_steps",
    "submissions.accepted": "requests/submit",
    "submissions.completed": "requests/submit",
    "submissions.key_times": "requests/submit",
    "submissions.keys": "requests/submit",
}
#: field of a record -> who writes it; a record is made by who is named for its id
RECORD_OWNERS = {
    "ArrayRecord.array_job_id": "jobs/arrays",
    "ArrayRecord.began": "jobs/arrays jobs/mail",
    "ArrayRecord.exit_code": "jobs/arrays",
    "ArrayRecord.exit_signal": "jobs/arrays",
    "ArrayRecord.facts": "jobs/arrays",
    "ArrayRecord.failed": "jobs/arrays",
    "ArrayRecord.unsplit": "jobs/arrays",
    "ArrayRecord.members": "jobs/arrays",
    "ArrayRecord.ok": "jobs/arrays",
    "ArrayRecord.pending": "jobs/arrays",
    "ArrayRecord.running": "jobs/arrays",
    "ArrayRecord.total": "jobs/arrays",
    "ArrayRecord.waiting": "jobs/arrays",
    "Assoc.<any>": "accounts/draft",
    "Assoc.at_us": "accounts/draft queue/associations",
    "Assoc.budget": "queue/associations",
    "Assoc.children": "accounts/draft",
    "Assoc.created_at_us": "accounts/draft queue/associations",
    "Assoc.default_qos": "queue/associations",
    "Assoc.limits": "queue/associations",
    "Assoc.made_by_itself": "queue/associations",
    "Assoc.parent": "accounts/draft",
    "Assoc.partition": "accounts/draft queue/associations",
    "Assoc.priority": "queue/associations",
    "Assoc.qos": "queue/associations",
    "Assoc.rate": "queue/associations",
    "Assoc.shares": "queue/associations",
    "Assoc.spent": "accounts/draft lifecycle/limit_changes limits/ledger queue/associations",
    "Assoc.usage": "accounts/draft queue/associations",
    "Assoc.user_name": "accounts/draft",
    "Batch.*": "batch",
    "Batch.outbox": "ctld/delivery/outbox",
    "BudgetBook.due_us": "lifecycle/budget_ends limits/budgets",
    "BudgetBook.end_us": "limits/budgets",
    "CallOwner.seen_at_us": "lifecycle/allocations",
    "Job.admin_comment": "lifecycle/gpu_jobs requests/update_keys",
    "Job.alloc": "lifecycle/gpu_jobs lifecycle/job_life",
    "Job.array_job_id": "requests/submit",
    "Job.array_task_id": "jobs/arrays",
    "Job.array_tasks": "jobs/arrays requests/submit",
    "Job.array_throttle": "requests/submit requests/update_keys",
    "Job.assoc_id": "queue/associations requests/submit",
    "Job.attempt": "lifecycle/job_life lifecycle/restored",
    "Job.batch_node": "lifecycle",
    "Job.borrowed": "lifecycle/job_life limits/borrow passes/reclaim",
    "Job.cancelled_by_uid": "lifecycle/job_life",
    "Job.completing_at_us": "clock lifecycle/job_life",
    "Job.dependency": "lifecycle/depends lifecycle/job_life",
    "Job.derived_code": "jobs/outcome lifecycle/job_life",
    "Job.derived_signal": "jobs/outcome lifecycle/job_life",
    "Job.eligible_at_us": "lifecycle requests",
    "Job.end_at_us": "lifecycle/job_life",
    "Job.end_state": "lifecycle/job_life",
    "Job.exit_code": "jobs/outcome lifecycle/job_life",
    "Job.exit_signal": "jobs/outcome lifecycle/job_life",
    "Job.failed_attempts": "jobs/outcome",
    "Job.failed_node": "jobs/outcome",
    "Job.group_id": "requests/submit",
    "Job.group_name": "requests/submit",
    "Job.hold": "jobs/holds requests/submit",
    "Job.job_id": "jobs/arrays requests/submit",
    "Job.licenses_alloc": "lifecycle/job_life",
    "Job.partition": "lifecycle/job_life requests",
    "Job.preempt_at_us": "clock lifecycle/job_life passes/victims",
    "Job.preempt_end_at_us": "clock lifecycle/job_life passes/victims",
    "Job.preemptor_id": "lifecycle/job_life lifecycle/suspend passes/victims",
    "Job.priority": "lifecycle/job_life queue/priority requests/het_submit",
    "Job.reason": "lifecycle",
    "Job.reason_detail": "jobs/holds jobs/outcome lifecycle/job_life",
    "Job.request": "diagnose/hints requests/submit",
    "Job.request_id": "requests/submit",
    "Job.resized_at_us": "lifecycle/job_life lifecycle/resize",
    "Job.spec_hash": "requests/submit",
    "Job.start_at_us": "clock lifecycle/job_life lifecycle/restored",
    "Job.state": "lifecycle/job_life",
    "Job.steps": "jobs/arrays jobs/prolog_state lifecycle/job_life steps/creation",
    "Job.stopped": "lifecycle/job_life requests/control",
    "Job.submit_at_us": "requests/submit",
    "Job.submit_key": "jobs/arrays requests/het_submit requests/submit",
    "Job.suspended_at_us": "clock lifecycle/job_life lifecycle/suspend",
    "Job.suspended_by": "lifecycle/job_life lifecycle/suspend",
    "Job.suspended_us": "lifecycle/job_life lifecycle/suspend",
    "Job.time_limit_s": "diagnose/hints lifecycle/job_life passes/schedule requests/submit requests/update_keys",
    "Job.trace_one_in": "requests/submit",
    "Job.tres_alloc": "lifecycle/job_life lifecycle/resize passes/gpu_idle",
    "Job.tres_req": "requests/submit requests/update",
    "Job.user_id": "requests/submit",
    "Job.user_name": "requests/submit",
    "JobStepTable.pending": "steps/creation",
    "LimitBook.accruing": "limits/ledger",
    "LimitBook.end_due_us": "lifecycle/limit_ends",
    "LimitBook.spent": "lifecycle/limit_changes limits/ledger",
    "LimitBook.submitted": "limits/ledger",
    "LimitQueue.due_us": "lifecycle/limit_wake",
    "LimitQueues.queues": "lifecycle/limit_wake",
    "Mix.*": "queue/gpu_sharing",
    "Node.arch": "nodes/layout nodes/life",
    "Node.boot_at_us": "nodes/layout nodes/life",
    "Node.boot_id": "nodes/life",
    "Node.comment": "nodes/admin",
    "Node.config": "nodes/layout",
    "Node.connected": "nodes/layout nodes/life",
    "Node.cpus": "nodes/layout",
    "Node.cpus_alloc": "nodes/layout",
    "Node.cpus_used": "nodes/layout",
    "Node.cuda_version": "nodes",
    "Node.exited": "nodes/layout nodes/life",
    "Node.extra": "nodes/admin nodes/life",
    "Node.features": "nodes/layout",
    "Node.flags": "nodes",
    "Node.gpu_closed": "gpus/inventory nodes/layout",
    "Node.gpu_constraint": "nodes/layout nodes/life",
    "Node.gpu_driver": "nodes",
    "Node.gpu_shares": "nodes/layout",
    "Node.gpu_single": "gpus/inventory nodes/layout",
    "Node.gpu_slots": "gpus/inventory nodes/layout",
    "Node.gpu_suspect": "gpus/inventory nodes/layout",
    "Node.gpu_why": "nodes",
    "Node.gpus": "gpus/inventory nodes/layout",
    "Node.gpus_at_us": "nodes/layout nodes/life",
    "Node.gres_used": "lifecycle/gpu_jobs nodes/layout",
    "Node.index": "nodes/layout",
    "Node.inside": "gpus/inventory nodes/layout",
    "Node.instance_id": "nodes/admin nodes/life",
    "Node.instance_type": "nodes/admin nodes/life",
    "Node.jobs": "nodes/layout",
    "Node.leftovers": "nodes/layout nodes/life",
    "Node.link_id": "nodes/layout nodes/life",
    "Node.lost_at_us": "clock nodes/layout nodes/life",
    "Node.lost_link_id": "nodes/layout nodes/life",
    "Node.low": "nodes",
    "Node.mem_alloc_mb": "nodes/layout",
    "Node.name": "nodes/layout",
    "Node.nvml_version": "nodes",
    "Node.os": "nodes/layout nodes/life",
    "Node.pretended": "nodes/layout nodes/life",
    "Node.real_memory_mb": "nodes/layout",
    "Node.reason": "nodes/node_reason",
    "Node.reason_at_us": "nodes/node_reason",
    "Node.reason_uid": "nodes/node_reason",
    "Node.resume_after_us": "nodes/admin",
    "Node.spool_id": "nodes/life",
    "Node.started_at_us": "nodes/layout nodes/life",
    "Node.stream_port": "nodes/layout nodes/life",
    "Node.stream_tls": "nodes/layout nodes/life",
    "Node.usage_doubted": "nodes/layout steps/life",
    "Node.version": "nodes/life",
    "Node.weight": "nodes/layout",
    "Partition.config": "diagnose/reload_effects nodes/layout",
    "Partition.name": "diagnose/reload_effects nodes/layout",
    "Partition.node_bits": "nodes/layout",
    "Partition.state": "diagnose/reload_effects nodes/admin nodes/layout",
    "PendingStep.*": "steps/creation",
    "Resize.terminated": "lifecycle/resize",
    "ResizeCall.jobs": "lifecycle/resize",
    "ResizeCall.reply_to": "requests/update",
    "ResizeCall.results": "lifecycle/resize requests/update",
    "Spent.amounts": "accounts/draft",
    "Spent.at_us": "accounts/draft",
    "Spent.decays": "lifecycle/limit_changes limits/ledger",
    "Spent.rates": "lifecycle/limit_changes",
    "SpreadStep.all_parts": "jobs/prolog_state lifecycle/suspend steps/creation steps/parts",
    "SpreadStep.cancelled_by_uid": "steps/life",
    "SpreadStep.cpus": "steps/creation",
    "SpreadStep.live": "jobs/prolog_state steps/creation steps/parts",
    "SpreadStep.node_list": "jobs/prolog_state steps/creation",
    "SpreadStep.nodes": "jobs/prolog_state steps/creation",
    "SpreadStep.ports": "jobs/ports",
    "SpreadStep.request": "steps/creation",
    "SpreadStep.spec_hash": "steps/creation",
    "SpreadStep.step_key": "steps/creation",
    "SpreadStep.submit_at_us": "jobs/prolog_state steps/creation",
    "SpreadStep.task_ends": "steps/parts",
    "SpreadStep.time_limit_s": "requests/update_steps steps/creation",
    "SpreadStep.tres_alloc": "steps/creation",
    "Step.dead_after_s": "lifecycle/step_orders nodes/life",
    "Step.disk_read_bytes": "steps/life steps/parts",
    "Step.disk_write_bytes": "steps/life steps/parts",
    "Step.end_at_us": "steps/life steps/parts",
    "Step.exit_code": "steps/life steps/parts",
    "Step.exit_signal": "steps/life steps/parts",
    "Step.max_rss_kb": "steps/life steps/parts",
    "Step.max_vmsize_kb": "steps/life steps/parts",
    "Step.start_at_us": "steps/life steps/parts",
    "Step.state": "steps/life",
    "Step.system_cpu_us": "steps/life steps/parts",
    "Step.usage": "steps/life steps/parts",
    "Step.user_cpu_us": "steps/life steps/parts",
}


def writers() -> dict[str, dict[str, int]]:
    """By what is written: module -> a line that does."""
    found: dict[str, dict[str, int]] = {}
    for path in tree.sources("ctld"):
        whole = tree.name_of(path)
        name = whole.removeprefix("ctld/core/").removesuffix(".py")
        if name.startswith(OWNS_ALL):
            continue
        for write in writes(tree.tree_of(path), whole.startswith("ctld/core/")):
            found.setdefault(write.what, {}).setdefault(name, write.line)
    return found


def row_of(what: str, owners: dict[str, str]) -> str:
    """The row of the table for an attribute: its own, or that of its class."""
    whole = f"{what.rpartition('.')[0]}.*"
    return what if what in owners or whole not in owners else whole


def judge(found: dict[str, dict[str, int]], owners: dict[str, str]) -> list[str]:
    """Strangers that write, and owners that do not."""
    bad = []
    there: dict[str, set[str]] = {}
    for what, modules in sorted(found.items()):
        row = row_of(what, owners)
        there.setdefault(row, set()).update(*((module, module.split("/")[0]) for module in modules))
        allowed = owners.get(row, "").split()
        strangers = {m: line for m, line in modules.items() if m not in allowed and m.split("/")[0] not in allowed}
        bad += [f"{module}.py:{line} writes {what}, owned by {allowed}" for module, line in strangers.items()]
    for what, words in owners.items():
        bad += [
            f"{what}: {word} does not write it any more" for word in words.split() if word not in there.get(what, ())
        ]
    return bad


def test_only_owners_write() -> None:
    assert judge(writers(), STATE_OWNERS | RECORD_OWNERS | UNKNOWN_RECEIVERS) == []


def found_in(body: str) -> list[str]:
    """What a function writes that has these arguments and this body."""
    lines = [f"    {line}" for line in body.split("; ")]
    head = "def f(state: ClusterState, core: Core, jobs: dict[int, Job], node: Node, other: object, thing) -> None:"
    return [write.what for write in writes(ast.parse("\n".join((head, *lines))))]


WRITES = {
    # parts of the state
    "state.limits.due[1] = None": ["limits.due"],
    "state.next_job_id += 1": ["next_job_id"],
    "del state.jobs[1]": ["jobs"],
    "state.outputs.history.append(1)": ["outputs.history"],
    "steps, gone = state.steps, 1; steps.ports.setdefault('n1', {})[1] = None": ["steps.ports"],
    "due = state.limits.due; due[1] = None": ["limits.due"],
    "s = core.state; s.next_job_id = 4": ["next_job_id"],
    "thing.active_count = 4": ["active_count"],
    "ledger = core.state.limits.ledger; ledger.aging.clear()": ["limits.ledger.aging"],
    "state.pending.table.reserve[1] = 1": ["pending.table.reserve"],
    "table = state.pending.table; table.reserve[1] = 1": ["pending.table.reserve"],
    # records, whatever the receiver
    "jobs[1].reason, node.flags = 1, 2": ["Node.flags", "Job.reason"],
    "for one in jobs.values(): one.reason = 1": ["Job.reason"],
    "for one in state.shares.by_id.values(): one.usage = 5": ["Assoc.usage"],
    "leader = state.jobs[1]; leader.priority = 7": ["Job.priority"],
    "state.jobs[1].priority = 3": ["Job.priority"],
    "state.nodes['n1'].flags = 2": ["Node.flags"],
    "state.nodes.get('n1').flags |= 2": ["Node.flags"],
    "thing.time_limit_s = thing.hold = 1": ["Job.hold", "?.time_limit_s"],
    "thing().node_bits = 1": ["Partition.node_bits"],
    "thing[1].members[2] = 1": ["ArrayRecord.members"],
    "next(iter(jobs.values())).state = 1": ["Job.state"],
    "for number, one in enumerate(sorted(jobs.values())): one.state = number": ["Job.state"],
    "[one] = [job for job in jobs.values()]; one.state = 1": ["Job.state"],
    "one = state.jobs.get(1) or state.jobs[2]; one.state = 1": ["Job.state"],
    "del jobs[1].steps": ["Job.steps"],
    "jobs[1].steps[2].state = 1": ["Step.state"],
    "setattr(jobs[1], 'priority', 1)": ["Job.priority"],
    "setattr(jobs[1], other, 1)": ["Job.<any>"],
    "object.__setattr__(thing, 'alloc', 1)": ["Job.alloc"],
    "for jobs[1].priority in (1, 2): pass": ["Job.priority"],
    "draft.set(state.shares.root, 'usage', 1); draft.put(state.shares.about, 1, 2)": ["Assoc.usage", "shares.about"],
    # several have such an attribute, and whose this one is is not known
    "thing.state = 1": ["?.state"],
    "for one in thing: one.reason = 1": ["?.reason"],
    "setattr(thing, other, 1)": ["?.<any>"],
    # no writes
    "state.pending.remove(1); state.timers.set(1, 2)": [],
    "seen = state.next_job_id": [],
    "mine = {}; mine['state'] = 1": [],
}


@pytest.mark.parametrize("body", WRITES)
def test_the_check_sees_what_it_should(body: str) -> None:
    assert sorted(found_in(body)) == sorted(WRITES[body])


def test_outside_of_the_core_only_certain_receivers_count() -> None:
    source = ast.parse("def f(job: Job, info) -> None:\n    job.hold = 1\n    info.hold = 1\n")
    assert list(writes(source, is_core=False)) == [Write("Job.hold", 2)]


def test_writes_to_the_state_are_those_without_records() -> None:
    source = ast.parse("def f(state, job: Job) -> None:\n    job.hold = 1\n    state.next_job_id = 1\n")
    assert list(state_writes(source)) == [Write("next_job_id", 3)]


def test_all_records_and_parts_are_known() -> None:
    """A record that is forgotten would be written by anybody."""
    known = owned()
    assert {"Assoc", "BudgetBook", "Job", "LimitBook", "Node", "PendingStep", "Spent", "SpreadStep"} <= {*known.classes}
    assert (known.paths["ClusterState"], known.paths["LimitLedger"]) == ("", "limits.ledger")


def test_judge_names_strangers_and_words_that_are_not_true_any_more() -> None:
    found = {"jobs": {"queue/qos": 7, "steps/life": 9}, "Batch.epoch": {"batch": 3}}
    owners = {"jobs": "steps queue", "Batch.*": "batch"}
    assert judge(found, owners | {"jobs": "steps"}) == ["queue/qos.py:7 writes jobs, owned by ['steps']"]
    assert judge(found, owners | {"nodes": "gpus"}) == ["nodes: gpus does not write it any more"]
    assert judge(found, owners | {"Batch.*": "settle"}) == [
        "batch.py:3 writes Batch.epoch, owned by ['settle']",
        "Batch.*: settle does not write it any more",
    ]
