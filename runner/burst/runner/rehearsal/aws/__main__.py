"""The server: `python -m burst.runner.rehearsal.aws`, which reads ministack's environment."""

from __future__ import annotations

from burst.runner.rehearsal.extra import check_extra


def main() -> None:
    check_extra()
    from ministack.app import main as serve  # type: ignore[import-untyped]

    from burst.runner.rehearsal.aws.roles import install_roles
    from burst.runner.rehearsal.aws.tagged import install_tagged

    install_roles()
    install_tagged()
    serve()


if __name__ == "__main__":
    main()
