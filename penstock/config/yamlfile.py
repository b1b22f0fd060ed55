"""Reads a YAML file beside slurm.conf. What is wrong with it is an error with the file's name."""

from typing import Final

from penstock.boundedfile import read_bounded
from penstock.config.problem import Findings, Where

#: Large enough for any site's list of nodes.
FILE_BYTES_MAX: Final = 8 * 1024 * 1024


def read_yaml(path: str, where: Where, findings: Findings) -> object:
    """Returns the contents; None with an error in `findings`, or for an empty file."""
    import yaml  # only sites with such a file need it

    try:
        return yaml.safe_load(read_bounded(path, FILE_BYTES_MAX))
    except OSError as problem:
        findings.error(where, f"cannot be read: {problem.strerror or problem}")
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as problem:
        findings.error(where, f"is not YAML: {' '.join(str(problem).split())}")
    return None
