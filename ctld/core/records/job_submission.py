"""A submission as received, before it is interpreted. The resulting request is `JobRequest` (request.py)."""

from ctld.core.records.request_fields import RequestFields


class JobSubmission(RequestFields, frozen=True, gc=False, cache_hash=True):
    """A submission's fields as received on the wire, with sizes checked. None, 0 and "" = not given."""

    work_dir: bytes = b""
    nodes_min: int = 0
    nodes_max: int = 0
    ntasks: int = 0
    cpus_per_task: int = 0
    nodes_required: str = ""
    nodes_excluded: str = ""
    hold: bool = False
    requeue: bool | None = None
    propagate_asked: bool = False  # --propagate was given, so that the site's limits are ignored
    open_truncate: bool = False  # --open-mode=truncate was given
    kind: int = 0  # penstock.values.jobkind.JobKind
    run_as_uid: int | None = None
    run_as_gid: int | None = None
