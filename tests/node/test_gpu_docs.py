"""docs/gpu.md shows the policy as it is: its table is compared with gpupolicy.py, or rewritten with PENSTOCK_BLESS=1."""

import os
from pathlib import Path

from nodedaemon.core.gpuhealth_messages import Action
from nodedaemon.core.gpupolicy import ROWS, NodeToo, PolicyRow, XidClass
from nodedaemon.gpu.xids import table
from penstock.values.gpustates import GpuState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gpu.md"
BEGIN, END = "<!-- policy: made from nodedaemon/core/gpupolicy.py -->", "<!-- end of policy -->"
HEAD = ("signal", "severity", "GPU", "node", "jobs on it", "cleared by")
JOBS = {Action.NONE: "-", Action.NOTE: "notified", Action.MARK: "marked", Action.END: "ended, requeued elsewhere"}
NODES = {
    NodeToo.NEVER: "-",
    NodeToo.ALWAYS: "drained",
    NodeToo.LOST: "drained with NVSwitches, by PenstockGpuLostDrainsNode, or when no GPU is left",
    NodeToo.HALF: "drained when more than half of its GPUs are",
    NodeToo.STUCK: "drained after UnkillableStepTimeout",
}


def cells(row: PolicyRow) -> tuple[str, ...]:
    """A row as the page shows it."""
    gpu = row.state.name if row.state is not GpuState.HEALTHY else "-"
    jobs = JOBS[row.action]
    if row.single is not None:
        jobs = f"{jobs}; with one GPU {JOBS[row.single]}"
    if row.end_after_us:
        jobs = f"{jobs}; after {row.end_after_us // 3_600_000_000} hour ended"
    gpu = f"{gpu} for jobs with several GPUs" if row.many_only else gpu
    return row.signal, row.severity.value, gpu, NODES[row.node], jobs, row.over


def lines() -> str:
    """The table, and which XIDs are of which class."""
    rows = [HEAD, ("---",) * len(HEAD), *map(cells, ROWS)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    classes = table()
    found = {class_: sorted(xid for xid, named in classes.items() if named is class_) for class_ in XidClass}
    xids = [f"| {class_} | {', '.join(map(str, xids))} |" for class_, xids in found.items() if xids]
    return "\n".join([BEGIN, text, "", "| class of XIDs | numbers |", "|---|---|", *xids, END])


def test_the_page_shows_the_policy() -> None:
    page = PAGE.read_text()
    assert page.count(BEGIN) == page.count(END) == 1
    before, rest = page.split(BEGIN)
    shown, after = rest.split(END)
    if os.environ.get("PENSTOCK_BLESS") == "1":
        PAGE.write_text(before + lines() + after)
        return
    assert BEGIN + shown + END == lines(), "run this test with PENSTOCK_BLESS=1 and read the diff"
