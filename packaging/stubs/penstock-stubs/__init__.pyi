"""The public names, for type checkers; at run time penstock/__init__.py looks them up. A partial stub: the rest is inline."""

from penstock.errors import NotProven as NotProven
from penstock.errors import PenstockError as PenstockError
from penstock.errors import Unreachable as Unreachable
from sdk.aio import AsyncCluster as AsyncCluster
from sdk.aio import AsyncJobHandle as AsyncJobHandle
from sdk.cluster import Cluster as Cluster
from sdk.cluster import JobHandle as JobHandle
from sdk.errors import (
    InvalidRequest as InvalidRequest,
)
from sdk.errors import (
    JobFailed as JobFailed,
)
from sdk.errors import (
    JobNotFound as JobNotFound,
)
from sdk.errors import (
    NotPermitted as NotPermitted,
)
from sdk.errors import (
    RequestRefused as RequestRefused,
)
from sdk.errors import (
    WaitTimeout as WaitTimeout,
)
from sdk.errors import (
    WillNotRun as WillNotRun,
)
from sdk.executor import ClusterExecutor as ClusterExecutor
from sdk.functioncall import FunctionFailed as FunctionFailed
from sdk.options import JobOptions as JobOptions
from sdk.output import OutputNotHere as OutputNotHere
from sdk.records import ChangeRecord as ChangeRecord
from sdk.records import ExpectedStart as ExpectedStart
from sdk.records import JobRecord as JobRecord
from sdk.records import NodeRecord as NodeRecord
from sdk.records import UsageRecord as UsageRecord
from sdk.records import WaitReasons as WaitReasons

__version__: str
SLURM_VERSION: str
PUBLIC: dict[str, str]
