"""What a rehearsal can do to its cloud: take machines away, make calls fail, see all."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from burst.core.errors import BurstError, NotFound, Refused, Unreachable

_TIMEOUT_S = 60.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ANY = "*"


@dataclass(frozen=True)
class Seen:
    """A machine of the model, with all that is known of it. Dates are seconds of the epoch."""

    id: str
    state: str
    """EC2's own word."""
    type: str
    zone: str
    market: str
    """`spot` or `on-demand`."""
    tags: Mapping[str, str]
    placement_group: str
    price: float
    """US dollars an hour."""
    seconds: float
    """For which it costs, up to now or to its end."""
    launched: float
    booted: float | None
    noticed: float | None
    reclaim_at: float | None
    ended: float | None
    """From here on it costs nothing."""
    gone: float | None
    """Nothing of it runs any more."""
    reason: str
    """Why it ended, as EC2's StateReason has it; empty while it lives."""
    partitioned: bool
    folder: str
    """Its disk, which is kept."""

    @property
    def usd(self) -> float:
        """What it has cost."""
        return self.price * self.seconds / 3600


class Ec2Control:
    """The control calls of one model; safe for threads.

    Every call raises `Unreachable` if the model does not answer, `NotFound` for a machine that
    there is not, and `Refused` for what cannot be.
    """

    def __init__(self, url: str) -> None:
        """`url`: of the model, what clients have as AWS_ENDPOINT_URL_EC2."""
        self.url = url.rstrip("/")

    def machines(self) -> list[Seen]:
        """Every one that there ever was, in the order of their launch."""
        return [Seen(**each) for each in self._call("GET", "machines")["machines"]]

    def machine(self, id: str) -> Seen:
        return Seen(**self._call("GET", f"machines/{id}"))

    def console(self, id: str) -> str:
        """All that it wrote, from its boot on."""
        return str(self._call("GET", f"machines/{id}/console")["text"])

    def set_capacity(
        self,
        machines: int | None,
        *,
        type: str = ANY,
        zone: str = ANY,
        market: str = ANY,
        since: float = 0.0,
    ) -> None:
        """How many of those there can be at once, all together; None for any number.

        Args:
            since: not before this date; what held until then holds until then.
        """
        kind = {"type": type, "zone": zone, "market": market}
        self._call("POST", "capacity", {**kind, "machines": machines, "since": since})

    def set_quota(self, vcpus: int, *, market: str = "spot", kind: str = ANY) -> None:
        """What the account may have at once, in vCPUs, of a class of types (`quota_class`).

        Service Quotas tells the same; without any it tells more than anybody asks for.
        """
        self._call("POST", "quota", {"market": market, "kind": kind, "vcpus": vcpus})

    def refuse(
        self,
        code: str,
        message: str = "It was asked that this is refused.",
        *,
        type: str = ANY,
        zone: str = ANY,
        market: str = ANY,
    ) -> None:
        """Refuse those machines with one of EC2's codes: a fleet has it among its `Errors`."""
        kind = {"type": type, "zone": zone, "market": market}
        self._call("POST", "refusals", {**kind, "code": code, "message": message})

    def set_price(
        self, usd: float, *, type: str = ANY, zone: str = ANY, market: str = ANY
    ) -> None:
        """US dollars an hour, from now on and in the history too."""
        self._call("POST", "price", {"type": type, "zone": zone, "market": market, "usd": usd})

    def set_delays(
        self,
        *,
        boot: float | None = None,
        listed_after: float | None = None,
        known_after: float | None = None,
    ) -> None:
        """Seconds (`settings.Settings`); None leaves one as it is."""
        delays = {"boot": boot, "listed_after": listed_after, "known_after": known_after}
        self._call("POST", "delays", {key: s for key, s in delays.items() if s is not None})

    def set_skew(self, seconds: float) -> None:
        """By how much EC2's clock is ahead of this machine's, by which `Seen` has its dates."""
        self._call("POST", "delays", {"skew": seconds})

    def interrupt(self, id: str, notice: float | None = 120.0) -> float:
        """Take a spot machine away in `notice` seconds; None gives no notice: it is gone, and so
        is a machine on demand, which fails.

        Returns the date of its end.
        """
        return float(self._call("POST", f"machines/{id}/interrupt", {"notice": notice})["at"])

    def recommend_rebalance(self, id: str) -> None:
        """Tell a machine that it is likely to be taken away."""
        self._call("POST", f"machines/{id}/rebalance", {})

    def partition(self, id: str, cut: bool = True) -> None:
        """Cut a machine off from all servers but its metadata service, or join it again."""
        self._call("POST", f"machines/{id}/partition", {"cut": cut})

    def fail(
        self,
        operation: str,
        code: str = "",
        *,
        times: int = 1,
        when: Literal["before", "after"] = "before",
    ) -> None:
        """Make the next calls of an EC2 operation (`*`: of any) fail.

        Args:
            code: what is answered; empty drops the connection without any answer.
            when: before the call has any effect, or after all of it: then only the answer is lost.
        """
        body = {"operation": operation, "code": code, "times": times, "after": when == "after"}
        self._call("POST", "faults", body)

    def throttle(self, operation: str = ANY, seconds: float = 60.0) -> None:
        """Answer RequestLimitExceeded to every call of an operation for so long."""
        self._call("POST", "throttle", {"operation": operation, "seconds": seconds})

    def heal(self) -> None:
        """Forget every fault and throttle that is left."""
        self._call("DELETE", "faults")

    def reset_rules(self) -> None:
        """Forget every rule of capacity, quota, refusal and price that was set."""
        self._call("DELETE", "rules")

    def calls(self) -> Mapping[str, int]:
        """How often each operation was called so far."""
        found: dict[str, int] = self._call("GET", "calls")["calls"]
        return found

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_burst/{path}", data, method=method)
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_S) as response:
                return json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            kinds: dict[int, type[BurstError]] = {404: NotFound, 409: Refused}
            raise kinds.get(error.code, BurstError)(text) from error
        except OSError as error:
            raise Unreachable(
                f"the rehearsal cloud at {self.url} does not answer", why=str(error)
            ) from error
