"""Comments on pull requests of GitHub, through its REST API."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from burst.cli.views.text import one_line
from burst.core.errors import BurstError, NotFound, Refused, Unauthorized, Unreachable, UsageError

_API = "https://api.github.com"
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_TOKEN = re.compile(r"[!-~]{1,10000}")
_INSTALLED = "ghs_"
"""How tokens of apps begin, as those of jobs are: what they write is a bot's."""
_PAGE, _MOST_PAGES = 100, 50
_WAIT_S = 20.0
_MOST_LETTERS = 65_000
"""Of a comment; GitHub takes 65,536."""
_MOST_TOLD = 500
"""Of what GitHub says."""


class _NoRedirect(HTTPRedirectHandler):
    """The token is for one host."""

    def redirect_request(self, *given: Any, **named: Any) -> None:
        return None


@dataclass(frozen=True)
class GitHub:
    """One repository.

    Args:
        api: URL of the API.
        repository: `owner/name`.
        token: with the permission `pull-requests: write`.
    """

    api: str
    repository: str
    token: str

    @staticmethod
    def of(environ: Mapping[str, str]) -> GitHub:
        """As GitHub Actions tell it.

        Raises:
            UsageError: something is missing or means nothing.
        """
        repository, token = environ.get("GITHUB_REPOSITORY", ""), environ.get("GITHUB_TOKEN", "")
        token = token.strip()
        api = environ.get("GITHUB_API_URL") or _API
        if not _REPOSITORY.fullmatch(repository):
            raise UsageError(
                "it is not known which repository of GitHub to comment in",
                why=f"GITHUB_REPOSITORY is {repository!r}",
                mend="set it to owner/name",
            )
        if not token:
            raise UsageError(
                "there is no token to comment with",
                why="GITHUB_TOKEN is not set",
                mend="in a workflow: `env: {GITHUB_TOKEN: ${{ github.token }}}`",
            )
        if not _TOKEN.fullmatch(token):
            raise UsageError(
                "GITHUB_TOKEN is no token",
                why="it has spaces, line breaks or letters in it that no header may have",
            )
        if urlsplit(api).scheme not in ("http", "https"):
            raise UsageError(f"GITHUB_API_URL is {api!r}", mend="it begins with https://")
        return GitHub(api.rstrip("/"), repository, token)

    def comment(self, pull_request: int, name: str, body: str) -> str:
        """Put `body` on a pull request, in place of the comment of the same name if one is there;
        returns its URL, or where it is if GitHub does not say it. May be repeated.

        Raises:
            Unauthorized, Refused: the token is not accepted, or may not comment there.
            NotFound: there is no such pull request, or the token sees none.
            Unreachable: GitHub did not answer, or not as its API does.
        """
        mark, where = mark_of(name), f"{self.repository}#{pull_request}"
        place = f"/repos/{self.repository}/issues"
        text = f"{mark}\n{body}"[:_MOST_LETTERS]
        mine = self._find(f"{place}/{pull_request}/comments", mark)
        if mine is not None:
            try:
                answer = self._ask("PATCH", f"{place}/comments/{mine}", {"body": text})
            except (NotFound, Refused):  # it was deleted since, or somebody else has copied it
                pass
            else:
                return self._url(answer) or where
        answer = self._ask("POST", f"{place}/{pull_request}/comments", {"body": text})
        return self._url(answer) or where

    def _find(self, path: str, mark: str) -> int | None:
        for page in range(1, _MOST_PAGES + 1):
            found = self._ask("GET", f"{path}?per_page={_PAGE}&page={page}")
            if not isinstance(found, list):
                raise Unreachable(
                    f"cannot comment in {self.repository}",
                    why=f"what {self.api} answers is no list of comments",
                )
            for each in found:
                if isinstance(each, dict) and self._is_mine(each, mark):
                    return int(each["id"])
            if len(found) < _PAGE:
                return None
        return None

    def _is_mine(self, comment: Mapping[str, Any], mark: str) -> bool:
        """Whether it is one of burst's, and not somebody's who has copied the mark."""
        user, body = comment.get("user"), comment.get("body")
        author = user.get("type") if isinstance(user, dict) else None
        if self.token.startswith(_INSTALLED) and author != "Bot":
            return False
        return type(comment.get("id")) is int and str(body or "").startswith(mark)

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        request = Request(
            self.api + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "User-Agent": "burst",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        what = f"cannot comment in {self.repository}"
        try:
            with _opener().open(request, timeout=_WAIT_S) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                raise self._told(what, error) from None
        except (URLError, HTTPException, OSError, ValueError, RecursionError) as error:
            raise Unreachable(what, why=self._safe(f"{self.api}: {error}")) from None

    def _told(self, what: str, error: HTTPError) -> BurstError:
        try:
            said = str(json.load(error).get("message") or "")
        except (ValueError, AttributeError, OSError, HTTPException, RecursionError):
            said = ""
        why = self._safe(f"GitHub says {error.code}: {said or error.reason}")
        if error.code == 401:
            return Unauthorized(what, why=why, mend="give it a token that holds")
        if error.code == 403:
            mend = (
                "the job needs `permissions: {pull-requests: write}`; on a fork it cannot have it"
            )
            return Refused(what, why=why, mend=mend)
        if error.code == 404:
            return NotFound(what, why=why, mend="check the number, and what the token may see")
        if error.code < 500 and error.code != 429:
            return Refused(what, why=why)
        return Unreachable(what, why=why, mend="try it again")

    def _safe(self, words: str) -> str:
        """What a server says, fit to be printed: it may repeat the token, or have lines."""
        return one_line(words.replace(self.token, "***"), _MOST_TOLD)

    def _url(self, answer: Any) -> str:
        found = answer.get("html_url") if isinstance(answer, dict) else None
        return self._safe(found) if isinstance(found, str) else ""


def mark_of(name: str) -> str:
    """How a comment of this name begins; nobody sees it."""
    return f"<!-- burst {hashlib.sha256(name.encode()).hexdigest()[:32]} -->"


def _opener() -> OpenerDirector:
    return build_opener(_NoRedirect)
