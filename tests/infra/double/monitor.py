"""The two gRPC services that a Pulumi program talks to, answered by the double of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any, NoReturn

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
)

from tests.infra.double.asking import asked_of
from tests.infra.double.engine import Answer, Engine, Over
from tests.infra.double.events import Events
from tests.infra.double.invokes import invoke
from tests.infra.double.steps import Killed
from tests.infra.double.values import from_struct, revealed, to_struct

_OPTIONS = [("grpc.max_receive_message_length", 400 * 1024 * 1024)]
_THREADS = 32
_FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_DELETED_WITH,
)
_SHUT = "resource monitor shut down while waiting on step's done channel"


class Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """Where programs register what they want."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.killed: Killed | None = None

    def GetDeploymentInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return resource_pb2.DeploymentInfo(supportedFeatures=_FEATURES)

    def RegisterPackage(self, request: Any, context: Any) -> Any:  # noqa: N802
        return resource_pb2.RegisterPackageResponse(ref="")

    def SignalAndWaitForShutdown(self, request: Any, context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            cloud = self._engine.steps.cloud_of(request.provider)
            found = invoke(request.tok, cloud, revealed(from_struct(request.args)))
        except Exception as error:
            context.abort(
                grpc.StatusCode.UNKNOWN, f"invocation of {request.tok} returned an error: {error}"
            )
        return resource_pb2.ResourceInvokeResponse(**{"return": to_struct(found)})

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            asked = asked_of(request, self._engine.stack, self._engine.project)
            answer = self._engine.register(asked)
        except Over:
            self._shut(context)
        except OSError as error:
            context.abort(grpc.StatusCode.UNKNOWN, f"failed to compute asset hash: {error}")
        except Killed as killed:
            self._die(killed, context)
        return _told(answer)

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            self._engine.outputs(request.urn, from_struct(request.outputs))
        except Killed as killed:
            self._die(killed, context)
        return empty_pb2.Empty()

    def ReadResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        as_registered = resource_pb2.RegisterResourceRequest(
            type=request.type,
            name=request.name,
            parent=request.parent,
            custom=True,
            provider=request.provider,
        )
        try:
            asked = asked_of(as_registered, self._engine.stack, self._engine.project)
            answer = self._engine.read(asked, request.id)
        except Over:
            self._shut(context)
        outputs = to_struct(answer.outputs or {})
        return resource_pb2.ReadResourceResponse(urn=answer.urn, id=answer.id, properties=outputs)

    def _shut(self, context: Any) -> NoReturn:
        context.abort(grpc.StatusCode.UNAVAILABLE, _SHUT)
        raise AssertionError("abort raises")

    def _die(self, killed: Killed, context: Any) -> NoReturn:
        self.killed = killed
        self._shut(context)


class EngineServices(engine_pb2_grpc.EngineServicer):
    """Where programs log to."""

    def __init__(self, engine: Engine, events: Events) -> None:
        self._engine = engine
        self._events = events
        self._root = ""

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802
        severities = {1: "info", 2: "warning", 3: "error"}
        if request.severity in severities and not self._engine.failed:
            severity = severities[request.severity]
            urn = request.urn or self._engine.root
            self._events.diagnose(severity, request.message, urn)
        return empty_pb2.Empty()

    def GetRootResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        return engine_pb2.GetRootResourceResponse(urn=self._root)

    def SetRootResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._root = request.urn
        return engine_pb2.SetRootResourceResponse()

    def RequirePulumiVersion(self, request: Any, context: Any) -> Any:  # noqa: N802
        return engine_pb2.RequirePulumiVersionResponse()


def _told(answer: Answer) -> Any:
    return resource_pb2.RegisterResourceResponse(
        urn=answer.urn,
        id=answer.id,
        object=to_struct(answer.outputs or {}),
        result=resource_pb2.Result.Value(answer.result),
    )


@contextmanager
def served(engine: Engine, events: Events) -> Iterator[tuple[str, Monitor]]:
    """Both services; yields their address on loopback."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=_THREADS), options=_OPTIONS)
    monitor = Monitor(engine)
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, server)
    engine_pb2_grpc.add_EngineServicer_to_server(EngineServices(engine, events), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", monitor
    finally:
        server.stop(grace=1.0).wait()
