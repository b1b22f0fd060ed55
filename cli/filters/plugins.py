"""The kinds of filters that a cluster file may name, as plug-ins of hooks.py."""

import os
from collections.abc import Mapping

from cli.base.options import Command
from cli.base.run import CommandError
from cli.filters.beside import BesideProcess
from cli.filters.defaults import FILE, user_defaults
from cli.filters.plugin import Plugin
from penstock.clusterfile import ClusterFile
from penstock.config.filterfiles import ACCEPT_FAILURE


def plugins_of(command: Command, cluster: ClusterFile) -> list[Plugin]:
    """Returns the filters of a cluster file. Raises CommandError."""
    return [_plugin(name, command, cluster) for name in cluster.cli_filters]


def _plugin(name: str, command: Command, cluster: ClusterFile) -> Plugin:
    language, _, path = name.removeprefix(ACCEPT_FAILURE).partition(":")
    if language in ("lua", "python") and os.path.isabs(path):
        process = BesideProcess(command, language, path, _owner(cluster.path))
        return ScriptPlugin(process, path, may_fail=name.startswith(ACCEPT_FAILURE))
    if name == "user_defaults":
        return DefaultsPlugin(command, cluster.cluster_name)
    if name == "syslog":
        return SyslogPlugin(command)
    raise CommandError(f"{cluster.path}: there is no filter of options {name!r}")


def _owner(path: str) -> int:
    """Who may own a script beside root and the user: the owner of the cluster file. Of root's commands it is root alone."""
    try:
        return 0 if os.geteuid() == 0 else os.stat(path).st_uid
    except OSError:
        return 0  # gone meanwhile


class ScriptPlugin(Plugin):
    """A script of the site, in a process of its own."""

    def __init__(self, process: BesideProcess, path: str, may_fail: bool) -> None:
        self.name = path
        self.may_fail = may_fail
        self._process = process

    def setup_defaults(self, options: dict[str, str], early: bool, component: int) -> Mapping[str, str | None]:
        """Asks the script."""
        return self._process.ask("setup_defaults", options=options, early=early, component=component)

    def pre_submit(self, options: dict[str, str], component: int) -> Mapping[str, str | None]:
        """Asks the script."""
        return self._process.ask("pre_submit", options=options, component=component)

    def post_submit(self, component: int, job_id: int, step_id: int | None) -> None:
        """Tells the script."""
        self._process.ask("post_submit", component=component, job_id=job_id, step_id=step_id)

    def close(self) -> None:
        """Ends its process."""
        self._process.close()


class DefaultsPlugin(Plugin):
    """The user's own defaults."""

    name = FILE

    def __init__(self, command: Command, cluster_name: str) -> None:
        self._command = command
        self._cluster_name = cluster_name

    def setup_defaults(self, options: dict[str, str], early: bool, component: int) -> Mapping[str, str | None]:
        """Returns them."""
        return {} if early else user_defaults(self._command, self._cluster_name)


class SyslogPlugin(Plugin):
    """The machine's log."""

    name = "cli_filter/syslog"

    def __init__(self, command: Command) -> None:
        self._command = command
        self._seen: dict[int, dict[str, str]] = {}

    def pre_submit(self, options: dict[str, str], component: int) -> Mapping[str, str | None]:
        """Remembers the options."""
        self._seen[component] = options
        return {}

    def post_submit(self, component: int, job_id: int, step_id: int | None) -> None:
        """Logs them all, with the first component."""
        if component == 0:
            from cli.filters.syslogged import log_submission

            log_submission(self._command.name, list(self._seen.values()), job_id, step_id)
