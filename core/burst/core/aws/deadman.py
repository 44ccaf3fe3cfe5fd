"""The timers that end a machine when nobody can be seen to need it, for its boot script.

They are a shell script (`deadman.sh` beside this file) that needs neither an agent nor
credentials, so they hold whatever became of burst on the machine.
"""

from __future__ import annotations

from importlib.resources import files

MAX_LIFE_MARGIN_S = 3600
"""The agent drains a machine at its pool's `max_life`; so much later it ends in any case."""


def deadman_script() -> str:
    """The script itself; see its head for what it does and the variables that it reads."""
    return files("burst.core.aws").joinpath("deadman.sh").read_text()


def deadman_lines(max_life: float) -> str:
    """Lines of shell that start the timers, for `templates.boot_script(before=…)`.

    The boot script becomes the agent, so its own process is the one that they watch. User data is
    run at a machine's first boot alone, so with systemd they are a unit at every later one.

    Args:
        max_life: seconds that the pool's machines may live (`AwsPool.max_life`).
    """
    limit = int(max_life) + MAX_LIFE_MARGIN_S
    return f"""( umask 077; cat > "$etc/deadman.sh" <<'BURST_DEADMAN'
{deadman_script().rstrip()}
BURST_DEADMAN
)
units=${{BURST_UNITS:-}}
if [ -z "$units" ] && [ "$etc" = /etc/burst ] && [ -d /run/systemd/system ]; then
    units=/etc/systemd/system
fi
if [ -n "$units" ]; then
    cat > "$units/burst-deadman.service" <<BURST_UNIT
[Unit]
Description=burst: end this machine if nobody needs it

[Service]
Environment=BURST_MAX_LIFE={limit}
ExecStart=/bin/sh $etc/deadman.sh
Restart=always
StandardOutput=journal+console

[Install]
WantedBy=multi-user.target
BURST_UNIT
    systemctl enable burst-deadman.service || echo "burst: no timers after a reboot"
fi
BURST_AGENT_PID=$$ BURST_MAX_LIFE={limit} sh "$etc/deadman.sh" &
"""
