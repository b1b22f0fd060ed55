"""The wckeys of accounting, as the controller lists them."""

from penstock.client import Client
from penstock.v1.governance_pb2 import ListWckeysRequest, WckeyInfo


def load_wckeys(client: Client, with_deleted: bool = False) -> list[WckeyInfo]:
    """By name, and those of one name by user, as Slurm lists them."""
    found = client.call("ListWckeys", ListWckeysRequest(with_deleted=with_deleted)).wckeys
    return sorted((one for one in found if with_deleted or not one.deleted), key=lambda one: (one.name, one.user))
