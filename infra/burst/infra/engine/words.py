"""What AWS and Pulumi say when something fails, as an error that a person can act on. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from burst.core.aws.answers import DENIED, LOGIN, UNKNOWN_KEYS, WHO
from burst.core.errors import BurstError, Refused, Unauthorized, Unreachable
from burst.infra.engine.changes import kind_of, name_of, type_of

_COLOUR = re.compile(r"<\{%[^%]*%\}>|\x1b\[[0-9;]*m")
_API = re.compile(r"api error (?P<code>[A-Za-z][\w.]*): ?(?P<text>.*)", re.DOTALL)
_MODELLED = re.compile(
    r"RequestID: [^,\s]+,(?: HostID: [^,]*,)? (?P<code>[A-Z]\w+): ?(?P<text>.*)", re.DOTALL
)
_CODE_FIRST = re.compile(r"\b(?P<code>[A-Z][A-Za-z]+(?:\.[A-Z]\w+)*): (?P<text>.+)", re.DOTALL)
_DOING = re.compile(
    r"(?P<doing>\b(?:creating|updating|deleting|reading|putting|waiting for|setting|attaching|"
    r"modifying) (?!urn:)[^:\n]*)"
)
_ACTION = re.compile(
    r"not authorized to perform: (?P<action>[\w*-]+:[\w*]+)(?: on resource: (?P<what>\S+))?"
)
_WHOM = re.compile(r"User: (?P<whom>arn:\S+)")
_TAIL = re.compile(r"(?:: provider=aws@\S+|\s*Encoded authorization failure message: \S+)")
_QUIET = re.compile(
    r"(?:resource )?(?:update|preview|destroy|deletion|refresh) failed[.!]?\Z", re.I
)

_SLOW = (
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TooManyRequestsException",
    "SlowDown",
    "InternalError",
    "InternalFailure",
    "ServiceUnavailable",
    "RequestTimeout",
)
_QUOTAS = {
    "VpcLimitExceeded": "VPCs per Region (L-F678F1CE)",
    "NatGatewayLimitExceeded": "NAT gateways per Availability Zone (L-FE5A380F)",
    "AddressLimitExceeded": "EC2-VPC Elastic IPs (L-0263D0A3)",
    "InternetGatewayLimitExceeded": "Internet gateways per Region (L-A4707A72)",
    "VpcEndpointLimitExceeded": "Interface VPC endpoints per VPC (L-29B6F2EB)",
    "SubnetLimitExceeded": "Subnets per VPC (L-407747CB)",
    "SecurityGroupLimitExceeded": "VPC security groups per Region (L-E79EC296)",
    "RulesPerSecurityGroupLimitExceeded": (
        "Inbound or outbound rules per security group (L-0EA8095F)"
    ),
    "TooManyBuckets": "General purpose buckets (L-DC2B2D3D)",
    "CodeStorageExceededException": "Function and layer storage (L-2ACBD22F)",
}
_NAMES = (
    "EntityAlreadyExists",
    "EntityAlreadyExistsException",
    "BucketAlreadyOwnedByYou",
    "ResourceConflictException",
    "ResourceInUseException",
    "ResourceAlreadyExistsException",
    "InvalidGroup.Duplicate",
    "InvalidLaunchTemplateName.AlreadyExistsException",
    "DuplicateRecordException",
)


@dataclass(frozen=True)
class Said:
    """One thing that Pulumi said while it worked."""

    text: str
    urn: str = ""
    """Of what it is about; empty if it is about nothing alone."""
    severity: str = "error"

    @property
    def plain(self) -> str:
        """Without colours and what is of no use to a person."""
        return _TAIL.sub("", _COLOUR.sub("", self.text)).strip()


def error_of(said: Iterable[Said], rest: str, doing: str, again: str) -> BurstError:
    """The one error that says why an operation failed.

    Args:
        said: in the order in which it was told; the first that names a cause counts, and how many
            others there are is told.
        rest: what the command wrote, where nothing was said.
        doing: what failed as a whole: `the cluster could not be built`.
        again: the command that goes on where this ended.
    """
    errors = [each for each in said if each.severity == "error" and not _is_quiet(each.plain)]
    distinct = _once_each(errors)
    if not distinct:
        return _whole(_COLOUR.sub("", rest).strip(), doing, again)
    causes = [_one(each, again) for each in distinct]
    first = min(causes, key=lambda error: isinstance(error, Unreachable) and not _is_login(error))
    if len(causes) == 1:
        return first
    others = [error.what for error in causes if error is not first]
    more = "\n".join(f"and {what}" for what in others[:5])
    rest_of = f"\nand {len(others) - 5} more" if len(others) > 5 else ""
    why = f"{first.why}\n{more}{rest_of}".strip()
    return type(first)(first.what, why=why, mend=first.mend)


def _once_each(errors: Iterable[Said]) -> list[Said]:
    """Of what was said of one thing, that with AWS's code: Pulumi tells each failure twice, once
    in the provider's words and once in its own. What is about nothing alone only repeats them."""
    found: dict[str, Said] = {}
    for each in errors:
        before = found.get(each.urn)
        if before is None or (not code_of(before.plain)[0] and code_of(each.plain)[0]):
            found[each.urn] = each
    return [each for each in found.values() if each.urn] or list(found.values())


def code_of(text: str) -> tuple[str, str]:
    """AWS's own code in a text, and what it said; empty where there is none."""
    for pattern in (_API, _MODELLED):
        found = pattern.search(text)
        if found:
            return found["code"], _line(found["text"])
    known = (*DENIED, *UNKNOWN_KEYS, *_SLOW, *_QUOTAS, *_NAMES, "BucketAlreadyExists")
    for found in _CODE_FIRST.finditer(text):
        if found["code"] in known:
            return found["code"], _line(found["text"])
    return "", ""


def _one(said: Said, again: str) -> BurstError:
    text = said.plain
    code, words = code_of(text)
    what = _what(said, text)
    if not code:
        return _without_code(what, text, again)
    why = f"{words or 'AWS says no more'} ({code})"
    return _by_code(code, words, what, why, again)


def _by_code(code: str, words: str, what: str, why: str, again: str) -> BurstError:
    if code in UNKNOWN_KEYS:
        return Unauthorized(what, why=why, mend=f"{LOGIN}, and run {again} again")
    if code in DENIED:
        return Refused(what, why=_denied(words, code), mend=_permit(words, again))
    if code in _SLOW:
        return Unreachable(what, why=why, mend=f"run {again} again: it goes on where it stopped")
    if code in _QUOTAS or code.endswith(("LimitExceeded", "LimitExceededException")):
        named = f'"{_QUOTAS[code]}"' if code in _QUOTAS else "the quota that it names"
        mend = f"raise {named} in the Service Quotas console of the region, or free some of it; "
        return Refused(what, why=why, mend=f"{mend}then run {again} again")
    if code == "BucketAlreadyExists":
        mend = "names of buckets are the whole world's: choose another name for `cluster`"
        return Refused(what, why=why, mend=mend)
    if code in _NAMES:
        return Refused(what, why=why, mend=_clash(again))
    if code == "DependencyViolation":
        mend = f"`burst audit` shows what is still there; run {again} again once it has gone"
        return Refused(what, why=why, mend=mend)
    if code in ("OptInRequired", "SubscriptionRequiredException"):
        mend = "enable the region, or the service, in the account's console"
        return Refused(what, why=why, mend=mend)
    return Refused(what, why=why, mend=f"run {again} again once that is mended")


def _without_code(what: str, text: str, again: str) -> BurstError:
    low = text.lower()
    if "python inline source runtime error" in low:
        last = text.strip().splitlines()[-1].strip()
        mend = "this is a defect of burst: please report it, with what BURST_DEBUG=1 shows"
        return BurstError("burst could not say what to build", why=last, mend=mend)
    if "cannot be deleted because it is protected" in low or "is protected" in low:
        return Refused(what, why=_line(text), mend="`burst down` asks what becomes of the data")
    if "no valid credential" in low or "validate aws credentials" in low or "no ec2 imds" in low:
        return Unauthorized("Pulumi finds no AWS credentials", why=_line(text), mend=LOGIN)
    if "passphrase" in low:
        return _passphrase(text)
    if "plugin" in low and ("download" in low or "install" in low or "not found" in low):
        mend = (
            "Pulumi loads it down from get.pulumi.com or github.com: allow that, or install it by "
        )
        mend += f"hand with `pulumi plugin install resource aws`; then run {again} again"
        return Unreachable("Pulumi's plugin for AWS is not there", why=_line(text), mend=mend)
    if "deadline exceeded" in low or "timeout while waiting" in low or "connection" in low:
        mend = f"run {again} again: it goes on where it stopped"
        return Unreachable(what, why=_line(text), mend=mend)
    return Refused(what, why=_line(text), mend=f"run {again} again once that is mended")


def _whole(text: str, doing: str, again: str) -> BurstError:
    """Nothing was said of any resource: the command itself failed."""
    low = text.lower()
    if "passphrase" in low:
        return _passphrase(text)
    if "nosuchbucket" in low:
        return Refused(
            f"{doing}: its bucket is not there",
            why=_line(text),
            mend="make it (`aws s3 mb s3://BUCKET`), or name one that is there with --state",
        )
    why = "\n".join(text.splitlines()[-12:]) or "Pulumi's command ended without a word"
    return Refused(doing, why=why, mend=f"run {again} again; BURST_DEBUG=1 shows more")


def _passphrase(text: str) -> BurstError:
    return Refused(
        "the record of what is there cannot be decrypted",
        why=_line(text),
        mend="set PULUMI_CONFIG_PASSPHRASE, or PULUMI_CONFIG_PASSPHRASE_FILE, to what it was made "
        "with: by default the file pulumi/passphrase of the BURST_HOME that made it",
    )


def _what(said: Said, text: str) -> str:
    thing = f"{kind_of(type_of(said.urn))} {name_of(said.urn)}" if said.urn else ""
    found = _DOING.search(text)
    doing = found["doing"].strip().rstrip(".,") if found else ""
    if thing and doing:
        return f"{thing}: {doing} failed"
    if thing:
        return f"{thing} failed"
    return f"{doing} failed" if doing else "it failed"


def _denied(words: str, code: str) -> str:
    action, whom = _ACTION.search(words), _WHOM.search(words)
    if action is None:
        return f"{words or 'the credentials in use may not do it'} ({code})"
    on = f" on {action['what']}" if action["what"] else ""
    who = whom["whom"] if whom else "whoever asks"
    return f"{who} may not do {action['action']}{on} ({code})"


def _permit(words: str, again: str) -> str:
    action = _ACTION.search(words)
    allow = f"allow {action['action']}, or use" if action else "use"
    return f"{allow} credentials of an administrator ({WHO}); then run {again} again"


def _clash(again: str) -> str:
    return (
        "something of that name is there and this record does not know of it: another cluster of "
        "the same name, or one whose record was lost. Choose another name for `cluster`, or "
        f"remove that one first: `burst down`; then run {again} again"
    )


def _is_login(error: BurstError) -> bool:
    return isinstance(error, Unauthorized)


def _is_quiet(text: str) -> bool:
    return not text or _QUIET.match(text) is not None


def _line(text: str) -> str:
    """On one line, without Pulumi's own prefixes and counts."""
    text = re.sub(r"\A(?:error: )?(?:\d+ errors? occurred:)?\s*\*?\s*", "", text.strip())
    text = re.sub(r"sdk-v2/provider2\.go:\d+: sdk\.helper_schema: ", "", text)
    return " ".join(text.split())
