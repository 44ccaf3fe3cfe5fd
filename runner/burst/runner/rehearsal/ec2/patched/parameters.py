"""AWS's public parameters in SSM; moto has none of the deep learning images."""

from __future__ import annotations

from typing import Any

from moto.core.utils import utcnow
from moto.ssm.models import Parameter, ParameterDict

from burst.runner.rehearsal.ec2.images import PARAMETERS

_OURS = "/aws/service/deeplearning"


def install_parameters() -> None:
    model: Any = ParameterDict
    plain = model._check_loading_status

    def check(known: Any, key: str) -> None:
        plain(known, key)
        if str(key or "").startswith(_OURS) and not getattr(known, "_has_deeplearning", False):
            known._has_deeplearning = True
            for name, value in PARAMETERS.items():
                known[name].append(_parameter(known, name, value))

    model._check_loading_status = check


def _parameter(known: Any, name: str, value: str) -> Any:
    model: Any = Parameter
    return model(
        account_id=known.account_id,
        name=name,
        value=value,
        parameter_type="String",
        description=None,
        allowed_pattern=None,
        keyid=None,
        last_modified_date=utcnow().timestamp(),
        version=1,
        data_type="aws:ec2:image",
    )
