"""JSON schemas of the files people write, for editors: completion, types and descriptions.

They accept every written form that the loader does, old spellings among them, marked `deprecated`.
What needs more than one field to decide (a grid's counts, who needs a length) is the loader's.
"""

from __future__ import annotations

from typing import Any

from burst.core.config.cluster import ClusterConfig
from burst.core.config.dialect import IGNORED, MOVES
from burst.core.config.experiment import ExperimentConfig

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HYPERPARAMETERS = ("ConstHp", "IntHp", "DoubleHp", "LogHp", "CategoricalHp")
_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
Schema = dict[str, Any]


def experiment_schema() -> Schema:
    """The schema of an experiment file."""
    schema = ExperimentConfig.model_json_schema(mode="validation")
    parts: Schema = schema["$defs"]
    schema["title"] = "burst experiment"
    schema["required"] = ["entrypoint"]
    parts["Reproducibility"].pop("required", None)
    _tags(parts)
    _space(schema, parts)
    _old_places(schema, parts)
    _old_shapes(schema, parts)
    return {"$schema": _DIALECT, **schema}


def cluster_schema() -> Schema:
    """The schema of a cluster file."""
    schema = ClusterConfig.model_json_schema(mode="validation")
    schema["title"] = "burst cluster"
    _tags(schema["$defs"])
    return {"$schema": _DIALECT, **schema}


def _tags(parts: Schema) -> None:
    """A member of a union has to say which one it is."""
    for name, part in parts.items():
        for tag in ("type", "name", "kind"):
            known = part.get("properties", {}).get(tag, {})
            if "const" in known and not name.endswith("Base"):
                part["required"] = sorted({tag, *part.get("required", ())})
                known.pop("default", None)


def _space(schema: Schema, parts: Schema) -> None:
    """Hyperparameters nest; a mapping whose `type` is text is one of them."""
    tagged = {"type": "object", "required": ["type"], "properties": {"type": _TEXT}}
    space = {"type": "object", "additionalProperties": {"$ref": "#/$defs/Hyperparameter"}}
    names = [name for name in _HYPERPARAMETERS if name in parts]
    parts.update(_hyperparameter_parts() if len(names) < len(_HYPERPARAMETERS) else {})
    parts["Hyperparameter"] = {
        "if": tagged,
        "then": {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in _HYPERPARAMETERS]},
        "else": {"anyOf": [{"type": ["string", "number", "boolean", "array", "null"]}, space]},
    }
    schema["properties"]["hyperparameters"] = {**space, "title": "Hyperparameters", "default": {}}


def _hyperparameter_parts() -> Schema:
    from burst.core.config.hparams import TYPES

    parts = {model.__name__: model.model_json_schema() for model in TYPES.values()}
    _tags(parts)
    return parts


def _old_places(schema: Schema, parts: Schema) -> None:
    """Fields that have moved keep the schema of where they went."""
    for old in [move.old for move in MOVES] + list(IGNORED):
        section, _, name = old.rpartition(".")
        properties = _section(schema, parts, section)
        new = next((move.new for move in MOVES if move.old == old), "")
        found: Schema = _at(schema, parts, new) if new else {}
        note = f"Deprecated: write `{new}`." if new else f"Ignored: {IGNORED[old]}."
        kept = {key: value for key, value in found.items() if key not in ("default", "title")}
        properties[name] = {**kept, "description": note, "deprecated": True}
    schema["properties"]["scheduling_unit"].pop("$ref", None)
    schema["properties"]["scheduling_unit"]["type"] = "integer"
    resources = _section(schema, parts, "resources")
    pool = resources["resource_pool"]
    resources["resource_pool"] = {**_TEXT, **{k: pool[k] for k in ("description", "deprecated")}}


def _old_shapes(schema: Schema, parts: Schema) -> None:
    """Fields that are written in another shape too."""
    storage = _section(schema, parts, "checkpoint_storage")
    tier = {**parts["CheckpointStorage"]["properties"]}
    for name in ("host_path", "storage_path", "container_path", "propagation"):
        tier[name] = {"type": ["string", "null"]}
    storage.update({name: form for name, form in tier.items() if name not in storage})
    schema["properties"]["checkpoint_storage"] = {
        "anyOf": [
            schema["properties"]["checkpoint_storage"],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": tier,
                    "additionalProperties": False,
                    "required": ["type"],
                },
            },
        ],
        "description": "Write `checkpoints.storage`.",
        "deprecated": True,
    }
    environment = _section(schema, parts, "environment")
    environment["image"] = {"anyOf": [_TEXT, {"$ref": "#/$defs/Image"}, {"type": "null"}]}
    parts["Image"]["properties"]["gpu"] = {**_TEXT, "deprecated": True}
    environment["environment_variables"] = {
        "anyOf": [_TEXTS, {"type": "object", "additionalProperties": _TEXTS}],
        "description": "NAME=VALUE, one each.",
        "deprecated": True,
    }
    environment["variables"]["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    resources = _section(schema, parts, "resources")
    resources["devices"] = {"type": "array", "items": {"type": ["string", "object"]}}
    policy = parts["LogPolicy"]
    policy["properties"]["pattern"] = {"type": ["string", "null"]}
    policy["required"] = []
    action = policy["properties"]["action"]
    action["anyOf"].append({"type": "object", "required": ["type"]})
    parts["AshaSearcher"]["properties"]["name"] = {"enum": ["asha", "async_halving"]}
    for name in ("AshaSearcher", "AdaptiveAshaSearcher"):
        parts[name]["properties"]["stop_once"] = {"type": "boolean", "deprecated": True}
    precision = parts["Optimizations"]["properties"]["mixed_precision"]
    precision["enum"] = [*precision["enum"], "O0", "O1", "O2", "O3"]
    schema["properties"]["searcher"].pop("discriminator", None)


def _section(schema: Schema, parts: Schema, path: str) -> Schema:
    """The properties of a section by the path that files use; made where it is an old one."""
    if not path:
        properties: Schema = schema["properties"]
        return properties
    field = schema["properties"].setdefault(
        path, {"type": "object", "additionalProperties": False, "deprecated": True}
    )
    target = parts[field["$ref"].rpartition("/")[2]] if "$ref" in field else field
    found: Schema = target.setdefault("properties", {})
    return found


def _at(schema: Schema, parts: Schema, path: str) -> Schema:
    node = schema
    for name in path.split("."):
        if "$ref" in node:
            node = parts[node["$ref"].rpartition("/")[2]]
        node = node["properties"][name]
    return node
