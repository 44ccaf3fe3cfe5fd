"""Lambda functions of the double's AWS provider."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

from tests.infra.double.cloud import until
from tests.infra.double.kinds import Kind, kind
from tests.infra.double.providers.base import given, quietly, upper
from tests.infra.double.values import Props, bytes_of


class LambdaKind(Kind):
    @property
    def lam(self) -> Any:
        return self.cloud.client("lambda")


@kind("aws:lambda/function:Function")
class Function(LambdaKind):
    """Its code is an archive (`code`); code in a bucket and images are refused."""

    what = "Lambda Function"
    replaces = frozenset({"packageType"})
    name = "name"
    longest = 64

    def create(self, inputs: Props) -> str:
        self.lam.create_function(
            FunctionName=inputs["name"],
            Code={"ZipFile": zipped(inputs)},
            **given(inputs, Architectures="architectures"),
            **_settings(inputs),
            **({"Tags": tags} if (tags := self.cloud.tags(inputs)) else {}),
        )
        self._wait(str(inputs["name"]))
        return str(inputs["name"])

    def _wait(self, id: str) -> None:
        def ready() -> bool:
            told = self.lam.get_function(FunctionName=id)["Configuration"]
            state, update = told.get("State"), told.get("LastUpdateStatus")
            return state in (None, "Active", "Inactive") and update != "InProgress"

        until(ready, f"function {id}")

    def settle(self, id: str, inputs: Props) -> None:
        reserved = inputs.get("reservedConcurrentExecutions", -1)
        if reserved is not None and reserved >= 0:
            self.lam.put_function_concurrency(
                FunctionName=id, ReservedConcurrentExecutions=reserved
            )
        elif quietly(self.lam.get_function_concurrency, FunctionName=id).get(
            "ReservedConcurrentExecutions"
        ):
            self.lam.delete_function_concurrency(FunctionName=id)

    def update(self, id: str, old: Props, new: Props) -> None:
        before, after = (each.get("code") or {} for each in (old, new))
        if before.get("hash") != after.get("hash") or old.get("architectures") != new.get(
            "architectures"
        ):
            archs = given(new, Architectures="architectures")
            self.lam.update_function_code(FunctionName=id, ZipFile=zipped(new), **archs)
            self._wait(id)
        if _settings(old) != _settings(new):
            self.lam.update_function_configuration(FunctionName=id, **_settings(new))
            self._wait(id)
        told, wanted = self.cloud.tags(old), self.cloud.tags(new)
        arn = self.lam.get_function(FunctionName=id)["Configuration"]["FunctionArn"]
        if gone := [key for key in told if key not in wanted]:
            self.lam.untag_resource(Resource=arn, TagKeys=gone)
        if wanted and wanted != told:
            self.lam.tag_resource(Resource=arn, Tags=wanted)
        self.settle(id, new)

    def read(self, id: str, known: Props) -> Props | None:
        found = quietly(self.lam.get_function, FunctionName=id)
        if found is None:
            return None
        told = found["Configuration"]
        arn, region = told["FunctionArn"], self.cloud.region
        path = f"2015-03-31/functions/{arn}/invocations"
        return {
            "arn": arn,
            "name": id,
            "invokeArn": f"arn:{self.cloud.partition}:apigateway:{region}:lambda:path/{path}",
            "qualifiedArn": f"{arn}:$LATEST",
            "version": "$LATEST",
            "lastModified": str(told.get("LastModified", "")),
            "sourceCodeHash": told.get("CodeSha256", ""),
            "tagsAll": self.cloud.tags(known),
        }

    def find(self, inputs: Props) -> str | None:
        found = quietly(self.lam.get_function, FunctionName=inputs["name"])
        return str(inputs["name"]) if found else None

    def delete(self, id: str, known: Props) -> None:
        quietly(self.lam.delete_function, FunctionName=id)


def zipped(inputs: Props) -> bytes:
    """The code, as Lambda takes it."""
    code = inputs.get("code")
    if not code:
        raise ValueError("the double takes the code of a function as an archive alone")
    path = Path(code.get("path", ""))
    if "path" in code and path.is_file():
        return bytes_of(code)
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, data in sorted(_parts(code)):
            archive.writestr(zipfile.ZipInfo(name), data)
    return held.getvalue()


def _parts(code: Props) -> list[tuple[str, bytes]]:
    if "assets" in code:
        return [(name, bytes_of(part)) for name, part in code["assets"].items()]
    root = Path(code["path"])
    files = (each for each in root.rglob("*") if each.is_file())
    return [(each.relative_to(root).as_posix(), each.read_bytes()) for each in files]


def _settings(inputs: Props) -> Props:
    made = given(
        inputs,
        Role="role",
        Handler="handler",
        Runtime="runtime",
        Description="description",
        Timeout="timeout",
        MemorySize="memorySize",
        Layers="layers",
    )
    for name in (
        "environment",
        "deadLetterConfig",
        "ephemeralStorage",
        "loggingConfig",
        "tracingConfig",
    ):
        if inputs.get(name):
            made[name[0].upper() + name[1:]] = upper(inputs[name])
    if inputs.get("environment"):
        made["Environment"] = {"Variables": dict(inputs["environment"].get("variables") or {})}
    return made
