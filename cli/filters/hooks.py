"""The filters of one run of sbatch, salloc or srun, as the cluster file names them, in their order.

    setup_defaults   defaults of options, below those of the script, the environment and the command line
    pre_submit       the options in force, which it may change; or it refuses
    post_submit      the job, and the step of srun

Without filters everything passes unchanged, and nothing is imported or started. What a filter does wrong ends the command
before anything is sent, or is reported and the filter is not asked any more, as the site has it (PenstockCliFilterFailure);
an error of post_submit is shown, and the job stays.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from cli.base.options import Command, OptionValues
from cli.base.run import CommandError, complain, warn
from cli.filters.plugin import FilterFault, Plugin
from cli.jobs.jobrequest import merge
from penstock.cluster import find_cluster
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError


def cluster_here() -> ClusterFile | None:
    """Finds the cluster; None if there is none: who then needs it says why."""
    try:
        return find_cluster()
    except PenstockError:
        return None


class Filtered(NamedTuple):
    """The options of a component after its filters, and those that pre_submit has given another value."""

    values: OptionValues
    given: OptionValues


class OptionFilters:
    """The filters of one run of a command. Closed when the command goes on without them."""

    def __init__(self, command: Command, cluster: ClusterFile | None) -> None:
        self._command = command
        self._plugins: list[Plugin] = []
        self._passed_over: list[Plugin] = []  # that have failed, and may
        self._submitted = 0  # components that the filters have seen
        if cluster is not None and cluster.cli_filters:
            from cli.filters.plugins import plugins_of

            self._plugins = plugins_of(command, cluster)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends what runs for the filters."""
        for plugin in self._plugins:
            plugin.close()

    def applied(self, components: Sequence[OptionValues]) -> list[Filtered]:
        """Returns the options of each component after all filters. Raises CommandError."""
        self._submitted = len(components)
        return [self._component(values, number) for number, values in enumerate(components)]

    def _component(self, values: OptionValues, number: int) -> Filtered:
        if not self._plugins:
            return Filtered(values, OptionValues())
        defaults = OptionValues()
        for plugin in self._plugins:
            for early in (True, False):
                ask = partial(plugin.setup_defaults, early=early, component=number)
                defaults = self._asked(plugin, defaults, ask)
        before = found = merge(defaults, values)
        for plugin in self._plugins:
            found = self._asked(plugin, found, partial(plugin.pre_submit, component=number))
        given = {key: value for key, value in found.items() if key not in before or value != before[key]}
        return Filtered(found, OptionValues(given))

    def submitted(self, job_id: int, step_id: int | None = None) -> None:
        """Tells the filters of the job; they have no more to do then."""
        for plugin in self._plugins:
            if plugin in self._passed_over:
                continue
            try:
                for number in range(self._submitted):
                    plugin.post_submit(number, job_id, step_id)
            except CommandError as error:
                complain(self._command.name, error.text)
        self.close()

    def _texts(self, values: OptionValues) -> dict[str, str]:
        from cli.filters.texts import texts_of

        return texts_of(self._command, values)

    def _asked(
        self, plugin: Plugin, values: OptionValues, ask: Callable[[dict[str, str]], Mapping[str, str | None]]
    ) -> OptionValues:
        """Returns the options after one call of a filter. Raises CommandError."""
        if plugin in self._passed_over:
            return values
        try:
            return self._changed(plugin, values, ask(self._texts(values)))
        except FilterFault as fault:
            if not plugin.may_fail:
                raise
            self._passed_over.append(plugin)
            plugin.close()
            why = next(iter(str(fault).splitlines()), "")
            warn(self._command.name, f"the filter of options {plugin.name} has failed, and is not asked: {why}")
            return values

    def _changed(self, plugin: Plugin, values: OptionValues, changes: Mapping[str, str | None]) -> OptionValues:
        from cli.filters.texts import with_changes

        if not changes:
            return values
        try:
            return with_changes(self._command, values, changes)
        except CommandError as error:
            where = f"{self._command.name}: a filter of options gives a wrong value: {plugin.name}"
            detail = f"{error.detail}\n{where}" if error.detail else where
            raise FilterFault(error.text, plain=error.plain, detail=detail, level=error.level) from error
