"""sdiag: prints the cost of the controller's scheduling passes and calls, in Slurm's layout."""

from cli.base.clusters import open_one
from cli.base.document import DOCUMENT_OPTIONS, is_wanted
from cli.base.listing import emit, environment, words
from cli.base.options import YES, Command, Option, parse
from cli.base.run import CommandError, run
from cli.listings.diagnostics import SORTS, report, statistics

COMMAND = Command(
    "sdiag",
    "[OPTIONS]",
    (
        Option("all", "a", help="all statistics (the default)"),
        Option("reset", "r", help="reset all counters to 0; operators only"),
        Option("sort-by-id", "i", help="sort the calls by their names"),
        Option("sort-by-time", "t", help="sort the calls by their total time"),
        Option("sort-by-time2", "T", help="sort the calls by their average time"),
        *DOCUMENT_OPTIONS,
        Option("cluster", "M", YES, "SLURM_CLUSTERS", "cluster to issue commands to", "name"),
        Option("clusters", "", YES, dest="cluster"),
    ),
)


def main() -> None:
    """The command sdiag."""
    run("sdiag", body)


def body(argv: list[str]) -> int:
    """Runs sdiag once."""
    line = parse(COMMAND, argv, environment())
    if line.positional:
        raise CommandError(f"unexpected word {line.positional[0]!r}")
    from penstock.v1.explain_pb2 import DiagnosticsRequest, ResetDiagnosticsRequest

    heading = bool(words(line.values.text("cluster")))
    with open_one("sdiag", line.values.text("cluster")) as client:
        if line.values.flag("reset"):
            client.call("ResetDiagnostics", ResetDiagnosticsRequest())
            emit(["Reset scheduling statistics"])
            return 0
        reply = client.call("Diagnostics", DiagnosticsRequest())
        if is_wanted(line.values):
            from cli.base.document import document, write_document

            write_document(
                {**document("statistics", [], client.cluster.cluster_name), "statistics": statistics(reply)},
                line.values,
            )
            return 0
    order = next((key for name, key in SORTS.items() if line.values.flag(name)), None)
    emit([*([f"CLUSTER: {client.cluster.cluster_name}"] if heading else []), *report(reply, order)])
    return 0


if __name__ == "__main__":
    main()
