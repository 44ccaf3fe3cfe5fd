"""Who asks, and where: as boto3 would have it, for every way that bytes go."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from burst.core.blobs import s3_place, s3_streams
from burst.core.blobs.s3 import S3Blobs
from burst.core.blobs.s3_place import S3Url, find
from burst.core.errors import Refused, Unauthorized, UsageError
from burst.core.testing.fault_proxy import FaultProxy, Spoil, fault_proxy
from tests.core.blobs.mock_s3 import BUCKET, mock_s3

KEY = "AKIDOFTHISTEST"
_prefixes = itertools.count()


@pytest.fixture(scope="module")
def proxied() -> Iterator[FaultProxy]:
    with mock_s3() as url, fault_proxy(url) as proxy:
        yield proxy


@pytest.fixture
def proxy(proxied: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FaultProxy:
    """The server, and an environment without any credentials."""
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_DEFAULT_REGION",
        "AWS_PROFILE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    proxied.signers.clear()
    return proxied


class _Metadata(BaseHTTPRequestHandler):
    """The endpoints that a container and an instance ask for their role's credentials."""

    def do_GET(self) -> None:
        role = self.path.endswith("/security-credentials/")
        self._answer(b"role" if role else json.dumps(_issued()).encode())

    def do_PUT(self) -> None:
        self._answer(b"token")

    def log_message(self, *_: Any) -> None:
        return

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _issued() -> dict[str, str]:
    return {
        "Code": "Success",
        "AccessKeyId": KEY,
        "SecretAccessKey": "secret",
        "Token": "session",
        "Expiration": f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
    }


@pytest.fixture(scope="module")
def metadata() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metadata)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def of_environment(patch: pytest.MonkeyPatch, folder: Path, metadata: str) -> None:
    patch.setenv("AWS_ACCESS_KEY_ID", KEY)
    patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def of_profile(patch: pytest.MonkeyPatch, folder: Path, metadata: str) -> None:
    (folder / "credentials").write_text(
        f"[lab]\naws_access_key_id = {KEY}\naws_secret_access_key = secret\n"
    )
    patch.setenv("AWS_PROFILE", "lab")


def of_program(patch: pytest.MonkeyPatch, folder: Path, metadata: str) -> None:
    (folder / "issued").write_text(json.dumps({"Version": 1, **_issued()}))
    (folder / "config").write_text(
        f"[default]\nregion = eu-west-1\ncredential_process = cat {folder / 'issued'}\n"
    )


def of_container(patch: pytest.MonkeyPatch, folder: Path, metadata: str) -> None:
    patch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{metadata}/creds")


def of_instance(patch: pytest.MonkeyPatch, folder: Path, metadata: str) -> None:
    patch.delenv("AWS_EC2_METADATA_DISABLED")
    patch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata)


@pytest.mark.parametrize(
    "source", [of_environment, of_profile, of_program, of_container, of_instance]
)
def test_bytes_go_with_the_credentials_that_boto3_finds(
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    metadata: str,
    source: Callable[[pytest.MonkeyPatch, Path, str], None],
) -> None:
    source(monkeypatch, tmp_path, metadata)
    blobs = S3Blobs(f"s3://{BUCKET}/{next(_prefixes)}?endpoint_url={proxy.url}")
    blobs.put("a", b"some bytes")
    buffer = bytearray(10)
    assert blobs.read_into("a", memoryview(buffer)) == 10
    assert buffer == b"some bytes"
    assert [info.key for info in blobs.list("")] == ["a"]
    assert proxy.signers == {KEY}


def test_no_credentials_are_told_with_a_mend(proxy: FaultProxy) -> None:
    blobs = S3Blobs(f"s3://{BUCKET}?endpoint_url={proxy.url}")
    for use in (lambda: blobs.get("a"), lambda: blobs.put("a", b"")):
        with pytest.raises(Unauthorized, match="no AWS credentials") as caught:
            use()
        assert "aws sso login" in caught.value.mend


def test_a_profile_that_does_not_exist_is_told(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(UsageError, match="cannot use s3://") as caught:
        S3Blobs(f"s3://{BUCKET}?endpoint_url={proxy.url}").get("a")
    assert "nobody" in caught.value.why


def test_credentials_that_a_role_renews_are_renewed_on_every_way(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, metadata: str
) -> None:
    """As where a training lasts longer than the credentials that it began with."""
    of_container(monkeypatch, tmp_path, metadata)
    monkeypatch.setattr(s3_streams, "_CREDENTIALS_FOR", timedelta(seconds=0))
    issued, usual = itertools.count(), _issued()

    def short_lived() -> dict[str, str]:
        soon = datetime.now(UTC) + timedelta(minutes=5)  # when botocore asks for others
        key = {"AccessKeyId": f"AKID{next(issued)}"}
        return {**usual, **key, "Expiration": f"{soon:%Y-%m-%dT%H:%M:%SZ}"}

    monkeypatch.setattr(f"{__name__}._issued", short_lived)
    blobs = S3Blobs(f"s3://{BUCKET}/{next(_prefixes)}?endpoint_url={proxy.url}")
    uses: list[Callable[[], object]] = [
        lambda: blobs.put("a", b"some bytes"),
        lambda: blobs.read_into("a", memoryview(bytearray(10))),
        lambda: blobs.get("a"),
    ]
    for use in uses:
        signers = []
        for _ in range(3):
            proxy.signers.clear()
            use()
            signers.append(frozenset(proxy.signers))
        assert len(set(signers)) == 3, "a use was signed with credentials of an earlier one"


def test_obstore_asks_for_credentials_again_before_they_can_end() -> None:
    """botocore renews those that end within ten minutes."""
    assert timedelta(minutes=1) <= s3_streams._CREDENTIALS_FOR < timedelta(minutes=10)


def test_credentials_that_are_not_accepted_are_looked_for_anew(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_profile(monkeypatch, tmp_path, "")
    blobs = S3Blobs(f"s3://{BUCKET}/{next(_prefixes)}?endpoint_url={proxy.url}")
    blobs.put("a", b"some bytes")
    uses: dict[str, Callable[[], object]] = {
        "PUT": lambda: blobs.put("a", b"some bytes"),
        "GET": lambda: blobs.read_into("a", memoryview(bytearray(10))),
        "HEAD": lambda: blobs.info("a"),
    }
    for number, (method, use) in enumerate(uses.items()):
        key = f"AKIDAFTERLOGIN{number}"
        text = f"[lab]\naws_access_key_id = {key}\naws_secret_access_key = secret\n"
        (tmp_path / "credentials").write_text(text)
        proxy.spoils = [(method, Spoil.UNKNOWN_KEY)]
        proxy.signers.clear()
        if method == "HEAD":  # whose answer has no body to tell why in
            with pytest.raises(Refused):
                use()
            continue
        use()
        assert key in proxy.signers
        proxy.spoils = [(method, Spoil.UNKNOWN_KEY)] * 2
        with pytest.raises(Unauthorized, match="does not accept the AWS credentials"):
            use()


@pytest.mark.parametrize(
    ("option", "variables", "region"),
    [
        ("&region=eu-north-1", {"AWS_DEFAULT_REGION": "eu-west-1"}, "eu-north-1"),
        ("", {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_REGION": "eu-west-2"}, "eu-west-1"),
        ("", {"AWS_REGION": "eu-west-2"}, "eu-west-2"),
        ("", {"AWS_PROFILE": "lab"}, "eu-south-1"),
        ("", {"AWS_PROFILE": "lab", "AWS_REGION": "eu-west-2"}, "eu-west-2"),
        ("", {}, "us-east-1"),
    ],
)
def test_the_region_is_of_the_url_or_the_environment_or_the_profile_or_the_usual(
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: str,
    variables: dict[str, str],
    region: str,
) -> None:
    of_profile(monkeypatch, tmp_path, "")
    monkeypatch.delenv("AWS_PROFILE")
    (tmp_path / "config").write_text("[profile lab]\nregion = eu-south-1\n")
    of_environment(monkeypatch, tmp_path, "")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    place = find(S3Url.parse(f"s3://{BUCKET}/p?endpoint_url={proxy.url}{option}"))
    assert place.region == region
    assert place.url_of("p/a=b+c") == f"{proxy.url}/{BUCKET}/p/a%3Db%2Bc"


def test_aws_is_asked_in_which_region_a_bucket_is(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(s3_place, "_is_aws", lambda _: True)
    url = f"s3://bucket-in-europe/p?endpoint_url={proxy.url}"
    client = find(S3Url.parse(url)).client
    where = {"LocationConstraint": "eu-central-1"}
    client.create_bucket(Bucket="bucket-in-europe", CreateBucketConfiguration=where)
    assert find(S3Url.parse(url)).region == "eu-central-1"


def test_on_aws_the_buckets_own_host_is_used(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(s3_place, "_is_aws", lambda _: False)  # so that nothing is sent
    place = find(S3Url.parse("s3://lab/p?region=eu-west-1"))
    assert place.virtual_host
    assert place.url_of("p/a") == "https://lab.s3.eu-west-1.amazonaws.com/p/a"
    place = find(S3Url.parse("s3://lab.with.dots/p?region=eu-west-1"))
    assert not place.virtual_host
    assert place.url_of("p/a") == "https://s3.eu-west-1.amazonaws.com/lab.with.dots/p/a"


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_the_environment_names_the_server_for_every_way_that_bytes_go(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    of_environment(monkeypatch, tmp_path, "")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv(variable, proxy.url)
    blobs = S3Blobs(f"s3://{BUCKET}/{next(_prefixes)}")
    blobs.put("a", b"some bytes")
    assert blobs.read_into("a", memoryview(bytearray(10))) == 10
    assert [info.key for info in blobs.list("")] == ["a"]


def test_a_region_that_only_the_body_tells_is_told() -> None:
    from burst.core.blobs.s3_words import Answer

    body = (
        "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is wrong; expecting "
        "'eu-west-3'</Message><Region>eu-west-3</Region></Error>"
    )
    error = Answer.of_xml(400, body).in_words("n", "lab")
    assert isinstance(error, Refused)
    assert "?region=eu-west-3" in error.mend


def test_a_bucket_in_another_region_is_told_with_the_region() -> None:
    from burst.core.blobs.s3_words import Answer

    error = Answer(301, "PermanentRedirect", "Use the endpoint.", "eu-west-3").in_words("n", "lab")
    assert isinstance(error, Refused)
    assert "?region=eu-west-3" in error.mend


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_credentials_that_do_not_hold_are_told_from_a_policy_that_forbids(code: str) -> None:
    from burst.core.blobs.s3_words import Answer

    expired = Answer(400 if code == "ExpiredToken" else 403, code, "no").in_words("n", "lab")
    assert isinstance(expired, Unauthorized)
    assert "aws sso login" in expired.mend
    assert isinstance(Answer(403, "AccessDenied", "no").in_words("n", "lab"), Refused)
