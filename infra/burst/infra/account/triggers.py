"""What calls the runner: stopped before machines are ended, and started again where `burst down`
was given up half-way, which Pulumi's record does not know of."""

from __future__ import annotations

from burst.core.aws.telling import told
from burst.infra.account.of_runner import mappings_of, rules_of
from burst.infra.account.sorts import Look

_ON = ("Enabled", "Enabling", "Creating", "Updating")
_OFF = ("Disabled", "Disabling")


def stop_triggers(look: Look) -> list[str]:
    """From now on nothing calls the runner; returns what was stopped by this call. Idempotent.

    Raises:
        BurstError: AWS does not answer, or refused.
    """
    with told(f"cannot stop what calls the runner of {look.cluster}"):
        stopped = [name for name in rules_of(look) if _set_rule(look, name, on=False)]
        for each in mappings_of(look):
            if each.get("State") in _ON:
                _set_mapping(look, each["UUID"], on=False)
                stopped.append("the table's stream")
    return stopped


def start_triggers(look: Look) -> list[str]:
    """Undo what `stop_triggers` did; returns what was started by this call. Idempotent.

    Raises:
        BurstError: AWS does not answer, or refused.
    """
    with told(f"cannot start what calls the runner of {look.cluster}"):
        started = [name for name in rules_of(look) if _set_rule(look, name, on=True)]
        for each in mappings_of(look):
            if each.get("State") in _OFF:
                _set_mapping(look, each["UUID"], on=True)
                started.append("the table's stream")
    return started


def _set_rule(look: Look, name: str, *, on: bool) -> bool:
    events = look.client("events")
    is_on = events.describe_rule(Name=name).get("State") != "DISABLED"
    if is_on == on:
        return False
    (events.enable_rule if on else events.disable_rule)(Name=name)
    return True


def _set_mapping(look: Look, id: str, *, on: bool) -> None:
    look.client("lambda").update_event_source_mapping(UUID=id, Enabled=on)
