"""Whether the data that the record has is there: what else would be made anew, and empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burst.core.aws.names import bucket_name, table_name
from burst.core.errors import Refused
from burst.infra.account.of_data import data_there
from burst.infra.account.removing import find_things
from burst.infra.account.sorts import Look
from burst.infra.engine.changes import DATA_TYPES, type_of

_FUNCTION, _VPC = "aws:lambda/function:Function", "aws:ec2/vpc:Vpc"


def missing_data(look: Look, resources: Sequence[Mapping[str, Any]]) -> Refused | None:
    """What is lost, and how it may come back; None where all data that the record has is there, or
    nothing of the cluster is: then it was taken down from another machine.

    Args:
        resources: the record's.

    Raises:
        BurstError: AWS does not tell.
    """
    types = {type_of(str(each["urn"])) for each in resources}
    recorded = {_KINDS[type] for type in types if type in DATA_TYPES}
    gone = sorted(recorded - data_there(look))
    if not gone or (set(gone) == recorded and not _has_rest(look)):
        return None
    return lost(look, gone)


def lost(look: Look, gone: Sequence[str]) -> Refused:
    """In words.

    Args:
        gone: `bucket`, `table`, or both.
    """
    table, bucket = table_name(look.cluster), bucket_name(look.cluster, look.account, look.region)
    named = {"bucket": f"bucket {bucket}", "table": f"table {table}"}
    what = {
        "bucket": "every checkpoint and log that was in the bucket is lost",
        "table": "every record of experiments and trials that was in the table is lost",
    }
    mend = []
    if "table" in gone:
        mend.append(
            "AWS keeps a table that was deleted as it was just before, for 35 days:\n"
            f"  aws dynamodb list-backups --table-name {table} --backup-type SYSTEM\n"
            f"  aws dynamodb restore-table-from-backup --target-table-name {table} "
            "--backup-arn ARN\n"
            "and, once it is there, its tag and all else that it needs:\n"
            f"  aws dynamodb tag-resource --resource-arn ARN_OF_TABLE "
            f"--tags Key=burst:cluster,Value={look.cluster}\n"
            "  burst up --refresh"
        )
    mend.append(f"to have {' and '.join(gone)} made anew, and empty: `burst up --refresh`")
    return Refused(
        f"{' and '.join(named[each] for each in gone)} {'is' if len(gone) == 1 else 'are'} gone: "
        "deleted by somebody, not by burst",
        why="; ".join(what[each] for each in gone),
        mend="\n".join(mend),
    )


def _has_rest(look: Look) -> bool:
    """Whether the cluster was not taken down."""
    found, unseen = find_things(look, data=False, types=(_FUNCTION, _VPC))
    return bool(found) or bool(unseen)


_KINDS = {type: "table" if "dynamodb" in type else "bucket" for type in DATA_TYPES}
