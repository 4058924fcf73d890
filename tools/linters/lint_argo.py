"""Reads workflows of Argo into hera's classes of them and back: lint_argo.py FILE... prints what is lost or wrong; exit code 1 where anything is."""

import sys

from hera.workflows.models import Workflow
from pydantic import ValidationError
from ruamel.yaml import YAML


def lost(before, after, place=""):
    """Places of `before` that `after` lacks: keys that no class has."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from lost(value, after.get(key), f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after)):
            yield from lost(one, other, f"{place}[{index}]")
    elif after is None and before is not None:
        yield f"{place}: no such key"


findings = []
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        document = YAML(typ="safe", pure=True).load(file)
    try:
        workflow = Workflow.model_validate(document)
    except ValidationError as error:
        findings += [f"{path}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        continue
    findings += [f"{path}: {finding}" for finding in lost(document, workflow.model_dump(mode="json", by_alias=True, exclude_unset=True))]
    names = {template["name"] for template in document["spec"]["templates"]}
    tasks = [task for template in document["spec"]["templates"] for task in template.get("dag", {}).get("tasks", [])]
    findings += [f"{path}: task {task['name']}: no template `{task['template']}`" for task in tasks if task["template"] not in names]
    if document["spec"]["entrypoint"] not in names:
        findings.append(f"{path}: no template `{document['spec']['entrypoint']}`")
print("\n".join(findings))
sys.exit(1 if findings else 0)
