"""The Governance service: its parts stand where what they answer for does."""

from ctld.rpc.counters import CountersService
from ctld.rpc.endedjobs import EndedJobs
from ctld.rpc.entities import Entities
from ctld.rpc.reports import Reports
from ctld.rpc.traces import Traces


class GovernanceService(Entities, CountersService, EndedJobs, Reports, Traces):
    """All methods of the service."""
