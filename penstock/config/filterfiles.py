"""The files of a site's filters, and who may have written them: those of submissions are read by the controller, those of
options named in cluster files for the commands; `penstock config check` checks all. They are run by none of these."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from penstock.config.sitefile import SiteFileError, decoded, read_site_file
from penstock.values.config import Config

FILE_BYTES_MAX: Final = 1024 * 1024
#: Lua's file, in the folder of slurm.conf.
LUA_FILE: Final = "job_submit.lua"
CLI_LUA_FILE: Final = "cli_filter.lua"
#: In a cluster file, before a script that filters options: when it fails, the command continues without it.
ACCEPT_FAILURE: Final = "accept:"


class FilterFileError(Exception):
    """A filter cannot be loaded. The text names the file, and what to do."""


def filter_files(config: Config, folder: str) -> list[tuple[str, str]]:
    """Returns the language and path of each filter. Raises FilterFileError without what its language needs."""
    found = [("python", config.submit_filter)] if config.submit_filter else []
    if "lua" in config.job_submit_plugins:
        if find_spec("lupa") is None:
            raise FilterFileError("JobSubmitPlugins=lua needs lupa: pip install 'penstock[lua]'")
        found.append(("lua", os.path.join(folder, LUA_FILE)))
    return found


def cli_filters(config: Config, folder: str) -> tuple[str, ...]:
    """Returns the filters of options as a cluster file names them: python:PATH, lua:PATH, or the name of one that needs no
    file; ACCEPT_FAILURE before those that may fail. `folder`: of slurm.conf."""
    rule = ACCEPT_FAILURE if config.cli_filter_failure == "accept" else ""
    python = (f"{rule}python:{config.cli_filter}",) if config.cli_filter else ()
    lua = f"{rule}lua:{os.path.join(os.path.abspath(folder), CLI_LUA_FILE)}"
    return (*python, *(lua if name == "lua" else name for name in config.cli_filter_plugins))


def read_filter(path: str, config: Config) -> str:
    """Returns the text of a filter that only root, SlurmUser and the process's own user can have written. Raises
    FilterFileError."""
    try:
        data, _ = read_site_file(path, config.slurm_user, FILE_BYTES_MAX)
        return decoded(data, path)
    except SiteFileError as error:
        raise FilterFileError(str(error)) from None


def filter_warnings(config: Config, folder: str) -> tuple[str, ...]:
    """Returns why the controller could not load the filters, as far as their files tell."""
    found: list[str] = []
    try:
        for _, path in filter_files(config, folder):
            try:
                read_filter(path, config)
            except FilterFileError as error:
                found.append(f"the submit filter cannot be loaded: {error}")
    except FilterFileError as error:
        found.append(f"the submit filter cannot be loaded: {error}")
    return (*found, *_cli_warnings(config, folder))


def _cli_warnings(config: Config, folder: str) -> Iterator[str]:
    """Yields why commands on this machine could not load their filters."""
    if "lua" in config.cli_filter_plugins and find_spec("lupa") is None:
        yield "CliFilterPlugins=lua needs lupa: pip install 'penstock[lua]'"
    for name in cli_filters(config, folder):
        path = name.removeprefix(ACCEPT_FAILURE).partition(":")[2]
        try:
            if path:
                read_filter(path, config)
        except FilterFileError as error:
            yield f"the filter of options cannot be loaded: {error}"
