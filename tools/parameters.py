"""Writes docs/parameters.md: every parameter of every configuration file, from the tables that reading uses.

Run it after a change of penstock/config/keys.py, notused.py or words.py; a tidy test compares.
"""

import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from penstock.config.keys import CGROUP, CONTAINER, GLOBALS, GRES, NODES, PARTITIONS, TOPOLOGY, Key, Table  # noqa: E402
from penstock.config.sidefiles import SLURMDBD  # noqa: E402
from penstock.config.words import WORDS  # noqa: E402
from penstock.values.config import CgroupConfig, Config, NodeConfig, PartitionConfig  # noqa: E402

PAGE = ROOT / "docs" / "parameters.md"
_HEAD = """\
# Every parameter

Made by `tools/parameters.py` from the tables that the reader uses; [configuration](configuration.md) explains how they are read.
`penstock config check --explain FILE` says the same of the parameters of one file, `--json` for programs.
"""
_RECORDS: dict[str, object] = {
    "": Config(),
    "NodeName": NodeConfig(name="", hostname="", addr="", cpus=1),
    "PartitionName": PartitionConfig(name="", nodes=()),
    "cgroup.conf": CgroupConfig(),
}
_TITLES = (
    (GLOBALS, "slurm.conf: the cluster"), (NODES, "slurm.conf: NodeName lines"),
    (PARTITIONS, "slurm.conf: PartitionName lines"), (GRES, "gres.conf"), (CGROUP, "cgroup.conf"),
    (TOPOLOGY, "topology.conf"), (CONTAINER, "job_container.conf"), (SLURMDBD, "slurmdbd.conf"),
)  # fmt: skip


def page() -> str:
    """The whole page."""
    lines = [_HEAD]
    for table, title in _TITLES:
        lines += _table(table, title)
    lines += [
        "## Words of lists of parameters",
        "",
        "Those that have a meaning, and after them those that have none.",
        "",
    ]
    for key, words in WORDS.items():
        done = [f"`{word}`" for word, why in sorted(words.items()) if not why]
        lines += [f"### {key}", "", f"{', '.join(done) or 'None'}.", ""]
        lines += ["| word | here |", "|---|---|"]
        lines += [f"| `{word}` | {why} |" for word, why in sorted(words.items()) if why]
        lines.append("")
    return "\n".join(lines)


def _table(table: Table, title: str) -> Iterator[str]:
    used = sorted((key for key in table.keys if key.kind is not None), key=lambda key: key.name.lower())
    unused = sorted((key for key in table.keys if key.kind is None), key=lambda key: key.name.lower())
    yield from (f"## {title}", "")
    if used:
        yield from ("Read:", "", "| parameter | default |", "|---|---|")
        yield from (f"| `{key.name}` | {_default(table, key)} |" for key in used)
        yield ""
    if unused:
        yield from ("Known and not used:", "", "| parameter | in Slurm | here |", "|---|---|---|")
        yield from (f"| `{key.name}` | {key.does} | {key.why} |" for key in unused)
        yield ""


def _default(table: Table, key: Key) -> str:
    record = _RECORDS.get(table.what)
    names = {item.name for item in fields(record)} if record is not None else set()  # type: ignore[arg-type]
    if key.field not in names or key.kind is None:
        return ""
    value = getattr(record, key.field)
    text = "" if value is None else key.kind.write(value)
    return f"`{text}`" if text else ""


def main() -> int:
    """Write the page."""
    PAGE.write_text(page())
    print(f"{PAGE} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
