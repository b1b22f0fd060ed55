"""Writes web/src/api/types.ts, the types of the web interface's client, from the OpenAPI documents that `penstock restd` serves,
and web/src/api/sbatch.ts, the names, letters and kinds of sbatch's options.

    python -m tools.webtypes [--check]

Only what the paths of USED need is written: their answers, as interfaces, named as the schemas without their version.
"""

import sys
from pathlib import Path

# Any: members of a document of JSON
from typing import Any, Final

from cli.base.options import with_common
from cli.sbatch import COMMAND
from rest import openapi
from rest.contract.facts import load
from rest.handlers import own

TARGET: Final = Path("web/src/api/types.ts")
VERSION: Final = "v0.0.46"
#: Paths whose answers the pages read, and the type's name of each.
USED: Final = {
    f"/slurm/{VERSION}/jobs": "JobDetailsAnswer",
    f"/slurm/{VERSION}/nodes": "NodesAnswer",
    f"/slurm/{VERSION}/partitions": "PartitionsAnswer",
    f"/slurmdb/{VERSION}/job/{{job_id}}": "RecordsAnswer",
    f"/slurmdb/{VERSION}/account/{{account_name}}": "AccountsAnswer",
    f"/slurmdb/{VERSION}/associations": "AssocsAnswer",
    f"/slurmdb/{VERSION}/qos": "QosAnswer",
    f"/slurmdb/{VERSION}/tres": "TresAnswer",
    f"/slurm/{VERSION}/reservations": "ReservationsAnswer",
    f"/slurm/{VERSION}/shares": "SharesAnswer",
    f"/slurm/{VERSION}/diag": "DiagAnswer",
    f"/slurm/{VERSION}/ping": "PingAnswer",
    f"/slurmdb/{VERSION}/user/{{name}}": "UsersAnswer",
    "/penstock/v1/jobs": "JobsAnswer",
    "/penstock/v1/jobs/wide": "WideJobsAnswer",
    "/penstock/v1/jobs/past": "PastJobsAnswer",
    "/penstock/v1/jobs/use": "JobsUseAnswer",
    "/penstock/v1/jobs/test": "TestAnswer",
    "/penstock/v1/queue": "QueueAnswer",
    "/penstock/v1/fits": "FitsAnswer",
    "/penstock/v1/jobs/lint": "LintAnswer",
    "/penstock/v1/jobs/{job_id}/script": "ScriptAnswer",
    "/penstock/v1/jobs/{job_id}/environment": "EnvironmentAnswer",
    "/penstock/v1/jobs/{job_id}/why": "WhyAnswer",
    "/penstock/v1/jobs/{job_id}/story": "StoryAnswer",
    "/penstock/v1/jobs/{job_id}/steps": "StepsAnswer",
    "/penstock/v1/jobs/{job_id}/profile": "ProfileAnswer",
    "/penstock/v1/jobs/{job_id}/efficiency": "EfficiencyAnswer",
    "/penstock/v1/jobs/{job_id}/output": "OutputAnswer",
    "/penstock/v1/forecast": "ForecastAnswer",
    "/penstock/v1/plan/without": "PlanWithoutAnswer",
    "/penstock/v1/plan/with": "PlanWithAnswer",
    "/penstock/v1/gpus": "GpusAnswer",
    "/penstock/v1/gpus/readings": "GpuReadingsAnswer",
    "/penstock/v1/usage": "UsageAnswer",
    "/penstock/v1/usage/hours": "UsageHoursAnswer",
    "/penstock/v1/utilization": "UtilizationAnswer",
    "/penstock/v1/waste": "WasteAnswer",
    "/penstock/v1/efficiency": "EfficienciesAnswer",
    "/penstock/v1/waits": "WaitsAnswer",
    "/penstock/v1/budgets": "BudgetsAnswer",
    "/penstock/v1/borrowing": "BorrowingAnswer",
    "/penstock/v1/topology": "TopologyAnswer",
    "/penstock/v1/nodes/events": "NodeEventsAnswer",
    "/penstock/v1/config": "ConfigAnswer",
    "/penstock/v1/config/diff": "ConfigDiffAnswer",
    "/penstock/v1/controller": "ControllerAnswer",
    "/penstock/v1/templates": "TemplatesAnswer",
    "/penstock/v1/audit": "AuditAnswer",
    "/penstock/v1/simulations/{simulation_id}": "SimulationAnswer",
    "/penstock/v1/sessions": "SessionsAnswer",
    "/penstock/v1/policy": "PolicyAnswer",
    "/penstock/v1/policy/plan": "PolicyPlanAnswer",
    "/penstock/v1/policy/apply": "PolicyAppliedAnswer",
}
HEAD: Final = "// Written by tools/webtypes.py from the OpenAPI documents of penstock restd; not to be edited.\n"
OPTIONS_TARGET: Final = Path("web/src/api/sbatch.ts")
OPTIONS_HEAD: Final = """// Written by tools/webtypes.py from the option table of sbatch; not to be edited.

export interface SbatchOption {
  readonly name: string;
  readonly short: string;
  /** Whether it has a value. */
  readonly kind: "no" | "maybe" | "yes";
  /** Not Slurm's: it has no abbreviations. */
  readonly isOwn: boolean;
}

export const SBATCH_OPTIONS: readonly SbatchOption[] = ["""
_SCALARS: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


class Types:
    """The interfaces that are needed so far, by name."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, name: str, schema: Any, schemas: Any) -> str:
        """The name of the interface of an object, which is written if it is not there."""
        if name not in self.texts:
            self.texts[name] = ""  # before its members, which may be of the same type
            members = schema.get("properties", {}).items()
            lines = [f"  {key}: {self.of(one, schemas)};" for key, one in members if key.isidentifier()]
            self.texts[name] = "\n".join([f"export interface {name} {{", *lines, "}", ""])
        return name

    def of(self, schema: Any, schemas: Any) -> str:
        """The type of a value."""
        if "$ref" in schema:
            key = schema["$ref"].rpartition("/")[2]
            target = schemas[key]
            is_object = target.get("type") == "object" and "properties" in target
            return self.add(type_name(key), target, schemas) if is_object else self.of(target, schemas)
        if "allOf" in schema:
            text = " & ".join(self.of(one, schemas) for one in schema["allOf"])
            return f"{text} | null" if schema.get("nullable") else text
        if schema.get("nullable"):
            return f"{self.of({**schema, 'nullable': False}, schemas)} | null"
        kind = schema.get("type")
        if kind == "array":
            inner = self.of(schema["items"], schemas)
            return f"({inner})[]" if " " in inner else f"{inner}[]"
        if kind == "object":
            members = schema.get("properties", {}).items()
            inner = " ".join(f"{key}: {self.of(one, schemas)};" for key, one in members)
            return f"{{ {inner} }}" if inner else "Record<string, unknown>"
        return _SCALARS.get(kind, "unknown")


def type_name(key: str) -> str:
    """v0.0.46_job_info -> JobInfo."""
    words = key.removeprefix(f"{VERSION}_").split("_")
    words = ["own", *words] if key in ("error", "warning") else words  # Error is JavaScript's
    return "".join(word[:1].upper() + word[1:] for word in words)


def text() -> str:
    """The whole file."""
    documents: tuple[Any, ...] = (openapi.document(load()), openapi.own_document(own.OWN_PATHS))
    types = Types()
    for path, name in USED.items():
        document = next(one for one in documents if path in one["paths"] or f"{path}/" in one["paths"])
        found = document["paths"].get(path) or document["paths"][f"{path}/"]
        schemas = document["components"]["schemas"]
        schema = (found.get("get") or found["post"])["responses"]["200"]["content"]["application/json"]["schema"]
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rpartition("/")[2]]
        types.add(name, schema, schemas)
    return "\n".join([HEAD, *(types.texts[name] for name in sorted(types.texts))])


def options_text() -> str:
    """The options of sbatch."""
    rows = (
        f'  {{ name: "{one.name}", short: "{one.short}", kind: "{one.value}", isOwn: {str(one.own).lower()} }},'
        for one in with_common(COMMAND.options)
    )
    return "\n".join([OPTIONS_HEAD, *rows, "];", ""])


def main(words: list[str]) -> int:
    """Writes the files, or compares."""
    made = {TARGET: text(), OPTIONS_TARGET: options_text()}
    if "--check" not in words:
        for path, content in made.items():
            path.write_text(content)
        return 0
    old = [str(path) for path, content in made.items() if path.read_text() != content]
    if old:
        print(f"{', '.join(old)}: old: run .venv/bin/python -m tools.webtypes, then make web", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
