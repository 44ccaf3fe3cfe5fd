"""What AWS takes for what a cluster has, without asking: a guide, and never a bill.

They are AWS's public list prices, put down by hand and not read from AWS; those of instances are
in `burst.core.aws.instance_types`.
"""

from __future__ import annotations

REGION = "us-east-1"
DATE = "2026-04"
MONTH_H = 730
"""Hours of a month, as AWS reckons."""

ENDPOINT_H = 0.01
"""An interface endpoint, in one zone."""
NAT_H = 0.045
NAT_GB = 0.045
ADDRESS_H = 0.005
"""A public IPv4 address, which a NAT gateway has."""
ALARM_MONTH = 0.10
DASHBOARD_MONTH = 3.00
FREE_ALARMS, FREE_DASHBOARDS = 10, 3
"""Of every account, for as long as it lasts."""
CALLS_MILLION = 0.20
GB_SECOND = 0.0000166667
"""Of a function on x86_64."""
READS_MILLION = 0.125
TABLE_GB_MONTH = 0.25
BACKUP_GB_MONTH = 0.20
"""Of a table that can be put back to any second of the last 35 days."""
BUCKET_GB_MONTH = 0.023
LOGS_GB = 0.50
DISK_GB_MONTH = 0.08
"""gp3."""
