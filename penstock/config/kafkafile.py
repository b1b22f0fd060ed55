"""The file of JobCompLoc for jobcomp/kafka: properties of librdkafka, as Slurm reads them. Read by the controller, checked by
`penstock config check`.

    # comment
    bootstrap.servers=kafka1:9092,kafka2:9092
    security.protocol=ssl

It may hold passwords, and name files and libraries that librdkafka loads: it belongs to root, SlurmUser or the process's own
user, who alone can write it, and with a password nobody else can read it.
"""

import re
from importlib.util import find_spec
from typing import Final

from penstock.config.sitefile import SiteFileError, decoded, read_site_file
from penstock.values.config import Config

FILE_BYTES_MAX: Final = 64 * 1024
#: What the package of the extra is imported as.
MODULE: Final = "confluent_kafka"
NEEDED: Final = "jobcomp/kafka needs confluent-kafka: pip install 'penstock[kafka]'"
SERVERS: Final = ("bootstrap.servers", "metadata.broker.list")
_NAME: Final = re.compile(r"[a-z0-9_.]{1,128}")
_SECRETS: Final = re.compile(r"password|secret|\.pem$|jaas")


def read_properties(path: str, slurm_user: str) -> dict[str, str]:
    """Returns the properties of the file. Raises SiteFileError."""
    data, mode = read_site_file(path, slurm_user, FILE_BYTES_MAX)
    properties = parse_properties(decoded(data, path), path)
    if mode & 0o077 and (secret := next(filter(_SECRETS.search, properties), "")):
        raise SiteFileError(f"{path}: others than its owner can read it, and it has {secret}: chmod 600 {path}")
    return properties


def parse_properties(text: str, path: str) -> dict[str, str]:
    """Returns the properties of a text. Raises SiteFileError."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, is_set, value = (part.strip() for part in line.partition("="))
        if not is_set or not _NAME.fullmatch(name):
            raise SiteFileError(f"{path}:{number}: expected property=value, as bootstrap.servers=HOST:9092")
        if not value.isprintable():
            raise SiteFileError(f"{path}:{number}: {name}: characters that are not printable")
        found[name] = value
    if not any(name in found for name in SERVERS):
        raise SiteFileError(f"{path}: bootstrap.servers is missing: write bootstrap.servers=HOST:9092")
    return found


def kafka_warnings(config: Config) -> list[str]:
    """Returns why completions cannot be sent to Kafka from this machine as things are; none for another JobCompType."""
    if config.job_comp_type != "jobcomp/kafka":
        return []
    found = [] if find_spec(MODULE) is not None else [NEEDED]
    try:
        read_properties(config.job_comp_loc, config.slurm_user)
    except SiteFileError as error:
        found.append(f"JobCompLoc: {error}")
    return found
