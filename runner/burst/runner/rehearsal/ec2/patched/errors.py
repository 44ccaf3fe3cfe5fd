"""Errors of EC2's that moto has no class for."""

from __future__ import annotations

from moto.ec2.exceptions import EC2ClientError


class Problem(EC2ClientError):
    """Any of EC2's codes with its words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)


def unsupported(what: str) -> Problem:
    """For what EC2 can do and the rehearsal cannot."""
    return Problem("UnsupportedOperation", f"The rehearsal cloud lacks this: {what}.")


def token_mismatch() -> Problem:
    return Problem(
        "IdempotentParameterMismatch",
        "Arguments on this idempotent request are inconsistent with arguments used in previous "
        "request(s).",
    )
