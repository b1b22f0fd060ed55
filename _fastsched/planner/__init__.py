"""The compiled planner, in modules. The rules are in contract.py; this page explains what makes it fast.

A `.pxd` declares the records of a part and contains what has to be inlined into others; the `.pyx` of the same name does
the work. Each cimports only those above it in this list, or in its own line:

- basics, columns, events (only `.pxd`): arithmetic, the input as C sees it, a heap.
- memory: chunks that live as long as the pass; one is kept for the next pass. Nothing else is kept between calls.
- timeline: a node's time as segments of equal use. A planned job adds at most two segments.
- gaps: intervals in order of their start, in blocks that store the maximum length of theirs.
- records (only `.pxd`): all records of a pass; `PlanPass` holds them.
- demand (only `.pxd`): what a job needs on one node.
- load: prepares a row.
- nodetime: a node's time, built when the node is first needed. Reservations are views: the time of a node as the
  members of one see it. Licenses are one more node, which has them as GRES.
- leaves: leaf switches that a job has for itself alone; nothing is done for them in a pass without such rows.
- firstgaps: the gaps of a new shape, moved to where nodes are first free.
- shapes: rows with the same demand on a node share its gaps, the intervals in which it may be free. Nodes only fill up
  during a pass, so a gap only shrinks; it is compared with the node's time when a search reaches it: a change is read
  once a shape, however long the plan is. Victims of preemption reset the gaps of their nodes.
- candidates, topology, choose: the nodes, at a known time: the first that suffice, where only node order matters; else
  all candidates, sorted.
- earliest_single, earliest_several, earliest: the start. One node: the first gap that is long enough. Several: a sweep
  over the gaps in order of their start; nodes are tested only when enough may be free at once.
- assign: books and records what a job takes.
- preempt: which running jobs are preempted; rare, and simply rebuilds nodes.
- outcome: the reason of a row that waits.
- heterogeneous, rows: the course of a pass: copies, alternatives, components.
- prepare, input: from Python's records to the first tables.

_fastsched/plan.pyx is the one entry point. All decisions are made in its one `with nogil` block, on C arrays. No overflow:
tasks are bounded by ntasks (int32), sums are int64, amounts are divided before they are multiplied.

A call from one module into another goes through a pointer, which costs about a nanosecond, and is not inlined. So code
that runs for each segment of a timeline, or each bit of a mask, is inline; only work on a whole node or row crosses modules.
"""
