"""SLURM_HOSTFILE: a file of nodes, one for each task in their order. It is read unless nodes are named by an option, and
the distribution is then arbitrary. The same rules of counting apply to `--distribution=arbitrary --nodelist=...`.
"""

from collections.abc import Mapping

from cli.base.options import OptionValues, WholeText
from cli.base.run import CommandError
from cli.jobs.jobwords import node_file
from penstock.values.errors import BadValue

VARIABLE = "SLURM_HOSTFILE"
ARBITRARY = "arbitrary"


def apply_hostfile(values: OptionValues, env: Mapping[str, str]) -> None:
    """Takes nodes and distribution from the file, and the numbers of tasks and nodes from the nodes, unless given."""
    path = env.get(VARIABLE)
    if path and "nodelist" not in values:
        values["nodelist"] = ",".join(_read(path)[: _count(values)])
        values["distribution"] = ARBITRARY
    if is_arbitrary(values) and "nodelist" in values:
        from penstock.values.hostlist import expand

        names = expand(values.text("nodelist"))
        values.setdefault("ntasks", len(names))
        values.setdefault("nodes", (len(set(names)),) * 2)


def is_arbitrary(values: OptionValues) -> bool:
    """Whether the tasks go to the nodes of --nodelist, one each, in their order."""
    return values.text("distribution").lower().startswith(ARBITRARY)


def _count(values: OptionValues) -> int | None:
    """How many nodes of the file are meant; None = all."""
    if "ntasks" in values:
        return values.number("ntasks")
    return values.numbers("nodes")[1] if "nodes" in values else None


def _read(path: str) -> list[str]:
    try:
        from penstock.values.hostlist import expand

        return expand(node_file(path))
    except (BadValue, WholeText) as error:
        raise CommandError(
            "Failure getting NodeNames from hostfile", detail=f"{VARIABLE}: {str(error).splitlines()[0]}"
        ) from error
