"""Calls that fail because somebody wants them to."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

ANY_OPERATION = "*"
_STATUS = {
    "RequestLimitExceeded": 503,
    "Unavailable": 503,
    "InternalError": 500,
    "InsufficientInstanceCapacity": 500,
    "UnauthorizedOperation": 403,
    "AuthFailure": 401,
    "RequestExpired": 400,
}
_THROTTLED = "RequestLimitExceeded"


def status_of(code: str) -> int:
    """The HTTP status that EC2 sends with one of its codes."""
    return _STATUS.get(code, 400)


@dataclass
class Fault:
    """What happens to calls of an operation; used up by `times` calls, or over at `until`."""

    operation: str
    code: str
    """EC2's own. Empty: there is no answer at all, the connection ends."""
    after: bool
    """Whether the call takes effect and only its answer is lost."""
    times: int | None = None
    until: float | None = None
    message: str = "It was asked that this call fails."

    @property
    def status(self) -> int:
        return status_of(self.code)


@dataclass
class Faults:
    waiting: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        self.waiting.append(fault)

    def throttle(self, operation: str, until: float) -> None:
        """Every call is one too many until that date."""
        text = "Request limit exceeded."
        self.add(Fault(operation, _THROTTLED, after=False, until=until, message=text))

    def clear(self) -> None:
        self.waiting.clear()

    def take(self, operation: str, now: float) -> Fault | None:
        """What happens to this call of `operation`; the oldest that is not used up."""
        self.waiting = [
            fault
            for fault in self.waiting
            if (fault.until is None or now < fault.until) and fault.times != 0
        ]
        for fault in self.waiting:
            if fault.operation in (operation, ANY_OPERATION):
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None


def error_document(code: str, message: str, request: str) -> bytes:
    """An error as EC2 writes it."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error>'
        f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error></Errors>"
        f"<RequestID>{escape(request)}</RequestID></Response>"
    ).encode()
