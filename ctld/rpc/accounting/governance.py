"""The Governance service, assembled from one part for each topic."""

from ctld.rpc.accounting.counters import CountersService
from ctld.rpc.accounting.endedjobs import EndedJobs
from ctld.rpc.accounting.entities import Entities
from ctld.rpc.accounting.reports import Reports
from ctld.rpc.accounting.traces import TraceService


class GovernanceService(Entities, CountersService, EndedJobs, Reports, TraceService):
    """All methods of the service."""
