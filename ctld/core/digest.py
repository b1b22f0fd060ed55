"""A digest of all state on which decisions depend: equal histories have equal digests. For tests and the flight
recorder."""

import hashlib

import msgspec

from ctld.core.records.job import job_row
from ctld.core.records.node import node_row
from ctld.core.records.step import step_row
from ctld.core.state.state import ClusterState


def digest(state: ClusterState) -> str:
    """Hashes the tables on which later decisions depend."""
    h = hashlib.sha256()
    encode = msgspec.json.Encoder(enc_hook=str).encode
    for job in state.jobs.records():
        h.update(encode(job_row(job)))
        for step in job.steps.values():
            h.update(encode(step_row(step)))
    for _, assoc in sorted(state.shares.by_id.items()):
        h.update(encode((assoc.row(), assoc.usage_row(), assoc.rate)))
    if state.limits.ledger is not None:
        h.update(
            encode([(key, book.counts()) for key, book in state.limits.ledger.books.items() if not book.is_empty()])
        )
    for node in state.node_list:
        h.update(encode((node_row(node), node.cpus_alloc, node.mem_alloc_mb, sorted(node.jobs))))
    for reservation in state.reservations.values():
        h.update(encode(reservation))
    h.update(encode((list(state.periodic.crontabs.values()), list(state.periodic.triggers.values()))))
    h.update(
        encode(
            (
                state.next_job_id,
                state.next_request_id,
                state.epoch,
                sorted(state.dependencies.waiting_for),
                list(state.dependencies.changed),
                len(state.timers),
            )
        )
    )
    h.update(
        encode(
            [
                (i, table.next_id, list(table.pending), sorted(table.used.items()))
                for i, table in state.steps.by_job.items()
            ]
        )
    )
    h.update(encode([(i, o.seen_at_us, list(o.calls)) for i, o in state.calls.owners.items()]))
    return h.hexdigest()
