"""How a job shares its nodes, in the words of Slurm 26.05: what it keeps for itself, and whether its CPUs are shared."""


def exclusive_word(topo: bool, user: bool, mcs: bool, node: bool) -> str:
    """Returns the value of Exclusive for what a job has for itself: its leaves, nodes with its user's or label's jobs
    alone, its nodes."""
    return next((word for given, word in ((topo, "TOPO"), (user, "USER"), (mcs, "MCS"), (node, "NODE")) if given), "NO")


def oversubscribe_word(is_alone: bool, agreed: bool | None) -> str:
    """Returns the value of OverSubscribe for a job. `agreed`: --oversubscribe; None = the job says nothing."""
    if is_alone or agreed is False:
        return "NO"
    return "YES" if agreed else "OK"
