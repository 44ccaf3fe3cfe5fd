"""One comment on a pull request, whose text is renewed."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from burst.cli.reports.github import GitHub, mark_of
from burst.core.errors import (
    BurstError,
    NotFound,
    Refused,
    Unauthorized,
    Unreachable,
    UsageError,
)
from tests.actions.conftest import Site
from tests.actions.github import COMMENTS, Comments, serving
from tests.actions.test_burst_run import run, write


@pytest.fixture
def comments(monkeypatch: pytest.MonkeyPatch) -> Iterator[Comments]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(Comments()) as made:
        yield made


def hub(comments: Comments) -> GitHub:
    return GitHub(comments.url, "acme/vision", comments.token)


def test_a_second_report_takes_the_place_of_the_first(comments: Comments) -> None:
    first = hub(comments).comment(7, "train", "one")
    second = hub(comments).comment(7, "train", "two")
    assert first == second == "https://github.com/acme/vision/pull/7#issuecomment-1001"
    assert comments.bodies == {1001: f"{mark_of('train')}\ntwo"}


def test_others_are_left_alone(comments: Comments) -> None:
    comments.bodies = {1: "looks good", 2: f"> {mark_of('train')}\nquoted", 3: ""}
    before = dict(comments.bodies)
    hub(comments).comment(7, "train", "mine")
    hub(comments).comment(7, "other", "another's")
    assert {id: comments.bodies[id] for id in before} == before
    assert len(comments.bodies) == 5


def test_its_own_is_found_on_whatever_page_it_is(comments: Comments) -> None:
    comments.bodies = {id: "talk" for id in range(1, 251)}
    comments.bodies[220] = f"{mark_of('train')}\nold"
    hub(comments).comment(7, "train", "new")
    assert comments.bodies[220].endswith("new")
    assert len(comments.bodies) == 250
    assert [each for each in comments.asked if each.startswith("GET")] == [
        f"GET {COMMENTS}?per_page=100&page={page}" for page in (1, 2, 3)
    ]


def test_one_that_was_deleted_meanwhile_is_written_anew(comments: Comments) -> None:
    comments.bodies, comments.vanish = {5: f"{mark_of('train')}\nold"}, True
    hub(comments).comment(7, "train", "new")
    assert list(comments.bodies.values()) == [f"{mark_of('train')}\nnew"]


def test_a_text_that_is_too_long_is_cut(comments: Comments) -> None:
    hub(comments).comment(7, "train", "x" * 100_000)
    assert len(comments.bodies[1001]) == 65_000


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, Unauthorized),
        (403, Refused),
        (404, NotFound),
        (422, Refused),
        (429, Unreachable),
        (500, Unreachable),
        (302, Refused),
    ],
)
def test_what_github_refuses_is_told_in_its_own_words(
    comments: Comments, status: int, kind: type[BurstError]
) -> None:
    comments.refuse = {"POST": status}
    with pytest.raises(kind) as caught:
        hub(comments).comment(7, "train", "text")
    assert type(caught.value) is kind
    assert f"GitHub says {status}: Resource not accessible" in caught.value.why
    assert comments.token not in str(caught.value)
    assert not any("elsewhere" in each for each in comments.asked)


def test_a_person_who_copies_the_mark_keeps_their_comment(comments: Comments) -> None:
    comments.bodies, comments.people = {1: f"{mark_of('train')}\nmine"}, {1}
    hub(comments).comment(7, "train", "one")
    hub(comments).comment(7, "train", "two")
    assert comments.bodies == {
        1: f"{mark_of('train')}\nmine",
        1002: f"{mark_of('train')}\ntwo",
    }


ODD: list[Any] = [
    None,
    5,
    "x",
    [],
    {},
    {"body": 5, "id": 1, "user": None},
    {"body": mark_of("train"), "user": {"type": "Bot"}},
    {"body": mark_of("train"), "id": None, "user": {"type": "Bot"}},
    {"body": mark_of("train"), "id": "7/../8", "user": {"type": "Bot"}},
    {"body": mark_of("train"), "id": True, "user": {"type": "Bot"}},
    {"body": mark_of("train"), "id": 1, "user": "Bot"},
    {"body": mark_of("train"), "id": 1},
]


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_comment_in_a_list_is_passed_by(comments: Comments, odd: Any) -> None:
    comments.says = {"GET": (200, [odd])}
    hub(comments).comment(7, "train", "text")
    assert [each.partition(" ")[0] for each in comments.asked] == ["GET", "POST"]


@pytest.mark.parametrize("odd", [None, 5, "x", {}, {"message": "no"}])
def test_what_is_no_list_of_comments_is_told_and_nothing_is_written(
    comments: Comments, odd: Any
) -> None:
    comments.says = {"GET": (200, odd)}
    with pytest.raises(Unreachable, match="no list of comments"):
        hub(comments).comment(7, "train", "text")
    assert comments.bodies == {}


@pytest.mark.parametrize("odd", [*ODD, {"html_url": 5}])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_where_github_does_not_say_where_the_comment_is_its_pull_request_is_told(
    comments: Comments, odd: Any, method: str
) -> None:
    if method == "PATCH":
        hub(comments).comment(7, "train", "text")
    comments.says = {method: (200, odd)}
    assert hub(comments).comment(7, "train", "text") == "acme/vision#7"


LINES = "a\n::error::b\rc\u202e "


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500])
@pytest.mark.parametrize("message", [None, 5, ["x"], LINES + "{token} " + "x" * 9000])
def test_what_a_server_says_is_told_on_a_line_and_without_the_token(
    comments: Comments, status: int, message: Any
) -> None:
    words = message.format(token=comments.token) if isinstance(message, str) else message
    comments.says = {"POST": (status, {"message": words, "html_url": words})}
    try:
        told = hub(comments).comment(7, "train", "text")
    except BurstError as error:
        told = error.why
    assert comments.token not in told
    assert len(told) <= 500
    assert not set(told) & set("\n\r\u202e")


@pytest.mark.parametrize("token", ["ghs_a\nb", "ghs_a b", "ghs_\u00e9", "  "])
def test_a_token_that_no_header_may_have_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(UsageError) as caught:
        GitHub.of({"GITHUB_REPOSITORY": "a/b", "GITHUB_TOKEN": token})
    assert "ghs_" not in f"{caught.value} {caught.value.why}"


def test_a_line_break_behind_a_token_is_none_of_it() -> None:
    assert GitHub.of({"GITHUB_REPOSITORY": "a/b", "GITHUB_TOKEN": "ghs_a\n"}).token == "ghs_a"


def test_where_nobody_answers_it_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match="cannot comment in acme/vision"):
        GitHub(f"http://127.0.0.1:{port}", "acme/vision", "t").comment(7, "train", "text")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"GITHUB_REPOSITORY": "acme/vision"},
        {"GITHUB_REPOSITORY": "acme/vision/../other", "GITHUB_TOKEN": "t"},
        {"GITHUB_REPOSITORY": "a/b", "GITHUB_TOKEN": "t", "GITHUB_API_URL": "file:///etc"},
    ],
)
def test_what_is_missing_is_told_before_anything_is_sent(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        GitHub.of(environ)


@pytest.mark.slow
def test_the_action_renews_its_comment_at_every_push_and_every_job_has_its_own(
    site: Site, comments: Comments
) -> None:
    write(site, "print('done')")
    event = {"pull_request": {"number": 7}}
    where: dict[str, Any] = {"api_url": comments.url, "event": event}
    one = run(site.job(**where), wait="false", comment="true")
    place = "https://github.com/acme/vision/pull/7#issuecomment-1001"
    assert place in one.steps["Comment"].log.splitlines()
    two = run(site.job(run_id="82", **where), wait="false", comment="true")
    assert not two.failed, two.log
    (body,) = comments.bodies.values()
    assert two.outputs["experiment"] in body
    assert one.outputs["experiment"] not in body
    run(site.job(job="other", **where), wait="false", comment="true")
    assert len(comments.bodies) == 2
    assert not re.search(r"ghs_\w+", "".join([*comments.bodies.values(), one.log, two.log]))

    comments.refuse = {"PATCH": 403, "POST": 403}
    refused = run(site.job(run_id="82", **where), wait="false", comment="true")
    assert not refused.failed
    assert "::warning title=The pull request has no comment::" in refused.log
    assert "pull-requests: write" in refused.log
    site.burst("wait", "latest", "--quiet")


def test_without_a_pull_request_or_the_wish_there_is_no_comment(
    site: Site, comments: Comments
) -> None:
    write(site, "print('done')")
    event = {"pull_request": {"number": 7}}
    quiet = run(site.job(api_url=comments.url, event=event), wait="false")
    pushed = run(site.job(api_url=comments.url), wait="false", comment="true")
    assert quiet.steps["Comment"].outcome == "skipped"
    assert "none to comment on" in pushed.log
    assert comments.asked == []
    site.burst("wait", "latest", "--quiet")
