"""Reads the table of XIDs that comes with the package: class -> numbers (xids.toml)."""

import tomllib
from importlib import resources

from nodedaemon.core.gpupolicy import XidClass


def table() -> dict[int, XidClass]:
    """XID -> its class."""
    text = resources.files("nodedaemon.gpu").joinpath("xids.toml").read_text("utf-8")
    return {xid: XidClass(word) for word, xids in tomllib.loads(text).items() for xid in xids}
