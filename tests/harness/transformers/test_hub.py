"""Models and data sets from a hub, on nodes that reach one and on nodes that do not."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, OfflineModeIsEnabled
from huggingface_hub.utils import _http

from burst.core.launch import LaunchSpec, failures_left
from burst.harness.transformers.script import hub
from burst.harness.transformers.script.hub import Looks, _look


class Gated(http.server.BaseHTTPRequestHandler):
    """A hub whose repositories ask for a token."""

    asked: list[str]

    def do_HEAD(self) -> None:
        self.asked.append(self.path)
        self.send_response(403)
        self.send_header("X-Error-Code", "GatedRepo")
        self.send_header("X-Error-Message", "Access to model a/b is restricted")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def gated() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (Gated,), {"asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def nowhere() -> Iterator[str]:
    """The address of a host that refuses connections; its port stays taken meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(_http, "hf_request_event_hook", _http.hf_request_event_hook)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(hub, "_raised", {})
    monkeypatch.setattr(hub, "LIMIT_S", 0.2)
    _http.close_session()
    hub.patch(_http)
    yield
    _http.close_session()


@pytest.mark.usefixtures("patched")
def test_a_model_from_a_hub_out_of_reach_is_refused_within_seconds_with_what_to_do(
    nowhere: str, tmp_path: Path
) -> None:
    begun = time.monotonic()
    with pytest.raises(LocalEntryNotFoundError) as caught:
        hf_hub_download("some/model", "config.json", endpoint=nowhere, cache_dir=tmp_path)
    assert time.monotonic() - begun < 10
    cause = caught.value.__cause__
    assert isinstance(cause, OfflineModeIsEnabled)
    assert "the model some/model is not on this node" in str(cause)
    assert "Connection refused" in str(cause)
    assert "HF_HOME" in str(cause)


@pytest.mark.usefixtures("patched")
def test_what_is_cached_is_found_without_a_hub(nowhere: str, tmp_path: Path) -> None:
    revision = "a" * 40
    kept = tmp_path / "models--some--model"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text(revision)
    (kept / "snapshots" / revision).mkdir(parents=True)
    (kept / "snapshots" / revision / "config.json").write_text("{}")
    found = hf_hub_download("some/model", "config.json", endpoint=nowhere, cache_dir=tmp_path)
    assert Path(found).read_text() == "{}"


@pytest.mark.usefixtures("patched")
def test_the_answer_of_a_hub_within_reach_is_left_as_it_is(
    gated: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, asked = gated
    with pytest.raises(GatedRepoError, match="Access to model a/b is restricted"):
        hf_hub_download("a/b", "config.json", endpoint=url, cache_dir=tmp_path)
    assert asked


def test_a_host_is_looked_at_once_and_again_after_a_while(
    nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    now = [0.0]

    def look(host: str, port: int, limit: float) -> str:
        looked.append(host)
        return "no such host" if len(looked) == 1 else ""

    monkeypatch.setattr(hub, "_look", look)
    monkeypatch.setattr(hub, "getproxies", dict)
    looks = Looks(now=lambda: now[0])
    assert [looks.fault(nowhere) for _ in range(3)] == ["no such host"] * 3
    now[0] = 61.0
    assert [looks.fault(f"{nowhere}/{number}") for number in range(3)] == [""] * 3
    now[0] = 1e6
    assert looks.fault(nowhere) == ""
    assert len(looked) == 2


def test_a_proxy_is_asked_and_not_gone_round(
    nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert Looks().fault(nowhere) == ""


def test_a_resolver_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()

    def hang(*_: object, **__: object) -> socket.socket:
        answered.wait(60)
        raise OSError("too late")

    monkeypatch.setattr(socket, "create_connection", hang)
    assert _look("hub.example", 443, 0.1) == "no answer within 0.1 seconds"
    answered.set()


ASKING = "from huggingface_hub import hf_hub_download as load"
SCRIPTS = {
    "kept": f"{ASKING}\nload('some/model', 'a.json')\n",
    "lost": f"{ASKING}\ntry:\n    load('some/model', 'a.json')\nexcept OSError:\n    pass\n"
    "raise ConnectionError('cannot reach some/model')\n",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_trials_failure_names_what_was_missing_and_what_to_do(
    script: str, nowhere: str, tmp_path: Path
) -> None:
    spec = LaunchSpec(
        folder=str(tmp_path), store_url="", blobs_url="", checkpoints_url="", experiment="exp-1",
        trial="exp-1.t0000", allocation="alloc-1", node="node-1", attempt=1, token=1, hparams={},
        seed=1, config={},
    )  # fmt: skip
    spec.write()
    path = tmp_path / "code" / "train.py"
    path.write_text(SCRIPTS[script])
    attach = "from burst.harness.transformers.hook import install; install(); import runpy; "
    done = subprocess.run(
        [sys.executable, "-c", f"{attach} runpy.run_path({str(path)!r})"],
        env={
            **os.environ,
            "BURST_LAUNCH": str(tmp_path / "spec.json"),
            "HF_ENDPOINT": nowhere,
            "HF_HOME": str(tmp_path / "home"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    ((_, failure),) = failures_left(tmp_path).values()
    assert done.returncode == 1
    assert failure.kind == "HubUnreachable"
    assert failure.message.startswith("the model some/model is not on this node, and 127.0.0.1:")
    frames = [line for line in failure.traceback.splitlines() if line.startswith("  File")]
    assert len(frames) == 1
    assert str(path) in frames[0]
    assert "HubUnreachable: the model some/model" in failure.traceback
    assert "burst: the model some/model is not on this node" in done.stderr
